import { type Change, kindOf, type Origin } from '../domain/change.ts';
import { invalid, notFound, preconditionFailed } from '../domain/errors.ts';
import { bodiesOf } from '../domain/kinds.ts';
import { asksForPage, type Parameters } from '../domain/list-query.ts';
import { type Post, type PostDraft, type PostQuery, parsePostQuery } from '../domain/post.ts';
import { nameOf, type Patch, parseId, type RecordKind, type Stored } from '../domain/record.ts';
import type { AnyQuery, ChangeOptions, Collection, Repository } from '../domain/repository.ts';
import { mapAnswer } from '../domain/repository.ts';
import { parseUserQuery, type User, type UserDraft, type UserQuery } from '../domain/user.ts';
import { isNotModified } from '../http/conditional.ts';
import { type Headers, json, jsonText, type Reply } from '../http/reply.ts';
import type { Handler, HttpRequest } from '../http/request.ts';
import { expectedVersions, idempotencyKey, matchedVersions } from './conditions.ts';
import { allRows, listHeaders, maxReadRows, memoize, monitorLinks, pageLinks, wantsCount } from './paging.ts';

export const patchTypes = ['application/merge-patch+json', 'application/json'];

/** The ids in the path of a record; `userId` is that of the user to whom a nested record belongs. */
type RecordPath = { readonly userId: number; readonly id: number };

type AnyFields = { readonly id: number };

/** A kind of record in the HTTP API. Its functions are methods, so their parameters may be narrower for each kind. */
interface Resource<Fields extends AnyFields = AnyFields, Draft = object, Query extends AnyQuery = AnyQuery> {
  readonly kind: RecordKind;
  /** Whether the records belong to users, as at `/users/{id}/posts`. Otherwise each `userId` is 0. */
  readonly isNested: boolean;
  /** The fields of a record in every response and event, in order. Others are left out: a store may return more. */
  view(row: Fields): Readonly<Record<keyof Fields, unknown>>;
  parseQuery(userId: number, parameters: Parameters): Query;
  records(store: Repository, userId: number): Collection<Fields, Draft, Query, undefined>;
}

const users: Resource<User, UserDraft, UserQuery> = {
  kind: 'users',
  isNested: false,
  view: ({ id, name, role }) => ({ id, name, role }),
  parseQuery: (_, parameters) => parseUserQuery(parameters),
  records: (store) => store.users,
};

const posts: Resource<Post, PostDraft, PostQuery> = {
  kind: 'posts',
  isNested: true,
  view: ({ id, userId, title, body }) => ({ id, userId, title, body }),
  parseQuery: parsePostQuery,
  records: (store, userId) => store.posts(userId),
};

export const resources: Readonly<Record<RecordKind, Resource>> = { users, posts };

