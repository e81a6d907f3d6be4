import { dirname, extname, resolve } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { checkRanges, type Range } from '../../check-range.ts';
import { aborted, DomainError, keyInUse, storeClosed } from '../../domain/errors.ts';
import type { Page, PostQuery, UserFilter, UserQuery } from '../../domain/list-query.ts';
import type { Post, PostDraft } from '../../domain/post.ts';
import {
  type CallOptions,
  type ChangeOptions,
  type Created,
  type CreateOptions,
  idempotencyTtlMs,
  type Store,
  type StoreSummary,
} from '../../domain/repository.ts';
import type { StoredUser, User, UserDraft, UserPatch } from '../../domain/user.ts';
import { fromSqlite } from './errors.ts';
import { makeFolder, OpenFile } from './file.ts';
import { SqliteReads } from './reads.ts';
import { openMigrated } from './schema.ts';
import { WriteQueue } from './write-queue.ts';
import type { WriterData } from './writer-thread.ts';
import type { TimedKey } from './writes.ts';

export interface SqliteStoreOptions {
  /** How long to wait for a lock another process has, in milliseconds, 0 to 60,000. Default: 5,000. */
  readonly busyTimeoutMs?: number;
  /** Writes that may wait or be under way; more are `overloaded`. 1 to 1,000,000. Default: 10,000. */
  readonly maxPendingWrites?: number;
  /** How long an idempotency key is remembered, in milliseconds. Default: a day. */
  readonly idempotencyTtlMs?: number;
  /** The clock idempotency keys expire by, in milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
}

const defaults: Required<SqliteStoreOptions> = {
  busyTimeoutMs: 5_000,
  maxPendingWrites: 10_000,
  idempotencyTtlMs,
  now: Date.now,
};

const ranges: Readonly<Record<Exclude<keyof SqliteStoreOptions, 'now'>, Range>> = {
  busyTimeoutMs: [0, 60_000],
  maxPendingWrites: [1, 1_000_000],
  idempotencyTtlMs: [1, Number.MAX_SAFE_INTEGER],
};

/**
 * Opens the file at `path`, made with its folder when it is missing. Reads run on the calling thread,
 * since they take microseconds; writes on a thread of their own, since a commit waits for the disk.
 */
export async function openSqliteStore(path: string, options: SqliteStoreOptions = {}): Promise<Store> {
  const settings = Object.freeze({ ...defaults, ...options });
  checkRanges(settings, ranges);
  const file = resolve(path);
  try {
    await makeFolder(dirname(file));
    return new SqliteStore(file, await openMigrated(file, settings.busyTimeoutMs), settings);
  } catch (caught) {
    const problem = caught instanceof Error ? caught.message : String(caught);
    throw new DomainError('unavailable', `cannot open the SQLite file ${file}: ${problem}`, {
      cause: caught,
    });
  }
}

// What a slow disk may add to the wait for a lock.
const slowDiskMs = 2_000;

class SqliteStore implements Store {
  readonly #settings: Required<SqliteStoreOptions>;
  readonly #file: OpenFile;
  readonly #db: DatabaseSync;
  readonly #reads: SqliteReads;
  readonly #writes: WriteQueue;
  readonly #keysInUse = new Set<string>();
  #closing: Promise<void> | undefined;

