import { Readable, Writable } from 'node:stream';
import { run } from '../../src/commands/commands.ts';
import type { FinishedProcess } from '../kit/process.ts';

/** What a command gets from a process without variables, input and signals. */
export const quietProcess = () => ({
  env: {},
  nodeVersion: process.version,
  stdin: Readable.from([]),
  onSignal: () => undefined,
  onCrash: () => undefined,
  usage: () => ({ user: 0, system: 0, rss: 0 }),
  exit: () => undefined,
});

/** Runs a command as `main.ts` does, but in this process, which is much faster. */
export async function runCommand(
  args: readonly string[],
  {
    env = {},
    input = '',
    nodeVersion = process.version,
    isTerminal = false,
    writeError,
  }: {
    env?: Readonly<Record<string, string>>;
    input?: string;
    nodeVersion?: string | undefined;
    isTerminal?: boolean;
    /** The failure of each write to the standard output. */
    writeError?: Error;
  } = {},
): Promise<FinishedProcess & { readonly output: readonly string[] }> {
  /** What was written to both streams, in order. */
  const output: string[] = [];
  const [stdout, stderr] = [collect(output, writeError), collect(output)];
  const code = await run({
    ...quietProcess(),
    args,
    env,
    nodeVersion,
    stdin: Readable.from([Buffer.from(input)]),
    stdout: Object.assign(stdout.stream, { isTTY: isTerminal }),
    stderr: Object.assign(stderr.stream, { isTTY: isTerminal }),
    exit: (status) => {
      throw new Error(`the command ended the process with ${status}`);
    },
  });
  return { code, stdout: stdout.text(), stderr: stderr.text(), output };
}

function collect(output: string[], writeError?: Error): { stream: Writable; text: () => string } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      if (writeError) return done(writeError);
      chunks.push(chunk);
      output.push(String(chunk));
      done();
    },
  });
  // As in `main.ts`.
  stream.on('error', () => undefined);
  return { stream, text: () => Buffer.concat(chunks).toString() };
}
