import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ToolRun {
  /** Exit code; -1 when it could not be started. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const windows = process.platform === 'win32';
const bin = fileURLToPath(new URL('../../node_modules/.bin', import.meta.url));

/** buf, as npm has installed it. */
export const buf = join(bin, windows ? 'buf.cmd' : 'buf');

/** Runs a program to its end. Its own failure is a result like any other. */
export function runTool(
  command: string,
  args: readonly string[],
  { cwd }: { readonly cwd?: string } = {},
): Promise<ToolRun> {
  const { promise, resolve } = Promise.withResolvers<ToolRun>();
  const options = { shell: windows, timeout: 60_000, cwd };
  execFile(command, args, options, (error, stdout, stderr) => {
    const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
    resolve({ code, stdout, stderr });
  });
  return promise;
}
