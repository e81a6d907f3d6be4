import type { ChangePage, ChangeQuery, Origin } from './change.ts';
import type { Records } from './kinds.ts';
import type { ListQuery, Page } from './list-query.ts';
import type { Post, PostDraft, PostQuery } from './post.ts';
import type { Patch, RecordKind, Stored } from './record.ts';
import type { User, UserDraft, UserQuery } from './user.ts';

/**
 * The contract of every store of users and posts. Its callers have parsed all values.
 *
 * - A write is acknowledged (its promise resolves) only when it is as durable as the store can make it.
 * - Ids ascend from 1 and are never reused, not even after a deletion or a restart.
 * - Ids and versions end at 2,147,483,647. Then a creation fails with `unavailable` and a change with `conflict`,
 *   both `isFinal`.
 * - Texts are ordered by code point, an absent role first, and ties by `id`, in the direction of the last sort key.
 * - Records are plain objects with exactly the fields of their type. An unset optional field is absent.
 * - A lookup that finds nothing returns `undefined` (or `false`), never an error.
 * - Failures are `DomainError`s: `unavailable` when the store cannot be reached or is closed, `overloaded` when it has
 *   too much work, `deadline-exceeded` when the caller's signal ended the call with a `TimeoutError`, `cancelled` when
 *   it did so with another reason, else `internal`.
 * - Reads end when the signal aborts; a write continues.
 */
export interface Repository {
  /** The feed of changes; absent if the store keeps none. */
  readonly changes?: ChangeFeed;

  readonly users: Collection<User, UserDraft, UserQuery>;

  /** The posts of a user. When there is no such user, a list, a count and a creation resolve to `undefined`. */
  posts(userId: number): Collection<Post, PostDraft, PostQuery, undefined>;

  /** Resolves when the store responds; fails with `unavailable` otherwise. */
  ping(options?: CallOptions): Promise<void>;

  /** Waits for running writes and releases all resources. Further calls do nothing. */
  close(): Promise<void>;
}

/** The records of one kind, or only those of one user. A record of another user is not found. */
export interface Collection<Fields, Draft, Query extends AnyQuery, Missing extends undefined = never> {
  /** May return without a promise, because most requests read one record. */
  get(id: number, options?: CallOptions): Answer<Stored<Fields> | undefined>;

  list(query: Query, options?: CallOptions): Promise<Page<Fields> | Missing>;

  /** The number of records in all pages of a list. */
  count(filter: Query['filter'], options?: CallOptions): Promise<number | Missing>;

  create(draft: Draft, options?: CreateOptions): Promise<Created<Stored<Fields>> | Missing>;

  /** Sets the given fields, and increments the version if any of them changes. */
  update(id: number, patch: Patch<Draft>, options?: ChangeOptions): Promise<Stored<Fields> | undefined>;

  /** Deletes a record and all records that belong to it, atomically; `false` when there is no such record. */
  delete(id: number, options?: ChangeOptions): Promise<boolean>;
}

export type AnyQuery = ListQuery<string> & { readonly filter: object };

/**
 * Every acknowledged write of a user or a post, in order. A write adds its change in its own transaction, unless it
 * changes nothing. Deleting a user adds a change for each of its posts, then its own. With more posts than the feed
 * keeps, it may add only the newest and make all earlier positions `gone`. An import adds no changes, but unless it
 * changes nothing, makes all earlier positions `gone`.
 */
export interface ChangeFeed {
  /**
   * Returns the changes after a position. After a change was read, no change appears before it, even from another
   * process. Fails with `ChangesGone` if the next change is no longer kept, or if the position was never assigned.
   */
  read(query: ChangeQuery, options?: CallOptions): Promise<ChangePage>;

  /** The position of the newest change that can be read, or 0. Later reads of records include all changes up to it. */
  position(options?: CallOptions): Promise<number>;

  /**
   * Calls `wake` soon after changes of any process, and perhaps at other times, until the returned function is called.
   * Throws `unavailable` if the store is closed.
   */
  watch(wake: () => void): () => void;
}

/** Throws a `TypeError` if plain JavaScript passed something else, which otherwise would fail at the first request. */
export function checkRepository(given: Partial<Repository> | undefined): void {
  if (typeof given?.users?.get === 'function') return;
  throw new TypeError('repository must be a store, such as the result of createMemoryStore()');
}

/** A value or a promise of it. A failure is a promise that rejects. */
export type Answer<T> = T | Promise<T>;

/** Applies `use` to an answer, at once if it is a value, because a promise would cost a microtask. */
export function mapAnswer<T, Result>(answer: Answer<T>, use: (value: T) => Answer<Result>): Answer<Result> {
  const isPromise = typeof answer === 'object' && answer !== null && 'then' in answer;
  return isPromise ? Promise.resolve(answer).then(use) : use(answer);
}

export interface CallOptions {
  /** Ends the call when the client has disconnected or its deadline has passed. */
  readonly signal?: AbortSignal;
  /**
   * Whether `signal` has aborted already; default: `signal.aborted`. A store that returns synchronously reads only
   * this, because a caller may create its signal on first use, which costs as much as the read.
   */
  readonly isAborted?: boolean;
}

export interface ChangeOptions {
  /** The client of the write; stored with its change. */
  readonly origin?: Origin;
  /**
   * The versions that the call may change. Default: all. If the store has another one, the call fails with
   * `precondition-failed`. The transaction of the change compares them.
   */
  readonly expected?: readonly number[] | undefined;
}

export interface CreateOptions extends Pick<ChangeOptions, 'origin'> {
  readonly idempotency?: IdempotencyKey | undefined;
}

/**
 * Makes a creation happen once. Key, fingerprint and result are stored in the transaction of the insert, for
 * `idempotencyTtlMs`. A call with the same key then returns the first result, even if the record or its user has since
 * been deleted, or with another fingerprint fails with `unprocessable`. While the first call is still running, a store
 * may wait for it or fail with `conflict`.
 */
export interface IdempotencyKey {
  /** At most 320 ASCII characters, which may include a line break. */
  readonly key: string;
  /** A text that differs for different requests. */
  readonly fingerprint: string;
}

/** How long a key is kept, in milliseconds: a day, for clients that retry overnight. */
export const idempotencyTtlMs = 24 * 60 * 60 * 1000;

export interface Created<T> {
  readonly value: T;
  /** True when the value is the result of an earlier call with the same key. */
  readonly replayed: boolean;
}

/** The number of records of each kind, and the highest id that was assigned or is in use (0: none yet). */
export type StoreSummary = Readonly<Record<RecordKind, { readonly count: number; readonly lastId: number }>>;

/** A store whose whole content can be copied to another store, with ids, versions and id sequences. */
export interface Store extends Repository, AsyncDisposable {
  summary(): Promise<StoreSummary>;

  /** Returns records of a kind with an id above `afterId`, by id. */
  exportRows<Kind extends RecordKind>(
    kind: Kind,
    afterId: number,
    limit: number,
  ): Promise<readonly Records[Kind][]>;

  /**
   * Adds records unchanged, all or none, and resolves to the number of new ones. Skips a record that exists with equal
   * fields. An existing record that differs, or a missing user, fails the batch with `conflict`. A new record restarts
   * the feed of changes at the time in microseconds or later, beyond every position of another store.
   */
  importRows<Kind extends RecordKind>(kind: Kind, rows: readonly Records[Kind][]): Promise<number>;

  /** Continues to assign ids above these, and restarts the feed too. Lower values than the current ones are ignored. */
  continueIds(last: Readonly<Record<RecordKind, number>>): Promise<void>;
}
