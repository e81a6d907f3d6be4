import { userNotFound } from '../domain/errors.ts';
import { parseUserQuery } from '../domain/list-query.ts';
import { parseId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import {
  parseUserDraft,
  parseUserPatch,
  parseUserReplacement,
  type StoredUser,
  type User,
} from '../domain/user.ts';
import { isNotModified } from '../http/conditional.ts';
import type { Handler } from '../http/listener.ts';
import { type Headers, json, type Reply } from '../http/reply.ts';
import { readCursor } from './cursor.ts';
import { idempotencyKey, replayedHeader } from './idempotency.ts';
import { countHeaders, pageHeaders, wantsCount } from './paging.ts';
import { checkIfMatch, entityTag, expectedVersions } from './preconditions.ts';

const patchTypes = ['application/merge-patch+json', 'application/json'];

export interface UserHandlers {
  readonly list: Handler;
  readonly get: Handler;
  readonly create: Handler;
  readonly replace: Handler;
  readonly update: Handler;
  readonly delete: Handler;
}

export function userHandlers(repository: Repository, requirePreconditions: boolean): UserHandlers {
  return {
    async list(request) {
      const query = parseUserQuery(request.parameters, readCursor);
      const page = await repository.listUsers(query, request);
      const total = wantsCount(request) ? await repository.countUsers(query.filter, request) : undefined;
      const headers = { ...pageHeaders(request, query, query.filter, page.next), ...countHeaders(total) };
      return json(200, page.items.map(userView), headers);
    },

    async get(request) {
      const id = parseId('user', request.param('id'));
      const user = await repository.getUser(id, request);
      if (user === undefined) throw userNotFound(id);
      checkIfMatch(request, user);
      const tag = entityTag(user.version);
      if (isNotModified(request.header('if-none-match'), tag)) {
        return { status: 304, headers: { etag: `"${tag}"`, 'cache-control': 'no-cache' } };
      }
      return userReply(200, user);
    },

    async create(request) {
      const draft = parseUserDraft((await request.json()).value);
      const idempotency = idempotencyKey(request, draft);
      const { value, replayed } = await repository.createUser(draft, { ...(idempotency && { idempotency }) });
      const location = `${request.basePath}/users/${value.id}`;
      return userReply(201, value, { location, ...replayedHeader(replayed) });
    },

    async replace(request) {
      const id = parseId('user', request.param('id'));
      const expected = expectedVersions(request, requirePreconditions);
      const patch = parseUserReplacement((await request.json()).value, id);
      return updated(id, await repository.updateUser(id, patch, { ...(expected && { expected }) }));
    },

    async update(request) {
      const id = parseId('user', request.param('id'));
      const expected = expectedVersions(request, requirePreconditions);
      const patch = parseUserPatch((await request.json(patchTypes)).value);
      return updated(id, await repository.updateUser(id, patch, { ...(expected && { expected }) }));
    },

    async delete(request) {
      const id = parseId('user', request.param('id'));
      const expected = expectedVersions(request, requirePreconditions);
      if (!(await repository.deleteUser(id, { ...(expected && { expected }) }))) throw userNotFound(id);
      return { status: 204 };
    },
  };
}

function updated(id: number, user: StoredUser | undefined): Reply {
  if (user === undefined) throw userNotFound(id);
  return userReply(200, user);
}

function userReply(status: number, user: StoredUser, headers?: Headers): Reply {
  return json(status, userView(user), { etag: `"${entityTag(user.version)}"`, ...headers });
}

// Exactly the fields of the contract, in its order: a store may keep more of them.
function userView({ id, name, role }: User) {
  return { id, name, role };
}
