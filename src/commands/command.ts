import { readFile } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { messageOf } from '../domain/errors.ts';

export type Signal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** The exit codes of a process that a signal has ended, as shells have them: 128 and its number. */
export const stopCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/** The parts of the process that a command may use. */
export interface CommandContext {
  /** The arguments after the name of the command. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Such as `v26.10.0`. */
  readonly nodeVersion: string;
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /** Calls `handle` for each signal. */
  readonly onSignal: (signal: Signal, handle: () => unknown) => void;
  /** Calls `handle` when an uncaught error is about to end the process. */
  readonly onCrash: (handle: (cause: unknown) => void) => void;
  /** Ends the process at once, even with work in progress. */
  readonly exit: (code: number) => void;
}

/** Resolves to the exit code: 0 done, 1 failed, 2 wrong usage. */
export type Command = (context: CommandContext) => Promise<number>;

/** Wrong usage of a command: a line for each problem, and exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly problems: readonly string[];

  constructor(...problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** An error that shows the first line of the help. */
export function usageOf(help: string): UsageError {
  return new UsageError(...help.split('\n', 1));
}

/**
 * Runs the work of a command, or prints the help or the version on request. Prints errors. Resolves to the
 * exit code, which is 0 unless the work resolves to another.
 */
export async function runCommand(
  { args, stdout, stderr }: CommandContext,
  help: string,
  work: () => Promise<unknown>,
): Promise<number> {
  const has = (...names: string[]) => args.some((arg) => names.includes(arg));
  try {
    if (has('--help', '-h')) stdout.write(help);
    else if (has('--version', '-v')) stdout.write(`${await version()}\n`);
    else return Number((await work()) ?? 0);
    return 0;
  } catch (error) {
    const problems = error instanceof UsageError ? error.problems : [describeError(error)];
    for (const problem of problems) stderr.write(`users-service: ${problem}\n`);
    return error instanceof UsageError ? 2 : 1;
  }
}

async function version(): Promise<string> {
  return JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')).version;
}

// A password may hold any character, unescaped, so everything up to the last @ is hidden. Hiding too much of
// an unusual URL is better than showing a part of a password.
export function withoutPasswords(text: string): string {
  return text
    .replace(/([a-z]+:\/\/[^:@/?\s]*):.*@/gs, '$1:(hidden)@')
    .replace(/([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&\s]*/gi, '$1(hidden)');
}

/** The message of an error with those of its causes, in one line and without passwords. */
export function describeError(error: unknown): string {
  const messages: string[] = [];
  for (let cause = error; cause !== undefined; cause = cause instanceof Error ? cause.cause : undefined) {
    const message = messageOf(cause);
    // Many errors repeat the message of their cause.
    if (messages.includes(message)) break;
    if (!messages.some((earlier) => earlier.includes(message))) messages.push(message);
  }
  return withoutPasswords(messages.join(': ').replaceAll(/\s+/g, ' '));
}
