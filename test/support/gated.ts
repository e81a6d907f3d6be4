import type { Repository } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';

export interface GatedRepository {
  readonly repository: Repository;
  /** Resolves at the first call of `getUser`. */
  readonly entered: Promise<void>;
  /** The number of calls of `getUser` so far. */
  readonly calls: () => number;
  /** Opens the gate, so that waiting and later calls of `getUser` complete. */
  readonly open: () => void;
}

/** A memory store with one user, whose `getUser` waits until the gate is open. It makes slow requests. */
export async function gatedRepository(): Promise<GatedRepository> {
  const store = createMemoryStore();
  await store.createUser({ name: 'Ada' });
  const entered = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let calls = 0;
  const getUser: Repository['getUser'] = async (...args) => {
    calls += 1;
    entered.resolve();
    await gate.promise;
    return await store.getUser(...args);
  };
  const repository = new Proxy<Repository>(store, {
    get(target, name) {
      if (name === 'getUser') return getUser;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { repository, entered: entered.promise, calls: () => calls, open: () => gate.resolve() };
}
