import type { ChildProcess } from 'node:child_process';

/** Prints what is wrong. The script goes on, and exits with 1. */
export function fail(message: string): void {
  console.log(`FAILED: ${message}`);
  process.exitCode = 1;
}

/** Fails if the process has ended. To be called before the script ends it. */
export function failIfEnded(what: string, { exitCode, signalCode }: ChildProcess): void {
  const end = exitCode ?? signalCode;
  if (end !== null) fail(`${what} ended by itself with ${end}`);
}
