import type { DatabaseSync } from 'node:sqlite';
import { fromSqlite, isBusy } from './errors.ts';
import type { Outcome, Write, WriterReply } from './write-queue.ts';
import type { SqliteWrites } from './writes.ts';

export interface GroupCommitOptions {
  readonly db: Pick<DatabaseSync, 'exec' | 'isTransaction'>;
  readonly writes: SqliteWrites;
  /** Throws when the path of the database no longer leads to the opened files. */
  readonly checkFiles: () => void;
  /** How long to wait for a lock of another process, in milliseconds. */
  readonly busyTimeoutMs: number;
}

// About the time of a commit: four busy processes get equal shares, and waiting costs 1 % of a core.
const maxRetryDelayMs = 2;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Runs all writes of a group in one transaction, so that they share one sync. A failed write does not fail the
 * others. When the transaction itself fails, all of its writes fail.
 */
export function groupCommit({ db, writes, checkFiles, busyTimeoutMs }: GroupCommitOptions) {
  let isSafe = true;

  /** Throws if the commit is not in the log on disk. */
  const check = (): void => {
    isSafe = false;
    checkFiles();
    isSafe = true;
  };
  // SQLite's busy timeout sleeps for up to 100 ms between attempts, and has no queue. A process that always writes
  // would hardly leave a gap for others. Short, uneven sleeps share the lock better.
  const begin = (): void => {
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
  };
  const attempt = ({ name, parameters }: Write): Outcome => {
    try {
      return { value: Reflect.apply(writes[name], writes, parameters) };
    } catch (caught) {
      if (!db.isTransaction) throw caught;
      return failed(caught);
    }
  };

  return (group: readonly Write[]): WriterReply => {
    try {
      begin();
      const outcomes = group.map(attempt);
      // Do not commit to lost files until they are found again.
      if (!isSafe) check();
      db.exec('COMMIT');
      check();
      return { outcomes };
    } catch (caught) {
      if (db.isTransaction) db.exec('ROLLBACK');
      return { outcomes: group.map(() => failed(caught)), failure: caught };
    }
  };
}

function failed(caught: unknown): Outcome {
  const { kind, message, cause } = fromSqlite(caught);
  return { failed: { kind, message, cause } };
}
