import type { Readable, Writable } from 'node:stream';

export type Signal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** All that a command may touch of the process it runs in. */
export interface CommandContext {
  /** What follows the command's name. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /** Calls back each time the signal comes. */
  readonly onSignal: (signal: Signal, handle: () => unknown) => void;
  /** Calls back when an error that nobody caught is about to end the process. */
  readonly onCrash: (handle: (cause: unknown) => void) => void;
  /** Ends the process at once, whatever is under way. */
  readonly exit: (code: number) => void;
}

/** Runs to its end; resolves to the exit code: 0 done, 1 failed, 2 asked for wrongly. */
export type Command = (context: CommandContext) => Promise<number>;