/** The routes of a collection and its records, with conditional reads and changes. */
export function recordRoutes(resource: Resource, store: Repository, requirePreconditions: boolean) {
  const { kind, isNested, view, records } = resource;
  const bodies = bodiesOf[kind];
  const name = nameOf(kind);
  const parameter = isNested ? `${name}Id` : 'id';
  const collectionPath = (userId: number | '{id}') => (isNested ? `/users/${userId}/${kind}` : `/${kind}`);

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
    // A list of all records of a user is read in pages of this size.
    const query = isWhole ? { ...given, limit: maxReadRows } : given;
    const linksOf = isWhole
      ? () => []
      : pageLinks(request, query, isNested ? { userId, ...query.filter } : query.filter);
    return { userId, query, isWhole, linksOf };
  });
  const changeOptions = (request: HttpRequest): ChangeOptions => {
    return { origin: originOf(request), expected: expectedVersions(request, requirePreconditions) };
  };
  /** The handler of a PUT or PATCH. The store has only one kind of update: a replacement is a patch of all fields. */
  const changing =
    (parse: (body: unknown, path: RecordPath) => Patch<object>, types?: readonly string[]): Handler =>
    async (request) => {
      const path = pathOf(request);
      // A change by range is not supported: a part of a record must not replace all of it (RFC 9110, 14.5).
      if (request.header('content-range') !== undefined) throw invalid('Content-Range', 'must be absent');
      const options = changeOptions(request);
      const { value } = await request.json(types);
      const row = await records(store, path.userId).update(path.id, parse(value, path), options);
      if (row === undefined) throw missing(path);
      return recordReply(200, row);
    };
  const show = (request: HttpRequest, path: RecordPath, row: Stored<AnyFields> | undefined): Reply => {
    if (row === undefined) throw missing(path);
    // RFC 9110, 13.2.2: If-Match comes first.
    const ifMatch = request.header('if-match');
    if (ifMatch !== undefined && matchedVersions(ifMatch)?.includes(row.version) === false) {
      throw preconditionFailed(name, row.id);
    }
    const ifNoneMatch = request.header('if-none-match');
    if (ifNoneMatch !== undefined && isNotModified(ifNoneMatch, String(row.version))) {
      // RFC 9110, 15.4.5: with the headers of a 200 that a cache needs.
      return { status: 304, headers: { etag: `"${row.version}"`, 'cache-control': 'private, no-cache' } };
    }
    return recordReply(200, row);
  };
  const recordReply = (status: number, row: Stored<AnyFields>, headers?: Headers): Reply =>
    json(status, view(row), { etag: `"${row.version}"`, ...headers });

  const handlers = {
    async list(request) {
      const { userId, query, isWhole, linksOf } = parseList(request);
      const listed = records(store, userId);
      const fetchPage = async (wanted: AnyQuery) => {
        const page = await listed.list(wanted, request);
        if (page === undefined) throw notFound('user', userId);
        return page;
      };
      // Before the list: then the changes after this position include all that the list lacks.
      const monitor = await linkChanges(request, isNested ? userId : undefined);
      const page = await fetchPage(query);
      const total = wantsCount(request) ? await listed.count(query.filter, request) : undefined;
      const headers = listHeaders([...linksOf(page.next), ...monitor], total);
      if (!isWhole) return json(200, page.items.map(view), headers);
      return jsonText(200, allRows(request, query, page, fetchPage, view), headers);
    },

    async create(request) {
      const userId = userIdOf(request);
      const draft = bodies.parseDraft((await request.json()).value);
      const options = { origin: originOf(request), idempotency: idempotencyKey(request, draft) };
      const created = await records(store, userId).create(draft, options);
      if (created === undefined) throw notFound('user', userId);
      const { value, replayed } = created;
      return recordReply(201, value, {
        location: `${request.basePath}${collectionPath(userId)}/${value.id}`,
        ...(replayed && { 'idempotency-replayed': 'true' }),
      });
    },

    get(request) {
      const path = pathOf(request);
      return mapAnswer(records(store, path.userId).get(path.id, request), (row) => show(request, path, row));
    },

    replace: changing((body, { userId, id }) =>
      bodies.parseReplacement(body, isNested ? { userId, id } : { id }),
    ),
    update: changing(bodies.parsePatch, patchTypes),

    async delete(request) {
      const path = pathOf(request);
      const options = changeOptions(request);
      await request.receiveRest();
      if (!(await records(store, path.userId).delete(path.id, options))) throw missing(path);
      return { status: 204 };
    },
  } satisfies Readonly<Record<string, Handler>>;
  const all = collectionPath('{id}');
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

function originOf({ id, keyName }: HttpRequest): Origin {
  return { requestId: id, ...(keyName !== undefined && { key: keyName }) };
}

export function cloudEvent({ position, type, time, record, origin }: Change, basePath: string): string {
  const kind = kindOf(type);
  const subject = 'userId' in record ? `users/${record.userId}/${kind}/${record.id}` : `${kind}/${record.id}`;
  // CloudEvents 1.0: the names of attributes consist of lower-case letters and digits.
  return JSON.stringify({
    specversion: '1.0',
    id: String(position),
    source: `${basePath}/${subject}`,
    type,
    subject,
    time,
    datacontenttype: 'application/json',
    version: record.version,
    requestid: origin.requestId,
    keyname: origin.key,
    data: resources[kind].view(record),
  });
}
