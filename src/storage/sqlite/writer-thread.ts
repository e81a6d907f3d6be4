import { parentPort, workerData } from 'node:worker_threads';
import { fromSqlite, isBusy } from './errors.ts';
import { type OpenFiles, watchFiles } from './file.ts';
import { connect } from './schema.ts';
import type { Outcome, Write, WriterMessage, WriterReply } from './write-queue.ts';
import { sqliteWrites } from './writes.ts';

/** What the writer thread is started with. */
export interface WriterData {
  readonly files: OpenFiles;
  /** How long to wait for another process's lock, in milliseconds. */
  readonly busyTimeoutMs: number;
  /** How many changes the feed keeps at least; 0: there is no feed. */
  readonly changesKept: number;
}

// About as long as a commit takes: four busy processes get even shares, and an idle wait costs 1 % of a core.
const maxRetryDelayMs = 2;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

// The entry of a worker thread: an import of it elsewhere is a mistake.
if (parentPort === null) throw new Error('writer-thread.ts runs in a worker thread');
const port = parentPort;
const { files, busyTimeoutMs, changesKept }: WriterData = workerData;
const db = connect(files.path);
const writes = sqliteWrites(db, changesKept);
const checkFiles = watchFiles(files);
let isSafe = true;
// From here on, waiting is up to `begin`.
db.exec('PRAGMA busy_timeout = 0');

port.on('message', (message: WriterMessage) => {
  if (message !== 'close') return port.postMessage(commitGroup(message));
  db.close();
  port.close();
});

/**
 * Group commit: makes all the writes in one transaction, so that they share one sync. A write that
 * fails does not fail the others; when the transaction itself fails, all of them have failed.
 */
function commitGroup(group: readonly Write[]): WriterReply {
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
}

/** Throws where what was committed is not in the log on disk. */
function check(): void {
  isSafe = false;
  checkFiles();
  isSafe = true;
}

// SQLite's own waiting sleeps for up to 100 ms between attempts, and has no queue: a process that
// writes all the time would leave the others hardly a gap. Short, uneven sleeps share better.
function begin(): void {
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

function attempt({ name, parameters }: Write): Outcome {
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
