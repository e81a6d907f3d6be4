import type { DatabaseSync } from 'node:sqlite';
import { fromSqlite, isBusy } from './errors.ts';
import type { Outcome, Write, WriterReply } from './write-queue.ts';
import type { SqliteWrites } from './writes.ts';

export interface GroupCommitOptions {
  readonly db: Pick<DatabaseSync, 'exec' | 'isTransaction'>;
  readonly writes: SqliteWrites;
  /** Throws when the files at the path of the database are not those that are open. */
  readonly checkFiles: () => void;
  /** How long to wait for another process's lock, in milliseconds. */
  readonly busyTimeoutMs: number;
}

// About as long as a commit takes: four busy processes get even shares, and an idle wait costs 1 % of a core.
const maxRetryDelayMs = 2;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Makes all the writes of a group in one transaction, so that they share one sync. A write that fails does
 * not fail the others; when the transaction itself fails, all of them have failed.
 */
export function groupCommit({ db, writes, checkFiles, busyTimeoutMs }: GroupCommitOptions) {
  let isSafe = true;

  /** Throws where what was committed is not in the log on disk. */
  const check = (): void => {
    isSafe = false;
    checkFiles();
    isSafe = true;
  };
  // SQLite's own waiting sleeps for up to 100 ms between attempts, and has no queue: a process that
  // writes all the time would leave the others hardly a gap. Short, uneven sleeps share better.
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
      // Nothing more is committed to files that were lost, until they are found again.
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
