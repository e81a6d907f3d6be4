import type { ChangePage, ChangeQuery, Origin } from './change.ts';
import type { Page } from './list-query.ts';
import type { Post, PostDraft, PostFilter, PostPatch, PostQuery, StoredPost } from './post.ts';
import type { RecordKind } from './record.ts';
import type { StoredUser, User, UserDraft, UserFilter, UserPatch, UserQuery } from './user.ts';

/**
 * The keeper of users and posts, and the contract every store fulfils. Values arrive parsed; what a
 * store promises is its own business: durability, order, uniqueness and atomicity.
 *
 * - A write is acknowledged (its promise resolves) only when it is as durable as the store gets.
 * - Ids rise from 1 and are never given twice, not even after a deletion or a restart.
 * - Texts are ordered by code point, an absent role before every role, ties by `id`
 *   in the direction of the last sort key.
 * - A missed look-up is `undefined` (or `false`), never an error.
 * - Failures are `DomainError`s: `unavailable` when the store cannot be reached or is closed,
 *   `overloaded` when it has too much to do, `cancelled` or `deadline-exceeded` when the caller's
 *   signal ended the call, `internal` for anything else. Reads end when the signal aborts; a write
 *   that was asked for is made.
 */
export interface Repository {
  /** Its feed of changes; absent in a store that keeps none. */
  readonly changes?: ChangeFeed;

  /** Like `getPost` it may answer at once: most requests ask for one record. */
  getUser(id: number, options?: CallOptions): Answer<StoredUser | undefined>;

  listUsers(query: UserQuery, options?: CallOptions): Promise<Page<User>>;

  /** How many users a list without page and limit would hold. */
  countUsers(filter: UserFilter, options?: CallOptions): Promise<number>;

  createUser(draft: UserDraft, options?: CreateOptions): Promise<Created<StoredUser>>;

  /** Sets the given fields; the version rises if any of them changes. */
  updateUser(id: number, patch: UserPatch, options?: ChangeOptions): Promise<StoredUser | undefined>;

  /** Deletes a user and its posts at once; `false` when there is none. */
  deleteUser(id: number, options?: ChangeOptions): Promise<boolean>;

  /** `undefined` when there is no such user. */
  listPosts(userId: number, query: PostQuery, options?: CallOptions): Promise<Page<Post> | undefined>;

  /** How many posts of a user a list without page and limit would hold; `undefined` when there is no such user. */
  countPosts(userId: number, filter: PostFilter, options?: CallOptions): Promise<number | undefined>;

  /** `undefined` when there is no such user. */
  createPost(
    userId: number,
    draft: PostDraft,
    options?: CreateOptions,
  ): Promise<Created<StoredPost> | undefined>;

  /** `undefined` when this user has no such post, though another one may. */
  getPost(userId: number, id: number, options?: CallOptions): Answer<StoredPost | undefined>;

  /** Sets the given fields of a post of this user; the version rises if any of them changes. */
  updatePost(
    userId: number,
    id: number,
    patch: PostPatch,
    options?: ChangeOptions,
  ): Promise<StoredPost | undefined>;

  /** Deletes a post; `false` when this user has no such post. */
  deletePost(userId: number, id: number, options?: ChangeOptions): Promise<boolean>;

  /** Resolves when the store can answer; fails with `unavailable` otherwise. */
  ping(options?: CallOptions): Promise<void>;

  /** Waits for running writes and releases everything. Further calls do nothing. */
  close(): Promise<void>;
}

/**
 * Every write of a user or a post that was acknowledged, in order. A write adds its change in its own
 * transaction; one that changes nothing adds none. Deleting a user adds a change for each of its posts,
 * then its own. Importing records adds no changes: after an import, positions from before it are `gone`.
 */
export interface ChangeFeed {
  /**
   * The changes behind a position. None is ever missing before one that was read, whichever process made
   * it. Fails with `gone` where the next one is no longer kept, and where the position was never given.
   */
  read(query: ChangeQuery, options?: CallOptions): Promise<ChangePage>;

  /**
   * The position of the newest change that can be read; 0 when there never was one. What is read from the
   * store after this call shows that change and all before it.
   */
  position(options?: CallOptions): Promise<number>;

  /**
   * Calls `wake` soon after there is something new to read, by any process, until the returned function
   * is called. It may call it for nothing.
   */
  watch(wake: () => void): () => void;
}

/** A value at once, or a promise of it. A failure is a promise that rejects. */
export type Answer<T> = T | Promise<T>;

/** What `use` makes of an answer: at once if the answer is there, since a promise costs a turn of the microtasks. */
export function answered<T, Result>(answer: Answer<T>, use: (value: T) => Answer<Result>): Answer<Result> {
  const isPromise = typeof answer === 'object' && answer !== null && 'then' in answer;
  return isPromise ? Promise.resolve(answer).then(use) : use(answer);
}

export interface CallOptions {
  /** Ends the call when the caller is gone or its deadline has passed. */
  readonly signal?: AbortSignal;
  /**
   * Whether `signal` has aborted already. A store that answers at once reads only this: a caller may make its
   * signal on first use, which costs as much as the read. Default: `signal.aborted`.
   */
  readonly isAborted?: boolean;
}

export interface WriteOptions {
  /** Who asked for the write; kept with its change. */
  readonly origin?: Origin;
}

export interface ChangeOptions extends WriteOptions {
  /**
   * The versions the caller would change. Unless the stored one is among them the call fails with
   * `precondition-failed`, decided in the statement that makes the change. Absent: any version.
   */
  readonly expected?: readonly number[];
}

export interface CreateOptions extends WriteOptions {
  readonly idempotency?: IdempotencyKey;
}

/**
 * Makes a creation happen once. Key, fingerprint and result are kept in the transaction of the
 * insert, for `idempotencyTtlMs`; a call with the same key then gives the first result again. With
 * another fingerprint it fails with `unprocessable`. While the first is still running, a store may
 * wait for it or fail with `conflict`.
 */
export interface IdempotencyKey {
  readonly key: string;
  /** What the request was, in any form that differs when the request differs. */
  readonly fingerprint: string;
}

/** How long a key is remembered, in milliseconds: a day, as clients that retry overnight expect. */
export const idempotencyTtlMs = 24 * 60 * 60 * 1000;

export interface Created<T> {
  readonly value: T;
  /** True when the value is the result of an earlier call with the same key. */
  readonly replayed: boolean;
}

/** What a store holds, by kind. */
export interface Records {
  readonly users: StoredUser;
  readonly posts: StoredPost;
}

/** How many records of each kind there are, and the last id given, those of deleted ones included (0: none yet). */
export type StoreSummary = Readonly<Record<RecordKind, { readonly count: number; readonly lastId: number }>>;

/** A store whose whole content can move to another, ids, versions and id sequences kept. */
export interface Store extends Repository {
  summary(): Promise<StoreSummary>;

  /** Records of a kind with an id above `afterId`, by id. */
  exportRows<Kind extends RecordKind>(
    kind: Kind,
    afterId: number,
    limit: number,
  ): Promise<readonly Records[Kind][]>;

  /**
   * Adds records as they are, all or none, and resolves to how many were new. One that is there already,
   * equal in every field, is left. One that differs fails the batch with `conflict`, and so does one whose
   * user is missing.
   */
  importRows<Kind extends RecordKind>(kind: Kind, rows: readonly Records[Kind][]): Promise<number>;

  /** Gives no id up to these from now on; never lowers what is there. */
  continueIds(last: Readonly<Record<RecordKind, number>>): Promise<void>;
}
