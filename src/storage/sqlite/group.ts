import type { DatabaseSync } from 'node:sqlite';
import type { ErrorKind } from '../../domain/errors.ts';
import { fromSqlite, isBusy } from './errors.ts';
import type { OpenFile } from './file.ts';
import type { SqliteWrites } from './writes.ts';

export type WriteName = keyof SqliteWrites;
export type WriteArguments<Name extends WriteName> = Parameters<SqliteWrites[Name]>;
export type WriteResult<Name extends WriteName> = ReturnType<SqliteWrites[Name]>;

/** A write on its way to the writer thread. */
export interface Write {
  readonly name: WriteName;
  readonly parameters: readonly unknown[];
}

/** What became of a write; an error that crosses threads loses its class, so it travels in parts. */
export type Outcome =
  | { readonly value: unknown }
  | { readonly failed: { readonly kind: ErrorKind; readonly message: string; readonly cause: unknown } };

export interface GroupOptions {
  readonly file: OpenFile;
  /** How long to wait for another process's lock, in milliseconds. */
  readonly busyTimeoutMs: number;
}

/**
 * Group commit: makes all the writes in one transaction, so that they share one fsync. A write that
 * fails does not fail the others; when the transaction itself fails, all of them have failed.
 */
export function commitGroup(
  db: DatabaseSync,
  writes: SqliteWrites,
  group: readonly Write[],
  { file, busyTimeoutMs }: GroupOptions,
): Outcome[] {
  try {
    begin(db, busyTimeoutMs);
    const outcomes = group.map((write) => attempt(db, writes, write));
    // What is kept in a file without a name is gone with the process.
    file.check();
    db.exec('COMMIT');
    return outcomes;
  } catch (caught) {
    if (db.isTransaction) db.exec('ROLLBACK');
    return group.map(() => failed(caught));
  }
}

// About as long as a commit takes: four busy processes get even shares, and an idle wait costs 1 % of a core.
const maxRetryDelayMs = 2;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

// SQLite's own waiting sleeps for up to 100 ms between attempts, and has no queue: a process that
// writes all the time would leave the others hardly a gap. Short, uneven sleeps share better.
function begin(db: DatabaseSync, busyTimeoutMs: number): void {
  const deadline = performance.now() + busyTimeoutMs;
  for (;;) {
    try {
      db.exec('BEGIN IMMEDIATE');
      return;
    } catch (caught) {
      if (!isBusy(caught) || performance.now() >= deadline) throw caught;
      Atomics.wait(sleeper, 0, 0, Math.random() * maxRetryDelayMs);
    }
  }
}

function attempt(db: DatabaseSync, writes: SqliteWrites, { name, parameters }: Write): Outcome {
  try {
    return { value: Reflect.apply(writes[name], writes, parameters) };
  } catch (caught) {
    if (!db.isTransaction) throw caught;
    return failed(caught);
  }
}

function failed(caught: unknown): Outcome {
  const { kind, message, cause } = fromSqlite(caught);
  return { failed: { kind, message, cause } };
}
