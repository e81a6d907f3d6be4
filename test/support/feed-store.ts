import assert from 'node:assert/strict';
import { createMemoryStore } from '../../src/storage/memory/store.ts';

/** A store in memory, and its feed of changes. */
export function storeWithFeed(options?: Parameters<typeof createMemoryStore>[0]) {
  const store = createMemoryStore(options);
  const { changes: feed } = store;
  assert.ok(feed);
  return { store, feed };
}
