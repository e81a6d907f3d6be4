import { parentPort, workerData } from 'node:worker_threads';
import { OpenFile } from './file.ts';
import { commitGroup, type Write } from './group.ts';
import { connect } from './schema.ts';
import { SqliteWrites } from './writes.ts';

/** What the writer thread is started with. */
export interface WriterData {
  readonly path: string;
  readonly busyTimeoutMs: number;
}

/** A group of writes to commit and answer, or the end. */
export type WriterMessage = readonly Write[] | 'close';

// The entry of a worker thread: an import of it elsewhere is a mistake.
if (parentPort === null) throw new Error('writer-thread.ts runs in a worker thread');
const port = parentPort;
const { path, busyTimeoutMs }: WriterData = workerData;
const db = connect(path);
const writes = new SqliteWrites(db);
const options = { file: new OpenFile(path), busyTimeoutMs };
// From here on, waiting is up to `commitGroup`.
db.exec('PRAGMA busy_timeout = 0');

port.on('message', (message: WriterMessage) => {
  if (message !== 'close') return port.postMessage(commitGroup(db, writes, message, options));
  db.close();
  port.close();
});
