import { existsSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { DomainError, invalid, keyInUse, messageOf } from '../../domain/errors.ts';
import { byKind } from '../../domain/record.ts';
import type { Store } from '../../domain/repository.ts';
import { readStoreNumbers, type SharedStoreOptions, type StoreNumbers } from '../options.ts';
import { createStore } from '../store.ts';
import { sqliteFeed } from './changes.ts';
import { toDomainError, unavailable } from './errors.ts';
import type { OpenFiles } from './file.ts';
import { checkFiles, checkWritable, makeFile, makeFolder, openFiles, realPath } from './file.ts';
import { sqliteReads } from './reads.ts';
import { migrate, openShared } from './schema.ts';
import { WriteQueue } from './write-queue.ts';
import type { WriterData } from './writer-thread.ts';

export interface SqliteStoreOptions extends SharedStoreOptions {
  /** How long to wait for a lock of another process, in milliseconds, 0 to 60,000. Default: 5,000. */
  readonly busyTimeoutMs?: number;
  /** Maximum number of waiting or running writes; more are `overloaded`. 1 to 1,000,000. Default: 10,000. */
  readonly maxPendingWrites?: number;
  /** Receives the path of the file if this call has created it: the store is new and empty. Default: none. */
  readonly onCreated?: (path: string) => void;
}

/**
 * Opens the file at `path`, and creates it and its folder if it is missing. Reads run on the calling thread, since they
 * take microseconds. Writes run on a separate thread, since a commit waits for the disk. Fails as `invalid` for a
 * `sqlite:` URL or `:memory:`, and as `unavailable` if the file cannot be opened.
 */
export async function openSqliteStore(path: string, options: SqliteStoreOptions = {}): Promise<Store> {
  if (/^(?:sqlite:|:memory:$)/.test(path)) {
    throw invalid('path', 'must be that of a file, not a URL; a store in memory is memory: in openStore');
  }
  const settings = { ...readStoreNumbers(options), now: options.now ?? Date.now };
  const givenPath = resolve(path);
  try {
    const file = realPath(givenPath);
    if (options.mustExist && !existsSync(file)) throw new Error('there is no such file');
    await makeFolder(dirname(file));
    const isNew = makeFile(file);
    checkWritable(file);
    const db = await openShared(file, settings.busyTimeoutMs, (opened) => migrate(opened, options));
    if (isNew) options.onCreated?.(givenPath);
    return sqliteStore(openFiles(file, givenPath), db, settings);
  } catch (caught) {
    const message = `cannot open the SQLite file ${givenPath}: ${messageOf(caught)}`;
    throw new DomainError('unavailable', message, { cause: caught });
  }
}

// Started at once, the writer would delay the first responses. Started at the first write, it could fail, because the
// process may then have too many open files.
const startWriterAfterMs = 200;
// The time that a slow disk may add to the wait for a lock.
const slowDiskMs = 2_000;

function sqliteStore(
  files: OpenFiles,
  db: DatabaseSync,
  settings: StoreNumbers & { readonly now: () => number },
): Store {
  const { busyTimeoutMs, maxPendingWrites, changesKept } = settings;
  // In the folder of this file, with the same extension: .ts in the source, .js in the package.
  const entry = new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url);
  // Not the flags of the host: with --input-type, for example, the thread would not start. Before Node.js 24.15, each
  // thread would repeat the warning that SQLite is experimental. Deno rejects --disable-warning.
  const execArgv = ['--no-warnings'];
  const workerData: WriterData = { files, busyTimeoutMs, changesKept };
  const reads = sqliteReads(db);
  const queue = new WriteQueue({
    startWriter: () => new Worker(entry, { workerData, name: 'sqlite-writer', execArgv }),
    maxPendingWrites,
    maxWaitMs: busyTimeoutMs + slowDiskMs,
  });
  const starting = setTimeout(() => queue.start(), startWriterAfterMs).unref();
  const keysInUse = new Set<string>();

  return createStore({
    ...reads,
    toError: toDomainError,
    ...(changesKept > 0 && { changes: sqliteFeed(db) }),
    operations: byKind((kind) => ({
      ...reads.operations[kind],
      create(record, { idempotency, origin } = {}) {
        if (idempotency === undefined) return queue.write('create', [kind, record, undefined, origin]);
        const { key } = idempotency;
        const now = Math.floor(settings.now());
        const timed = { ...idempotency, now, expiresAt: now + settings.idempotencyTtlMs };
        // If the first request with this key runs in another process, this one waits for the lock.
        if (keysInUse.has(key)) throw keyInUse();
        keysInUse.add(key);
        return queue.write('create', [kind, record, timed, origin]).finally(() => keysInUse.delete(key));
      },
      update: (key, patch, options) =>
        queue.write('update', [kind, key, patch, options?.expected, options?.origin]),
      delete: (key, options) => queue.write('delete', [kind, key, options?.expected, options?.origin]),
    })),
    importRows: (kind, rows) => queue.write('importRows', [kind, rows]),
    continueIds: (last) => queue.write('continueIds', [last]),
    ping() {
      checkFiles(files);
      reads.operations.users.get([1]);
      if (queue.failure === undefined) return;
      queue.tryAgain();
      throw unavailable(queue.failure.cause);
    },
    async close() {
      clearTimeout(starting);
      // First the writer: after the last connection, SQLite removes the log, and a starting writer would not find it.
      await queue.close();
      db.close();
    },
  });
}
