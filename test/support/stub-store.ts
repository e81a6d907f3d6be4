import type { Repository } from '../../src/domain/repository.ts';

/** A store without a feed in which each call, except `close`, calls `answer` with the name of its method. */
export function stubStore(answer: (name: string) => never | Promise<never>): Repository {
  const stub = (name: string) => () => answer(name);
  const records = Object.fromEntries(
    ['get', 'list', 'count', 'create', 'update', 'delete'].map((name) => [name, stub(name)]),
  ) as unknown as Repository['users'] & ReturnType<Repository['posts']>;
  return { users: records, posts: () => records, ping: stub('ping'), close: async () => {} };
}
