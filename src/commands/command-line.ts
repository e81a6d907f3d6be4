import { fstatSync, readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { parseArgs, promisify } from 'node:util';
import { optionRows } from '../config.ts';
import type { Usage } from '../telemetry/metrics.ts';
import { UsageError, withoutPasswords, withoutSecret } from './errors.ts';

export type Signal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** The parts of the process that a command may use. */
export interface CommandContext {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Such as `v26.10.0`. */
  readonly nodeVersion: string;
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  readonly onSignal: (signal: Signal, handle: () => unknown) => void;
  /** Calls `handle` when an uncaught error is about to end the process. */
  readonly onCrash: (handle: (cause: unknown) => void) => void;
  readonly usage: () => Usage;
  /** Ends the process at once, even with work in progress. */
  readonly exit: (code: number) => void;
}

/** One task of the program, with the arguments that it takes. */
export interface Command {
  readonly help: string;
  /** The names of options that have a value. */
  readonly flags: readonly string[];
  /** The names of options without a value. */
  readonly switches?: readonly string[];
  /** The maximum number of other arguments. Default: 0. */
  readonly positionals?: number;
  /** Resolves to the exit code; `undefined` is 0. */
  readonly run: (context: CommandContext, given: Arguments) => Promise<number | undefined>;
}

export interface Arguments {
  /** The text of each flag that was given; empty for a switch. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
}

// A terminal signals all its processes, and npm passes the signal on to its child again. These count as one signal.
const sameSignalMs = 1_000;

/** Calls `stop` at the first signal, with the exit code for it. A second signal ends the process at once. */
export function onStop(
  { onSignal, exit }: CommandContext,
  stop: (exitCode: number) => unknown,
  signals: readonly Signal[] = ['SIGHUP', 'SIGINT', 'SIGTERM'],
): void {
  let firstAt: number | undefined;
  const handle = (code: number): void => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      stop(code);
    } else if (performance.now() - firstAt > sameSignalMs) {
      exit(code);
    }
  };
  // The exit codes are those of shells.
  for (const signal of signals) onSignal(signal, () => handle(128 + constants.signals[signal]));
}

// Long enough for a slow database.
const cleanUpLimitMs = 20_000;

/** A stack of clean-ups for the end of a command. A signal to stop runs them too, and then ends the process. */
export function cleanUps(context: CommandContext): AsyncDisposableStack {
  const stack = new AsyncDisposableStack();
  const { promise: removed, resolve } = Promise.withResolvers<void>();
  stack.defer(resolve);
  // When the signal arrives, the clean-ups may already be running.
  onStop(context, (code) => {
    // A database or disk that hangs must not keep the process alive.
    setTimeout(() => context.exit(code), cleanUpLimitMs).unref();
    return stack.disposeAsync().finally(() => removed.then(() => context.exit(code)));
  });
  return stack;
}

/** Like `stack.adopt`, also for a value that is still being made when a signal disposes the stack. */
export function adopt<T>(stack: AsyncDisposableStack, making: Promise<T>, end: (made: T) => Promise<void>) {
  stack.defer(() => making.then(end, () => undefined));
  return making;
}

const packageFile = new URL('../../package.json', import.meta.url);
export const packageVersion: string = JSON.parse(readFileSync(packageFile, 'utf8')).version;

/** Writes a text to the output of the command. With `flush`, a regular file is also synced to disk. */
export async function write(stream: Writable, text: string, flush = false): Promise<void> {
  const fd: unknown = Reflect.get(stream, 'fd');
  // The stream of Node.js for a file ignores a partial write, such as on a full disk.
  if (typeof fd === 'number' && fstatSync(fd).isFile()) return writeFileSync(fd, text, { flush });
  await promisify<void>((done) => stream.write(text, done))();
}

/** Writes a text to read. A reader that closes the pipe early, such as `head`, has read what it needs. */
export async function print(stream: Writable, text: string): Promise<void> {
  await write(stream, text).catch((error) => error.code === 'EPIPE' || Promise.reject(error));
}

/** Prints a result as a line, such as `ok    HTTP port: 127.0.0.1:3000 is free`. */
export async function printResult(stream: Writable, level: 'ok' | 'warn' | 'fail', text: string) {
  await print(stream, `${level.padEnd(5)} ${withoutPasswords(text)}\n`);
}

/** Breaks a text of a help into lines of at most 80 columns, the width of many terminals. The first has no indent. */
export function wrap(text: string, indent: string): string {
  return text.replaceAll(new RegExp(`(.{1,${80 - indent.length}})(?: |$)`, 'g'), `${indent}$1\n`).trim();
}

/** Reads `--flag VALUE`, `--flag=VALUE`, switches without a value, and other arguments. */
export function readArguments(given: readonly string[], command: Omit<Command, 'help' | 'run'>): Arguments {
  const { flags: names, switches = [], positionals: most = 0 } = command;
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  // In strict mode, errors name the argument only within a sentence.
  const { tokens } = parseArgs({ args: given.map(withToggleValue), options, strict: false, tokens: true });
  const flags: Record<string, string> = {};
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional' && (token.value === '' || positionals.push(token.value) > most)) {
      // The message does not contain the argument, which may be the rest of a key that was written with a space.
      const problem = token.value === '' ? 'empty' : 'not expected';
      throw new UsageError(`argument ${token.index + 1} is ${problem}; --help lists all options`);
    }
    if (token.kind !== 'option') continue;
    const { name, rawName, value, inlineValue } = token;
    if (names.includes(name)) {
      // Without a value, an option would take the next option as its value.
      if (value === undefined || (!inlineValue && /^-./.test(value))) {
        throw new UsageError(
          `${rawName} must have a value; one that begins with a dash is written ${rawName}=VALUE`,
        );
      }
      if (name in flags) throw new UsageError(`${rawName} must be given once`);
    } else if (!switches.includes(name)) {
      // Only its name, because a key or a URL may follow in the same argument.
      const shown = withoutSecret(rawName.replace(/[\s:/].*/s, ''));
      throw new UsageError(`${shown} is not an option; --help lists all options`);
    } else if (value !== undefined) throw new UsageError(`${rawName} takes no value`);
    flags[name] = value ?? '';
  }
  return { flags, positionals };
}

/** Adds the value `true` to a toggle that was given without a value. */
function withToggleValue(arg: string, at: number, args: readonly string[]): string {
  const isToggle = optionRows.some(([flag, { kind }]) => kind === 'on|off' && arg === `--${flag}`);
  return isToggle && (args[at + 1] ?? '-').startsWith('-') ? `${arg}=true` : arg;
}
