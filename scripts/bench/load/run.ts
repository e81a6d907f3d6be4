import { spawn } from 'node:child_process';
import { pin } from '../cores.ts';

/** Runs a load generator on the load's core; resolves to what it printed. */
export async function run(command: string, args: readonly string[]): Promise<string> {
  const pinned = pin('load', command, args);
  const child = spawn(pinned.command, pinned.args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, code] = await Promise.all([
    child.stdout.toArray(),
    child.stderr.toArray(),
    new Promise((resolve, reject) => child.on('error', reject).on('close', resolve)),
  ]);
  const output = Buffer.concat(stdout).toString();
  if (code !== 0) throw new Error(`${command} ended with ${code}:\n${output}${Buffer.concat(stderr)}`);
  return output;
}
