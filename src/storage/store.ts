import { type ChangePage, type ChangeQuery, defaultChangesKept, maxChangesKept } from '../domain/change.ts';
import { aborted, DomainError, storeClosed } from '../domain/errors.ts';
import type { ListQuery, Page } from '../domain/list-query.ts';
import type { StoredPost } from '../domain/post.ts';
import type { RecordKind } from '../domain/record.ts';
import {
  type Answer,
  answered,
  type CallOptions,
  type ChangeOptions,
  type Created,
  type CreateOptions,
  idempotencyTtlMs,
  type Records,
  type Store,
  type StoreSummary,
} from '../domain/repository.ts';
import type { StoredUser } from '../domain/user.ts';
import type { Key } from './tables.ts';

/** A record of any kind. */
export type Row = Records[RecordKind];

/** The operations of a database on the records of one kind. */
export interface Collection<One = Row> {
  get(key: Key, options?: CallOptions): Answer<One | undefined>;
  list(filter: object, query: ListQuery<string>, options?: CallOptions): Answer<Page<Omit<One, 'version'>>>;
  count(filter: object, options?: CallOptions): Answer<number>;
  /** `undefined` when the record would belong to a missing one. */
  create(record: object, options?: CreateOptions): Answer<Created<One> | undefined>;
  update(key: Key, patch: object, options?: ChangeOptions): Answer<One | undefined>;
  delete(key: Key, options?: ChangeOptions): Answer<boolean>;
}

type NestedQuery = ListQuery<string> & { readonly filter: object };

/**
 * The operations of one kind of database, from which `createStore` makes a store. They may return synchronously, and do
 * not check for `close` or aborted signals.
 */
export interface StoreBackend {
  readonly changes?: {
    read(query: ChangeQuery, options?: CallOptions): Answer<ChangePage>;
    position(options?: CallOptions): Answer<number>;
  };
  /** Converts an error that a call throws synchronously. Default: `DomainError.from`. */
  readonly toError?: (caught: unknown) => DomainError;
  readonly collections: Readonly<Record<RecordKind, Collection>>;
  ping(options?: CallOptions): Answer<void>;
  summary(): Answer<StoreSummary>;
  exportRows(kind: RecordKind, afterId: number, limit: number): Answer<readonly Row[]>;
  importRows(kind: RecordKind, rows: readonly Row[]): Answer<number>;
  continueIds(last: Readonly<Record<RecordKind, number>>): Answer<void>;
  close(): Answer<void>;
}

/** Empty stores beside the one at a URL, for tests. */
export interface Scratch {
  /** Creates an empty store, and resolves to its URL. */
  next(): Promise<string>;
  /** Ages the idempotency keys of a store; absent if the store accepts a clock. */
  readonly passTime?: (url: string, ms: number) => Promise<void>;
  /** Removes all these stores. */
  remove(): Promise<void>;
}

/** The options of the stores in this process. */
export interface EmbeddedStoreOptions {
  /** The clock by which idempotency keys expire, in milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
  /** How long an idempotency key is kept, in milliseconds. Default: a day. */
  readonly idempotencyTtlMs?: number;
  /** The minimum number of changes that the feed keeps, 0 to 100,000,000; 0: no feed. Default: 100,000. */
  readonly changesKept?: number;
}

export const embeddedNumbers = {
  idempotencyTtlMs: [idempotencyTtlMs, 1, Number.MAX_SAFE_INTEGER],
  changesKept: [defaultChangesKept, 0, maxChangesKept],
} as const;

/**
 * Creates a store from the operations of a database. The store closes once, and then rejects every call. A call whose
 * signal has aborted does not start.
 */
