import { parentPort, workerData } from 'node:worker_threads';
import { type OpenFiles, watchFiles } from './file.ts';
import { groupCommit } from './group-commit.ts';
import { connect } from './schema.ts';
import type { WriterMessage } from './write-queue.ts';
import { sqliteWrites } from './writes.ts';

/** What the writer thread is started with. */
export interface WriterData {
  readonly files: OpenFiles;
  /** How long to wait for another process's lock, in milliseconds. */
  readonly busyTimeoutMs: number;
  /** How many changes the feed keeps at least; 0: there is no feed. */
  readonly changesKept: number;
}

// The entry of a worker thread: an import of it elsewhere is a mistake.
if (parentPort === null) throw new Error('writer-thread.ts runs in a worker thread');
const port = parentPort;
const { files, busyTimeoutMs, changesKept }: WriterData = workerData;
const db = connect(files.path);
const writes = sqliteWrites(db, changesKept);
const commitGroup = groupCommit({ db, writes, checkFiles: watchFiles(files), busyTimeoutMs });
// From here on, waiting is up to `commitGroup`.
db.exec('PRAGMA busy_timeout = 0');

port.on('message', (message: WriterMessage) => {
  if (message !== 'close') return port.postMessage(commitGroup(message));
  db.close();
  port.close();
});