  constructor(path: string, db: DatabaseSync, settings: Required<SqliteStoreOptions>) {
    const { busyTimeoutMs, maxPendingWrites } = settings;
    this.#settings = settings;
    this.#file = new OpenFile(path);
    this.#db = db;
    this.#reads = new SqliteReads(db);
    this.#writes = new WriteQueue({
      startWriter: () => startWriter({ path, busyTimeoutMs }),
      maxPendingWrites,
      maxWaitMs: busyTimeoutMs + slowDiskMs,
    });
  }

  async getUser(id: number, options?: CallOptions): Promise<StoredUser | undefined> {
    return this.#read(options, () => this.#reads.getUser(id));
  }

  async listUsers(query: UserQuery, options?: CallOptions): Promise<Page<User>> {
    return this.#read(options, () => this.#reads.listUsers(query));
  }

  async countUsers(filter: UserFilter, options?: CallOptions): Promise<number> {
    return this.#read(options, () => this.#reads.countUsers(filter));
  }

  async createUser(draft: UserDraft, options?: CreateOptions): Promise<Created<StoredUser>> {
    this.#enter();
    return this.#once(options, (key) => this.#writes.write('createUser', [draft, key]));
  }

  async updateUser(id: number, patch: UserPatch, options?: ChangeOptions): Promise<StoredUser | undefined> {
    this.#enter();
    return this.#writes.write('updateUser', [id, patch, options?.expected]);
  }

  async deleteUser(id: number, options?: ChangeOptions): Promise<boolean> {
    this.#enter();
    return this.#writes.write('deleteUser', [id, options?.expected]);
  }

  async listPosts(userId: number, query: PostQuery, options?: CallOptions): Promise<Page<Post> | undefined> {
    return this.#read(options, () => this.#reads.listPosts(userId, query));
  }

  async countPosts(userId: number, options?: CallOptions): Promise<number | undefined> {
    return this.#read(options, () => this.#reads.countPosts(userId));
  }

  async createPost(
    userId: number,
    draft: PostDraft,
    options?: CreateOptions,
  ): Promise<Created<Post> | undefined> {
    this.#enter();
    return this.#once(options, (key) => this.#writes.write('createPost', [userId, draft, key]));
  }

  async ping(options?: CallOptions): Promise<void> {
    return this.#read(options, () => {
      this.#file.check();
      this.#reads.ping();
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#letGo();
    return this.#closing;
  }

  async summary(): Promise<StoreSummary> {
    return this.#read({}, () => this.#reads.summary());
  }

  async exportUsers(afterId: number, limit: number): Promise<readonly StoredUser[]> {
    return this.#read({}, () => this.#reads.exportUsers(afterId, limit));
  }

  async exportPosts(afterId: number, limit: number): Promise<readonly Post[]> {
    return this.#read({}, () => this.#reads.exportPosts(afterId, limit));
  }

  async importUsers(users: readonly StoredUser[]): Promise<number> {
    this.#enter();
    return this.#writes.write('importUsers', [users]);
  }

  async importPosts(posts: readonly Post[]): Promise<number> {
    this.#enter();
    return this.#writes.write('importPosts', [posts]);
  }

  async continueIds(last: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>): Promise<void> {
    this.#enter();
    return this.#writes.write('continueIds', [last]);
  }

  #enter({ signal }: CallOptions = {}): void {
    if (this.#closing !== undefined) throw storeClosed();
    if (signal?.aborted) throw aborted(signal);
  }

  #read<T>(options: CallOptions | undefined, read: () => T): T {
    this.#enter(options);
    try {
      return read();
    } catch (caught) {
      throw fromSqlite(caught);
    }
  }

  /** Refuses a key whose first use is still under way here; in another process, the lock makes it wait. */
  async #once<T>({ idempotency }: CreateOptions = {}, create: (key?: TimedKey) => Promise<T>): Promise<T> {
    if (idempotency === undefined) return create();
    const { key, fingerprint } = idempotency;
    if (this.#keysInUse.has(key)) throw keyInUse();
    this.#keysInUse.add(key);
    try {
      const now = Math.floor(this.#settings.now());
      return await create({ key, fingerprint, now, expiresAt: now + this.#settings.idempotencyTtlMs });
    } finally {
      this.#keysInUse.delete(key);
    }
  }

  async #letGo(): Promise<void> {
    await this.#writes.drain();
    // The last connection to close tidies up the log, which may take a while: let it be the writer's.
    this.#db.close();
    await this.#writes.close();
  }
}

function startWriter(workerData: WriterData): Worker {
  // Beside this file, with its extension: .ts as the source runs, .js as it is published.
  const entry = new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url);
  // The host's own flags are not for it: with --input-type, for one, it would not start.
  return new Worker(entry, { workerData, name: 'sqlite-writer', execArgv: [] });
}
