import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ToolRun {
  /** The exit code, or -1 if the program could not be started. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const windows = process.platform === 'win32';
const bin = fileURLToPath(new URL('../../node_modules/.bin', import.meta.url));

/** buf, as npm has installed it. */
export const buf = join(bin, windows ? 'buf.cmd' : 'buf');

/** Whether a program is installed. Asking npm or Maven for its version takes half a second of processor time. */
export function hasTool(name: string): boolean {
  const files = windows ? [`${name}.exe`, `${name}.cmd`] : [name];
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return folders.some((folder) => files.some((file) => existsSync(join(folder, file))));
}

/** Runs a program until it exits. A failure of the program is a normal result. */
export function runTool(
  command: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<ToolRun> {
  const { promise, resolve } = Promise.withResolvers<ToolRun>();
  const options = { shell: windows, timeout: 60_000, cwd, env };
  execFile(command, args, options, (error, stdout, stderr) => {
    const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
    resolve({ code, stdout, stderr });
  });
  return promise;
}
