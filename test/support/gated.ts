import type { Repository } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';

export interface GatedRepository {
  readonly repository: Repository;
  /** Resolves at the first read of a user. */
  readonly entered: Promise<void>;
  /** The number of reads of a user so far. */
  readonly calls: () => number;
  /** Opens the gate, so that waiting and later reads of a user complete. */
  readonly open: () => void;
}

/** A memory store with one user, whose reads wait until the gate is open. It makes slow requests. */
export async function gatedRepository(): Promise<GatedRepository> {
  const store = createMemoryStore();
  await store.users.create({ name: 'Ada' });
  const entered = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let calls = 0;
  const { get } = store.users;
  store.users.get = async (...args) => {
    calls += 1;
    entered.resolve();
    await gate.promise;
    return await get(...args);
  };
  return { repository: store, entered: entered.promise, calls: () => calls, open: () => gate.resolve() };
}