export function createStore(backend: StoreBackend): Store {
  const { changes, toError = DomainError.from } = backend;
  const watchers = new Watchers();
  let closing: Promise<void> | undefined;
  const enter = (options: CallOptions = {}): void => {
    if (closing !== undefined) throw storeClosed();
    const isAborted = options.isAborted ?? options.signal?.aborted;
    if (isAborted && options.signal !== undefined) throw aborted(options.signal);
  };
  /** Makes a call async, and checks for `close` and an aborted signal first. Its last argument may be its options. */
  const guarded =
    <Args extends readonly unknown[], T>(call: (...args: Args) => Answer<T>) =>
    async (...args: Args): Promise<T> => {
      try {
        enter(args.at(-1) as CallOptions | undefined);
        return call(...args);
      } catch (caught) {
        throw toError(caught);
      }
    };
  /** Like `guarded`, and wakes the watchers of the feed after the write. */
  const writing = <Args extends readonly unknown[], T>(call: (...args: Args) => Answer<T>) =>
    guarded((...args: Args) =>
      answered(call(...args), (result) => {
        watchers.written();
        return result;
      }),
    );
  const collection = <One>(kind: RecordKind) => {
    // The description of a table ensures that the type of its records matches its columns.
    const records = backend.collections[kind] as Collection<One>;
    return {
      // Returns no promise if the database returns none: each would cost a microtask.
      get(key: Key, options?: CallOptions): Answer<One | undefined> {
        try {
          enter(options);
          return records.get(key, options);
        } catch (caught) {
          return Promise.reject(toError(caught));
        }
      },
      list: guarded(records.list),
      count: guarded(records.count),
      create: writing(records.create),
      update: writing(records.update),
      delete: writing(records.delete),
    };
  };
  const users = collection<StoredUser>('users');
  /** The records of a kind that belong to users. A list is `undefined` when there is no such user. */
  const nested = <One>(kind: RecordKind) => {
    const records = collection<One>(kind);
    const hasUser = async (id: number, options?: CallOptions) =>
      (await users.get([id], options)) !== undefined;
    return {
      get: (userId: number, id: number, options?: CallOptions) => records.get([id, userId], options),
      async list(userId: number, query: NestedQuery, options?: CallOptions) {
        const page = await records.list({ userId, ...query.filter }, query, options);
        return page.items.length > 0 || (await hasUser(userId, options)) ? page : undefined;
      },
      async count(userId: number, filter: object, options?: CallOptions) {
        const count = await records.count({ userId, ...filter }, options);
        return count > 0 || (await hasUser(userId, options)) ? count : undefined;
      },
      create: (userId: number, draft: object, options?: CreateOptions) =>
        records.create({ ...draft, userId }, options),
      update: (userId: number, id: number, patch: object, options?: ChangeOptions) =>
        records.update([id, userId], patch, options),
      delete: (userId: number, id: number, options?: ChangeOptions) => records.delete([id, userId], options),
    };
  };
  const posts = nested<StoredPost>('posts');

  return {
    getUser: (id, options) => users.get([id], options),
    listUsers: (query, options) => users.list(query.filter, query, options),
    countUsers: (filter, options) => users.count(filter, options),
    // Never `undefined`: a user belongs to no other record.
    createUser: (draft, options) => users.create(draft, options) as Promise<Created<StoredUser>>,
    updateUser: (id, patch, options) => users.update([id], patch, options),
    deleteUser: (id, options) => users.delete([id], options),

    getPost: posts.get,
    listPosts: posts.list,
    countPosts: posts.count,
    createPost: posts.create,
    updatePost: posts.update,
    deletePost: posts.delete,

    ...(changes && {
      changes: {
        read: guarded((query, options) => changes.read(query, options)),
        position: guarded((options) => changes.position(options)),
        watch(wake) {
          enter();
          return watchers.add(wake);
        },
      },
    }),
    ping: guarded(backend.ping),
    summary: guarded(backend.summary),
    exportRows: guarded(backend.exportRows) as Store['exportRows'],
    importRows: writing(backend.importRows),
    continueIds: guarded(backend.continueIds),
    close() {
      watchers.clear();
      closing ??= Promise.resolve(backend.close());
      return closing;
    },
  };
}

/** How often watchers are called, for the changes of other processes. */
const pollIntervalMs = 20;
/** Minimum time between two calls after writes of this process. */
const wakeIntervalMs = 10;

/** The watchers of a feed. */
class Watchers {
  readonly #polls = new Map<() => void, NodeJS.Timeout>();
  #next: NodeJS.Timeout | undefined;
  #wokenAt = 0;

  add(wake: () => void): () => void {
    const watcher = () => {
      if (this.#polls.has(watcher)) wake();
    };
    // In a microtask, an error is an uncaught exception, which fails neither other watchers nor a write.
    this.#polls.set(watcher, setInterval(() => queueMicrotask(watcher), pollIntervalMs).unref());
    return () => this.#remove(watcher);
  }

  /** Must be called after each write. */
  written(): void {
    if (this.#polls.size === 0 || this.#next !== undefined) return;
    const waitMs = this.#wokenAt + wakeIntervalMs - performance.now();
    if (waitMs <= 0) this.#wake();
    else this.#next = setTimeout(() => this.#wake(), waitMs).unref();
  }

  clear(): void {
    for (const watcher of this.#polls.keys()) this.#remove(watcher);
  }

  #wake(): void {
    this.#next = undefined;
    this.#wokenAt = performance.now();
    for (const watcher of this.#polls.keys()) queueMicrotask(watcher);
  }

  #remove(watcher: () => void): void {
    clearInterval(this.#polls.get(watcher));
    this.#polls.delete(watcher);
  }
}
