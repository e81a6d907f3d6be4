import { parentPort, workerData } from 'node:worker_threads';
import { type OpenFiles, watchFiles } from './file.ts';
import { groupCommit } from './group-commit.ts';
import { connect } from './schema.ts';
import type { WriterMessage } from './write-queue.ts';
import { sqliteWrites } from './writes.ts';

/** The options of the writer thread. */
export interface WriterData {
  readonly files: OpenFiles;
  /** How long to wait for a lock of another process, in milliseconds. */
  readonly busyTimeoutMs: number;
  /** The minimum number of changes that the feed keeps; 0: no feed. */
  readonly changesKept: number;
}

// The entry of a worker thread: an import of it elsewhere is a mistake.
if (parentPort === null) throw new Error('writer-thread.ts runs in a worker thread');
const port = parentPort;
const { files, busyTimeoutMs, changesKept }: WriterData = workerData;
const db = connect(files.path);
const writes = sqliteWrites(db, changesKept);
const commitGroup = groupCommit({ db, writes, checkFiles: watchFiles(files), busyTimeoutMs });
// From now on, `commitGroup` waits for locks.
db.exec('PRAGMA busy_timeout = 0');

port.on('message', (message: WriterMessage) => {
  if (message !== 'close') return port.postMessage(commitGroup(message));
  db.close();
  port.close();
});
