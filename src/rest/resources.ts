import type { Origin } from '../domain/change.ts';
import { asksForPage, type ListQuery, type Page, type Parameters } from '../domain/list-query.ts';
import {
  type PostDraft,
  type PostQuery,
  parsePostQuery,
  postBodies,
  type StoredPost,
} from '../domain/post.ts';
import {
  type BodyParsers,
  nameOf,
  notFound,
  type Patch,
  parseId,
  type RecordKind,
  type Stored,
} from '../domain/record.ts';
import {
  type Answer,
  answered,
  type CallOptions,
  type ChangeOptions,
  type Created,
  type CreateOptions,
  type Repository,
} from '../domain/repository.ts';
import {
  parseUserQuery,
  type StoredUser,
  type UserDraft,
  type UserQuery,
  userBodies,
} from '../domain/user.ts';
import { isNotModified } from '../http/conditional.ts';
import type { Handler } from '../http/listener.ts';
import { type Headers, json, jsonText, type Reply } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { checkIfMatch, expectedVersions, idempotencyKey } from './conditions.ts';
import {
  allRows,
  listHeaders,
  maxStreamedRows,
  memoize,
  monitorLinks,
  pageLinks,
  wantsCount,
} from './paging.ts';

const patchTypes = ['application/merge-patch+json', 'application/json'];

/** The ids in the path of a record. */
interface RecordPath {
  /** The user that a nested record belongs to. */
  readonly userId: number;
  readonly id: number;
}

type AnyRow = Stored<{ readonly id: number }>;
type AnyQuery = ListQuery<string> & { readonly filter: object };
/** A record as clients see it: its version is the ETag. */
type Shown<Row> = Omit<Row, 'version'>;
/** `undefined` when there is no such record, or no user that it could belong to. */
type Found<T> = Promise<T | undefined>;

/**
 * What a kind of record is to clients, and the functions of a store for it. Its functions are methods, so that a
 * resource of one kind is also a `Resource` of any kind.
 */
interface Resource<
  Row extends AnyRow = AnyRow,
  Draft extends object = object,
  Query extends AnyQuery = AnyQuery,
> {
  readonly kind: RecordKind;
  /** Whether the records belong to users, as at `/users/{id}/posts`. Otherwise each `userId` is 0. */
  readonly isNested: boolean;
  /**
   * The public fields of a record, in order: all of them, because clients of every route and event see this, and no
   * others, because a store may return more.
   */
  view(row: Shown<Row>): Readonly<Record<keyof Shown<Row>, unknown>>;
  readonly bodies: BodyParsers<Draft>;
  parseQuery(userId: number, parameters: Parameters): Query;
  list(store: Repository, userId: number, query: Query, options: CallOptions): Found<Page<Shown<Row>>>;
  count(store: Repository, userId: number, query: Query, options: CallOptions): Found<number>;
  create(store: Repository, userId: number, draft: Draft, options: CreateOptions): Found<Created<Row>>;
  get(store: Repository, path: RecordPath, options: CallOptions): Answer<Row | undefined>;
  update(store: Repository, path: RecordPath, patch: Patch<Draft>, options: ChangeOptions): Found<Row>;
  delete(store: Repository, path: RecordPath, options: ChangeOptions): Promise<boolean>;
}

const users: Resource<StoredUser, UserDraft, UserQuery> = {
  kind: 'users',
  isNested: false,
  view: ({ id, name, role }) => ({ id, name, role }),
  bodies: userBodies,
  parseQuery: (_, parameters) => parseUserQuery(parameters),
  list: (store, _, query, options) => store.listUsers(query, options),
  count: (store, _, { filter }, options) => store.countUsers(filter, options),
  create: (store, _, draft, options) => store.createUser(draft, options),
  get: (store, { id }, options) => store.getUser(id, options),
  update: (store, { id }, patch, options) => store.updateUser(id, patch, options),
  delete: (store, { id }, options) => store.deleteUser(id, options),
};

const posts: Resource<StoredPost, PostDraft, PostQuery> = {
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
};

/** What each kind of record is to clients of the HTTP API. */
export const resources: Readonly<Record<RecordKind, Resource>> = { users, posts };

