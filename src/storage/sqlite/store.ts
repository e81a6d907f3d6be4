import { dirname, extname, resolve } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { readNumbers } from '../../check-range.ts';
import { defaultChangesKept, maxChangesKept } from '../../domain/change.ts';
import { DomainError, messageOf } from '../../domain/errors.ts';
import { byKind } from '../../domain/record.ts';
import { idempotencyTtlMs, type Store } from '../../domain/repository.ts';
import { createStore } from '../store.ts';
import { sqliteFeed } from './changes.ts';
import { checkFiles, checkWritable, makeFile, makeFolder, openFiles } from './file.ts';
import { sqliteReads } from './reads.ts';
import { openMigrated } from './schema.ts';
import { WriteQueue } from './write-queue.ts';
import type { WriterData } from './writer-thread.ts';

export interface SqliteStoreOptions {
  /** How long to wait for a lock another process has, in milliseconds, 0 to 60,000. Default: 5,000. */
  readonly busyTimeoutMs?: number;
  /** Writes that may wait or be under way; more are `overloaded`. 1 to 1,000,000. Default: 10,000. */
  readonly maxPendingWrites?: number;
  /** How long an idempotency key is remembered, in milliseconds. Default: a day. */
  readonly idempotencyTtlMs?: number;
  /** The clock idempotency keys expire by, in milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
  /** How many changes the feed keeps at least, 0 to 100,000,000; 0: there is no feed. Default: 100,000. */
  readonly changesKept?: number;
}

const numbers = {
  busyTimeoutMs: [5_000, 0, 60_000],
  maxPendingWrites: [10_000, 1, 1_000_000],
  idempotencyTtlMs: [idempotencyTtlMs, 1, Number.MAX_SAFE_INTEGER],
  changesKept: [defaultChangesKept, 0, maxChangesKept],
} as const;

/**
 * Opens the file at `path`, made with its folder when it is missing. Reads run on the calling thread,
 * since they take microseconds; writes on a thread of their own, since a commit waits for the disk.
 */
export async function openSqliteStore(path: string, options: SqliteStoreOptions = {}): Promise<Store> {
  const settings = { ...readNumbers(options, numbers), now: options.now ?? Date.now };
  const file = resolve(path);
  try {
    await makeFolder(dirname(file));
    makeFile(file);
    checkWritable(file);
    return sqliteStore(file, await openMigrated(file, settings.busyTimeoutMs), settings);
  } catch (caught) {
    const problem = messageOf(caught);
    throw new DomainError('unavailable', `cannot open the SQLite file ${file}: ${problem}`, {
      cause: caught,
    });
  }
}

// What a slow disk may add to the wait for a lock.
const slowDiskMs = 2_000;

function sqliteStore(path: string, db: DatabaseSync, settings: Required<SqliteStoreOptions>): Store {
  const { busyTimeoutMs, maxPendingWrites, idempotencyTtlMs, changesKept, now } = settings;
  const files = openFiles(path);
  const reads = sqliteReads(db);
  const feed = changesKept === 0 ? undefined : sqliteFeed(db);
  const queue = new WriteQueue({
    startWriter: () => startWriter({ files, busyTimeoutMs, changesKept }),
    maxPendingWrites,
    maxWaitMs: busyTimeoutMs + slowDiskMs,
    onCommit: () => feed?.wake(),
  });
  queue.start();
  let isTrying = false;

  return createStore({
    ...reads,
    ...(feed && { changes: feed.changes }),
    collections: byKind((kind) => ({
      ...reads.collections[kind],
      create(record, { idempotency, origin } = {}) {
        const usedAt = Math.floor(now());
        const key = idempotency && { ...idempotency, now: usedAt, expiresAt: usedAt + idempotencyTtlMs };
        return queue.write('create', [kind, record, key, origin]);
      },
      update: (key, patch, options) =>
        queue.write('update', [kind, key, patch, options?.expected, options?.origin]),
      delete: (key, options) => queue.write('delete', [kind, key, options?.expected, options?.origin]),
    })),
    importRows: (kind, rows) => queue.write('importRows', [kind, rows]),
    continueIds: (last) => queue.write('continueIds', [last]),
    async ping() {
      checkFiles(files);
      reads.collections.users.get([1]);
      if (queue.failure === undefined) return;
      // Only a write shows whether writes succeed again. It may wait for a lock: the next ping sees its outcome.
      if (!isTrying) {
        isTrying = true;
        const end = () => {
          isTrying = false;
        };
        queue.write('touch', []).then(end, end);
      }
      throw new DomainError('unavailable', 'the store is not available', { cause: queue.failure });
    },
    async close() {
      await queue.drain();
      feed?.close();
      // The last connection to close tidies up the log, which may take a while: let it be the writer's.
      db.close();
      await queue.close();
    },
  });
}

function startWriter(workerData: WriterData): Worker {
  // Beside this file, with its extension: .ts as the source runs, .js as it is published.
  const entry = new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url);
  // The host's own flags are not for it: with --input-type, for one, it would not start.
  return new Worker(entry, { workerData, name: 'sqlite-writer', execArgv: [] });
}
