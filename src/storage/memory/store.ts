import { isDeepStrictEqual } from 'node:util';
import { preconditionFailed } from '../../domain/errors.ts';
import type { PostFilter } from '../../domain/list-query.ts';
import type { StoredPost } from '../../domain/post.ts';
import { idsExhausted, maxId, maxVersion, versionsExhausted } from '../../domain/record.ts';
import {
  type ChangeOptions,
  type RecordKind,
  type Records,
  recordKinds,
  type Store,
} from '../../domain/repository.ts';
import type { StoredUser } from '../../domain/user.ts';
import { createStore } from '../store.ts';
import { givenColumns, recordValues, tables, toRecord, userMissing } from '../tables.ts';
import { KeptChanges, type KeptChangesOptions } from './changes.ts';
import { KeptResults, type KeptResultsOptions } from './idempotency.ts';
import { matching, newRows, pageOf, patched, rowsById, withoutVersion } from './rows.ts';

export interface MemoryStoreOptions extends KeptResultsOptions, KeptChangesOptions {}

/**
 * The contract in its plainest form, for tests and demos. No method awaits, so each is atomic. Rows
 * are frozen and replaced whole: what was handed out never changes and cannot be changed.
 */
export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  const users = new Map<number, StoredUser>();
  const posts = new Map<number, StoredPost>();
  const rows: { readonly [Kind in RecordKind]: Map<number, Records[Kind]> } = { users, posts };
  const lastIds = { users: 0, posts: 0 };
  const results = new KeptResults(options);
  const changes = new KeptChanges(options);

  const made = <Kind extends RecordKind>(kind: Kind, fields: object): Records[Kind] => {
    if (lastIds[kind] >= maxId) throw idsExhausted();
    lastIds[kind] += 1;
    const values = recordValues(givenColumns(tables[kind]), fields);
    return toRecord(tables[kind].columns, [lastIds[kind], ...values, 1]);
  };
  const put = <Row extends { readonly id: number }>(table: Map<number, Row>, row: Row): Row => {
    table.set(row.id, Object.freeze(row));
    return row;
  };
  const findPost = (userId: number, id: number): StoredPost | undefined => {
    const post = posts.get(id);
    return post?.userId === userId ? post : undefined;
  };
  const postsOf = (userId: number, filter: PostFilter = {}) =>
    matching('posts', posts, { userId, ...filter });

  return createStore({
    ...changes.feed(),
    getUser: (id) => users.get(id),
    listUsers: (query) => pageOf(matching('users', users, query.filter).map(withoutVersion), query),
    countUsers: (filter) => matching('users', users, filter).length,
    createUser: (draft, options) =>
      results.once(options, () => {
        const user = put(users, made('users', draft));
        changes.add('user.created', user, options?.origin);
        return user;
      }),
    updateUser(id, patch, options) {
      const user = users.get(id);
      if (user === undefined) return undefined;
      const next = updated('users', user, patch, options);
      if (next !== user) changes.add('user.updated', put(users, next), options?.origin);
      return next;
    },
    deleteUser(id, options) {
      const user = users.get(id);
      if (user === undefined) return false;
      checkExpected('users', user, options);
      for (const post of postsOf(id)) {
        posts.delete(post.id);
        changes.add('post.deleted', post, options?.origin);
      }
      users.delete(id);
      changes.add('user.deleted', user, options?.origin);
      return true;
    },
    listPosts: (userId, query) =>
      users.has(userId) ? pageOf(postsOf(userId, query.filter).map(withoutVersion), query) : undefined,
    countPosts: (userId, filter) => (users.has(userId) ? postsOf(userId, filter).length : undefined),
    createPost(userId, draft, options) {
      const { value, replayed } = results.once(options, () => {
        if (!users.has(userId)) return undefined;
        const post = put(posts, made('posts', { ...draft, userId }));
        changes.add('post.created', post, options?.origin);
        return post;
      });
      return value && { value, replayed };
    },
    getPost: findPost,
    updatePost(userId, id, patch, options) {
      const post = findPost(userId, id);
      if (post === undefined) return undefined;
      const next = updated('posts', post, patch, options);
      if (next !== post) changes.add('post.updated', put(posts, next), options?.origin);
      return next;
    },
    deletePost(userId, id, options) {
      const post = findPost(userId, id);
      if (post === undefined) return false;
      checkExpected('posts', post, options);
      posts.delete(id);
      changes.add('post.deleted', post, options?.origin);
      return true;
    },
    ping: () => undefined,
    close: () => undefined,
    summary: () => ({
      users: { count: users.size, lastId: lastIds.users },
      posts: { count: posts.size, lastId: lastIds.posts },
    }),
    exportRows: async (kind, afterId, limit) => rowsById(rows[kind], afterId, limit),
    importRows(kind, given) {
      const table: Map<number, (typeof given)[number]> = rows[kind];
      const added = newRows(kind, table, given);
      for (const row of added) {
        if ('userId' in row && !users.has(row.userId)) throw userMissing(kind, row.id);
      }
      for (const row of added) {
        put(table, { ...row });
        lastIds[kind] = Math.max(lastIds[kind], row.id);
      }
      if (added.length > 0) changes.restart();
      return added.length;
    },
    continueIds(last) {
      for (const kind of recordKinds) lastIds[kind] = Math.max(lastIds[kind], last[kind]);
    },
  });
}

/** A row with the changes of a merge patch, and the next version if they change anything. */
function updated<Kind extends RecordKind>(
  kind: Kind,
  row: Records[Kind],
  patch: object,
  options?: ChangeOptions,
): Records[Kind] {
  checkExpected(kind, row, options);
  const changed = patched(row, patch);
  if (isDeepStrictEqual(changed, row)) return row;
  if (row.version >= maxVersion) throw versionsExhausted(tables[kind].record, row.id);
  return { ...changed, version: row.version + 1 };
}

function checkExpected(
  kind: RecordKind,
  { id, version }: Records[RecordKind],
  { expected }: ChangeOptions = {},
) {
  if (expected?.includes(version) === false) throw preconditionFailed(tables[kind].record, id);
}
