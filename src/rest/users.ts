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
  type UserPatch,
} from '../domain/user.ts';
import type { Handler } from '../http/listener.ts';
import { json } from '../http/reply.ts';
import { readCursor } from './cursor.ts';
import { idempotencyKey, replayedHeader } from './idempotency.ts';
import { countHeaders, linkHeader, monitorLinks, pageLinks, wantsCount } from './paging.ts';
import { originOf, type ResourceHandlers, recordReply, resourceHandlers } from './resource.ts';

export interface UserHandlers extends ResourceHandlers {
  readonly list: Handler;
  readonly create: Handler;
}

export function userHandlers(repository: Repository, requirePreconditions: boolean): UserHandlers {
  const single = resourceHandlers<number, StoredUser, UserPatch>(
    {
      record: 'user',
      parseKey: (request) => parseId('user', request.param('id')),
      notFound: userNotFound,
      get: (id, options) => repository.getUser(id, options),
      update: (id, patch, options) => repository.updateUser(id, patch, options),
      delete: (id, options) => repository.deleteUser(id, options),
      parseReplacement: parseUserReplacement,
      parsePatch: parseUserPatch,
      view: userView,
    },
    requirePreconditions,
  );
  return {
    ...single,

    async list(request) {
      const query = parseUserQuery(request.parameters, readCursor);
      const monitor = await monitorLinks(repository, request);
      const page = await repository.listUsers(query, request);
      const total = wantsCount(request) ? await repository.countUsers(query.filter, request) : undefined;
      const links = [...pageLinks(request, query, query.filter, page.next), ...monitor];
      const headers = { ...linkHeader(links), ...countHeaders(total) };
      return json(200, page.items.map(userView), headers);
    },

    async create(request) {
      const draft = parseUserDraft((await request.json()).value);
      const idempotency = idempotencyKey(request, draft);
      const { value, replayed } = await repository.createUser(draft, {
        origin: originOf(request),
        ...(idempotency && { idempotency }),
      });
      const location = `${request.basePath}/users/${value.id}`;
      return recordReply(201, userView(value), value.version, { location, ...replayedHeader(replayed) });
    },
  };
}

// Exactly the fields of the contract, in its order: a store may keep more of them.
export function userView({ id, name, role }: User) {
  return { id, name, role };
}
