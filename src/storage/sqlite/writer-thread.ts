import type { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { diskError, isBusy, isForeignKeyRejected, isReadOnly, toDomainError } from './errors.ts';
import { checkFiles, type OpenFiles, watchFiles } from './file.ts';
import { connect, isLogUnused } from './schema.ts';
import type { Failure, Outcome, Write, WriterMessage, WriterReply } from './write-queue.ts';
import { type SqliteWrites, sqliteWrites } from './writes.ts';

export interface WriterData {
  readonly files: OpenFiles;
  readonly busyTimeoutMs: number;
  readonly changesKept: number;
}

// About the time of a commit, so that busy processes get about equal shares of the lock.
const maxRetryDelayMs = 2;
// For `Atomics.wait`, which nothing ends early.
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Returns a function that runs all writes of a group in one transaction, so that they share one sync. A failed write
 * does not fail the others. When the transaction itself fails, all of its writes fail. Throws if the connection cannot
 * write.
 */
export function groupCommit(
  db: Pick<DatabaseSync, 'exec' | 'isTransaction'>,
  writes: SqliteWrites,
  files: ReturnType<typeof watchFiles>,
  busyTimeoutMs: number,
) {
  /** Whether the last commit is known to be in the files at these paths, which another program may replace. */
  let isKept = true;
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
      // All writes of the group fail: the transaction has been rolled back, or the connection cannot write.
      if (!db.isTransaction || isReadOnly(caught)) throw caught;
      return failed(caught);
    }
  };

  const commit = (group: readonly Write[]): WriterReply => {
    try {
      begin();
      files.checkLength();
      // If the last commit may be in lost files, commit nothing until they are back.
      if (!isKept) files.check();
      const value = group.map(attempt);
      isKept = false;
      db.exec('COMMIT');
      files.check();
      isKept = true;
      return { value };
    } catch (caught) {
      if (db.isTransaction) db.exec('ROLLBACK');
      // A file could not be opened for writing, such as without a free file descriptor. SQLite has opened it to read,
      // and does not try again. So end the thread: the next write starts another one.
      if (isReadOnly(caught)) throw caught;
      if (!isForeignKeyRejected(caught)) return failed(caught);
      // COMMIT checks deferred foreign keys of other programs. Commit each half alone, so that the others succeed.
      if (group.length === 1) return { value: [failed(caught)] };
      const half = Math.ceil(group.length / 2);
      const halves = [group.slice(0, half), group.slice(half)].flatMap((part) => {
        const reply = commit(part);
        return 'value' in reply ? reply.value : part.map(() => reply);
      });
      return { value: halves };
    }
  };
  return commit;
}

function failed(caught: unknown): { readonly failed: Failure } {
  const { kind, message, cause, isFinal } = toDomainError(caught);
  // An error loses its result code between threads, but not its message.
  return { failed: { kind, message, cause: diskError(cause) ?? cause, isFinal } };
}

// Tests import this file without a thread.
if (parentPort !== null) {
  const port = parentPort;
  const { files, busyTimeoutMs, changesKept }: WriterData = workerData;
  checkFiles(files);
  const db = connect(files.path);
  const watched = watchFiles(files, () => isLogUnused(files.path));
  const commitGroup = groupCommit(db, sqliteWrites(db, changesKept), watched, busyTimeoutMs);
  // From now on, `commitGroup` waits for locks.
  db.exec('PRAGMA busy_timeout = 0');
  port.on('message', (message: WriterMessage) => {
    if (message === 'close') {
      db.close();
      port.close();
    } else port.postMessage(commitGroup(message));
  });
}
