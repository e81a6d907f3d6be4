import type { Repository } from '../domain/repository.ts';
import {
  parseUserDraft,
  parseUserPatch,
  parseUserQuery,
  parseUserReplacement,
  type StoredUser,
  type User,
  type UserDraft,
  type UserQuery,
} from '../domain/user.ts';
import type { Resource } from './resource.ts';

export function userResource(repository: Repository): Resource<StoredUser, UserDraft, UserQuery> {
  return {
    kind: 'users',
    isNested: false,
    parseQuery: (_, parameters, readCursor) => parseUserQuery(parameters, readCursor),
    parseDraft: parseUserDraft,
    view: userView,
    list: (_, query, options) => repository.listUsers(query, options),
    count: (_, { filter }, options) => repository.countUsers(filter, options),
    create: (_, draft, options) => repository.createUser(draft, options),
    get: ({ id }, options) => repository.getUser(id, options),
    replace: ({ id }, body, options) =>
      repository.updateUser(id, parseUserReplacement(body, { id }), options),
    update: ({ id }, body, options) => repository.updateUser(id, parseUserPatch(body), options),
    delete: ({ id }, options) => repository.deleteUser(id, options),
  };
}

// Exactly the fields of the API, in their order, because a store may return more.
export function userView({ id, name, role }: User) {
  return { id, name, role };
}
