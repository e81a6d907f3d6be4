import { byKind } from '../../src/domain/record.ts';
import type { Repository } from '../../src/domain/repository.ts';

/** A store without a feed in which each call, except `close`, calls `answer` with the name of its method. */
export function stubStore(answer: (name: string) => never | Promise<never>): Repository {
  const stub = (name: string) => () => answer(name);
  const records = Object.fromEntries(
    ['get', 'list', 'count', 'create', 'update', 'delete'].map((name) => [name, stub(name)]),
  );
  const collections = byKind((kind) => (kind === 'users' ? records : () => records));
  // Each of these functions returns or throws what `answer` does, whatever the type of its method.
  return { ...collections, ping: stub('ping'), close: async () => {} } as unknown as Repository;
}
