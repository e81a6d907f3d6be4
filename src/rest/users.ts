import { notFound, parseId } from '../domain/record.ts';
import type { CreateOptions, Repository } from '../domain/repository.ts';
import {
  parseUserDraft,
  parseUserPatch,
  parseUserQuery,
  parseUserReplacement,
  type StoredUser,
  type User,
  type UserPatch,
} from '../domain/user.ts';
import { json } from '../http/reply.ts';
import { listHeaders, monitorLinks, pageLinks, readCursor, remembering, wantsCount } from './paging.ts';
import { type CollectionHandlers, create, resourceHandlers } from './resource.ts';

export function userHandlers(repository: Repository, requirePreconditions: boolean): CollectionHandlers {
  const single = resourceHandlers<number, StoredUser, UserPatch>(
    {
      name: 'user',
      parseKey: (request) => parseId('user', request.param('id')),
      notFound: (id) => notFound('user', id),
      get: (id, options) => repository.getUser(id, options),
      update: (id, patch, options) => repository.updateUser(id, patch, options),
      delete: (id, options) => repository.deleteUser(id, options),
      parseReplacement: parseUserReplacement,
      parsePatch: parseUserPatch,
      view: userView,
    },
    requirePreconditions,
  );
  const parseList = remembering((request) => {
    const query = parseUserQuery(request.parameters, readCursor);
    return { query, linksOf: pageLinks(request, query, query.filter) };
  });
  return {
    ...single,

    async list(request) {
      const { query, linksOf } = parseList(request);
      const monitor = await monitorLinks(repository, request);
      const page = await repository.listUsers(query, request);
      const total = wantsCount(request) ? await repository.countUsers(query.filter, request) : undefined;
      const headers = listHeaders([...linksOf(page.next), ...monitor], total);
      return json(200, page.items.map(userView), headers);
    },

    async create(request) {
      const draft = parseUserDraft((await request.json()).value);
      const make = (options: CreateOptions) => repository.createUser(draft, options);
      return create(request, '/users', draft, make, userView);
    },
  };
}

// Exactly the fields of the API, in their order, because a store may return more.
export function userView({ id, name, role }: User) {
  return { id, name, role };
}