/** The routes of a collection and its records, with conditional reads and changes. */
export function recordRoutes(resource: Resource, store: Repository, requirePreconditions: boolean) {
  const { kind, isNested, bodies, view } = resource;
  const name = nameOf(kind);
  const parameter = isNested ? `${name}Id` : 'id';

  const userIdOf = (request: HttpRequest): number => (isNested ? parseId('user', request.param('id')) : 0);
  const pathOf = (request: HttpRequest): RecordPath => {
    return { userId: userIdOf(request), id: parseId(name, request.param(parameter), parameter) };
  };
  const linkChanges = monitorLinks(store);
  const missing = ({ userId, id }: RecordPath) => notFound(name, id, isNested ? userId : undefined);

  const parseList = memoize((request) => {
    const userId = userIdOf(request);
    const given = resource.parseQuery(userId, request.parameters);
    const isWhole = isNested && !asksForPage(request.parameters);
    const query = isWhole ? { ...given, limit: maxStreamedRows } : given;
    const linksOf = isWhole
      ? () => []
      : pageLinks(request, query, isNested ? { userId, ...query.filter } : query.filter);
    return { userId, query, isWhole, linksOf };
  });
  const changeOptions = (request: HttpRequest): ChangeOptions => {
    return { origin: originOf(request), expected: expectedVersions(request, requirePreconditions) };
  };
  const changing =
    (parse: (body: unknown, path: RecordPath) => Patch<object>, types?: readonly string[]): Handler =>
    async (request) => {
      const path = pathOf(request);
      const options = changeOptions(request);
      const { value } = await request.json(types);
      const row = await resource.update(store, path, parse(value, path), options);
      if (row === undefined) throw missing(path);
      return recordReply(200, row);
    };
  const show = (request: HttpRequest, path: RecordPath, row: AnyRow | undefined): Reply => {
    if (row === undefined) throw missing(path);
    if (request.header('if-match') !== undefined) checkIfMatch(request, name, row);
    const seen = request.header('if-none-match');
    if (seen !== undefined && isNotModified(seen, String(row.version))) {
      return { status: 304, headers: { etag: `"${row.version}"`, 'cache-control': 'no-cache' } };
    }
    return recordReply(200, row);
  };
  /** A reply with one record and the tag of its version. */
  const recordReply = (status: number, row: AnyRow, headers?: Headers): Reply =>
    json(status, view(row), { etag: `"${row.version}"`, ...headers });

  const handlers = {
    async list(request) {
      const { userId, query, isWhole, linksOf } = parseList(request);
      const fetchPage = async (wanted: AnyQuery) => {
        const page = await resource.list(store, userId, wanted, request);
        if (page === undefined) throw notFound('user', userId);
        return page;
      };
      const monitor = await linkChanges(request, isNested ? userId : undefined);
      const page = await fetchPage(query);
      const total = wantsCount(request) ? await resource.count(store, userId, query, request) : undefined;
      const headers = listHeaders([...linksOf(page.next), ...monitor], total);
      if (!isWhole) return json(200, page.items.map(view), headers);
      return jsonText(200, allRows(request, query, page, fetchPage, view), headers);
    },

    async create(request) {
      const userId = userIdOf(request);
      const draft = bodies.parseDraft((await request.json()).value);
      const options = { origin: originOf(request), idempotency: idempotencyKey(request, draft) };
      const created = await resource.create(store, userId, draft, options);
      if (created === undefined) throw notFound('user', userId);
      const { value, replayed } = created;
      const path = isNested ? `/users/${userId}/${kind}` : `/${kind}`;
      return recordReply(201, value, {
        location: `${request.basePath}${path}/${value.id}`,
        ...(replayed && { 'idempotency-replayed': 'true' }),
      });
    },

    get(request) {
      const path = pathOf(request);
      return answered(resource.get(store, path, request), (row) => show(request, path, row));
    },

    replace: changing((body, { userId, id }) =>
      bodies.parseReplacement(body, isNested ? { userId, id } : { id }),
    ),
    update: changing(bodies.parsePatch, patchTypes),

    async delete(request) {
      const path = pathOf(request);
      if (!(await resource.delete(store, path, changeOptions(request)))) throw missing(path);
      return { status: 204 };
    },
  } satisfies Readonly<Record<string, Handler>>;
  const all = isNested ? `/users/{id}/${kind}` : `/${kind}`;
  const one = `${all}/{${parameter}}`;
  return [
    { pattern: `GET ${all}`, access: 'read', handle: handlers.list },
    { pattern: `POST ${all}`, access: 'write', handle: handlers.create },
    { pattern: `GET ${one}`, access: 'read', handle: handlers.get },
    { pattern: `PUT ${one}`, access: 'write', handle: handlers.replace },
    { pattern: `PATCH ${one}`, access: 'write', handle: handlers.update },
    { pattern: `DELETE ${one}`, access: 'write', handle: handlers.delete },
  ] as const;
}

/** The client of a write, for the feed of changes. */
function originOf({ id, keyName }: HttpRequest): Origin {
  return { requestId: id, ...(keyName !== undefined && { key: keyName }) };
}
