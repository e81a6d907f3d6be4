import {
  type PostDraft,
  type PostQuery,
  parsePostQuery,
  postBodies,
  type StoredPost,
} from '../domain/post.ts';
import type { RecordKind } from '../domain/record.ts';
import {
  parseUserQuery,
  type StoredUser,
  type UserDraft,
  type UserQuery,
  userBodies,
} from '../domain/user.ts';
import { type ServedResource, serve } from './resource.ts';

// A view has exactly the fields of the API, in their order, because a store may return more.

const users = serve<StoredUser, UserDraft, UserQuery>({
  kind: 'users',
  isNested: false,
  view: ({ id, name, role }) => ({ id, name, role }),
  bodies: userBodies,
  parseQuery: (_, parameters, readCursor) => parseUserQuery(parameters, readCursor),
  list: (store, _, query, options) => store.listUsers(query, options),
  count: (store, _, { filter }, options) => store.countUsers(filter, options),
  create: (store, _, draft, options) => store.createUser(draft, options),
  get: (store, { id }, options) => store.getUser(id, options),
  update: (store, { id }, patch, options) => store.updateUser(id, patch, options),
  delete: (store, { id }, options) => store.deleteUser(id, options),
});

const posts = serve<StoredPost, PostDraft, PostQuery>({
  kind: 'posts',
  isNested: true,
  view: ({ id, userId, title, body }) => ({ id, userId, title, body }),
  bodies: postBodies,
  parseQuery: parsePostQuery,
  list: (store, userId, query, options) => store.listPosts(userId, query, options),
  count: (store, userId, { filter }, options) => store.countPosts(userId, filter, options),
  create: (store, userId, draft, options) => store.createPost(userId, draft, options),
  get: (store, { userId, id }, options) => store.getPost(userId, id, options),
  update: (store, { userId, id }, patch, options) => store.updatePost(userId, id, patch, options),
  delete: (store, { userId, id }, options) => store.deletePost(userId, id, options),
});

/** What each kind of record is to clients of the HTTP API. */
export const resources: Readonly<Record<RecordKind, ServedResource>> = { users, posts };
