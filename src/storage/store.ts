import type { ChangePage, ChangeQuery } from '../domain/change.ts';
import { aborted, DomainError, storeClosed } from '../domain/errors.ts';
import type { Row } from '../domain/kinds.ts';
import { toPage } from '../domain/list-query.ts';
import type { RecordKind } from '../domain/record.ts';
import type {
  Answer,
  AnyQuery,
  CallOptions,
  ChangeOptions,
  Collection,
  Created,
  CreateOptions,
  Store,
  StoreSummary,
} from '../domain/repository.ts';
import type { Key } from './tables.ts';

type AnyCollection = Collection<object, object, AnyQuery, undefined>;

export interface TableOperations {
  get(key: Key, options?: CallOptions): Answer<Row | undefined>;
  /** The rows of a page, without their versions, and one more if more rows follow. */
  list(query: AnyQuery, options?: CallOptions): Answer<readonly object[]>;
  count(filter: object, options?: CallOptions): Answer<number>;
  /** `undefined` when the record would belong to a missing one. */
  create(record: object, options?: CreateOptions): Answer<Created<Row> | undefined>;
  update(key: Key, patch: object, options?: ChangeOptions): Answer<Row | undefined>;
  delete(key: Key, options?: ChangeOptions): Answer<boolean>;
}

/** The operations of one kind of database. They may return synchronously, and ignore `close` and aborted signals. */
export interface StoreBackend {
  readonly changes?: {
    read(query: ChangeQuery, options?: CallOptions): Answer<ChangePage>;
    position(options?: CallOptions): Answer<number>;
  };
  /** Converts the error of a call. Default: `DomainError.from`. */
  readonly toError?: (caught: unknown) => DomainError;
  readonly operations: Readonly<Record<RecordKind, TableOperations>>;
  ping(options?: CallOptions): Answer<void>;
  summary(): Answer<StoreSummary>;
  exportRows(kind: RecordKind, afterId: number, limit: number): Answer<readonly Row[]>;
  importRows(kind: RecordKind, rows: readonly Row[]): Answer<number>;
  continueIds(last: Readonly<Record<RecordKind, number>>): Answer<void>;
  close(): Answer<void>;
}

export function noTables(): Error {
  return new Error('it has no tables of this service');
}

/** How often the feed is read for its followers, in ms. Most changes may be those of other processes. */
const pollIntervalMs = 20;

/** Creates a store that closes once, and then rejects every call. A call whose signal has aborted does not start. */
export function createStore(backend: StoreBackend): Store {
  const { changes, toError = DomainError.from } = backend;
  const watches = new Set<NodeJS.Timeout>();
  let closing: Promise<void> | undefined;
  const enter = (options: CallOptions = {}): void => {
    if (closing !== undefined) throw storeClosed();
    // Reading `signal` may create it, so read it only when it is needed.
    const isAborted = options.isAborted ?? options.signal?.aborted;
    if (isAborted && options.signal !== undefined) throw aborted(options.signal);
  };
  /** Makes a call async, after `enter` with its last argument: `CallOptions`, or a value without their fields. */
  const guarded =
    <Args extends readonly unknown[], T>(call: (...args: Args) => Answer<T>) =>
    async (...args: Args): Promise<T> => {
      try {
        enter(args.at(-1) as CallOptions | undefined);
        return await call(...args);
      } catch (caught) {
        throw toError(caught);
      }
    };
  /** The records of a kind, or those of them that belong to a user. */
  const recordsOf = (kind: RecordKind, userId?: number): AnyCollection => {
    const records = backend.operations[kind];
    const owner = userId === undefined ? {} : { userId };
    const keyOf = (id: number): Key => (userId === undefined ? [id] : [id, userId]);
    /** The result of an empty list; `undefined` if it belongs to a missing user. */
    const ifOwned = async <T>(result: T, options?: CallOptions): Promise<T | undefined> => {
      // Not by `users.get`, which fails if the store has begun to close during the call.
      const isOwned = userId === undefined || (await backend.operations.users.get([userId], options));
      return isOwned ? result : undefined;
    };
    return {
      // Returns no promise if the database returns none: each would cost a microtask.
      get(id, options) {
        try {
          enter(options);
          return records.get(keyOf(id), options);
        } catch (caught) {
          return Promise.reject(toError(caught));
        }
      },
      list: guarded(async (query, options) => {
        const ofOwner = { ...query, filter: { ...query.filter, ...owner } };
        const rows = await records.list(ofOwner, options);
        return rows.length > 0 ? toPage(rows, query) : ifOwned({ items: rows }, options);
      }),
      count: guarded(async (filter, options) => {
        const count = await records.count({ ...filter, ...owner }, options);
        return count > 0 ? count : ifOwned(count, options);
      }),
      create: guarded((draft, options) => records.create({ ...draft, ...owner }, options)),
      update: guarded((id, patch, options) => records.update(keyOf(id), patch, options)),
      delete: guarded((id, options) => records.delete(keyOf(id), options)),
    };
  };

  return {
    // The description of a table ensures that the type of its records matches its columns.
    users: recordsOf('users') as Store['users'],
    posts: (userId) => recordsOf('posts', userId) as ReturnType<Store['posts']>,
    ...(changes && {
      changes: {
        read: guarded((query, options) => changes.read(query, options)),
        position: guarded((options) => changes.position(options)),
        watch(wake) {
          enter();
          const watch = setInterval(wake, pollIntervalMs).unref();
          watches.add(watch);
          return () => {
            clearInterval(watch);
            watches.delete(watch);
          };
        },
      },
    }),
    ping: guarded(backend.ping),
    summary: guarded(backend.summary),
    exportRows: guarded(backend.exportRows) as Store['exportRows'],
    importRows: guarded(backend.importRows),
    continueIds: guarded(backend.continueIds),
    close() {
      for (const watch of watches) clearInterval(watch);
      closing ??= Promise.resolve(backend.close());
      return closing;
    },
    async [Symbol.asyncDispose]() {
      await this.close();
    },
  };
}
