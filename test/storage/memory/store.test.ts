import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { testFeed } from '../../../src/conformance/feed.ts';
import { testFeedReads } from '../../../src/conformance/feed-reads.ts';
import { createFixture } from '../../../src/conformance/fixture.ts';
import { feedOf } from '../../../src/conformance/follow.ts';
import { testRepository } from '../../../src/conformance/test-repository.ts';
import { testTransfer } from '../../../src/conformance/test-transfer.ts';
import { ChangesGone } from '../../../src/domain/change.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { createMemoryStore, type MemoryStoreOptions } from '../../../src/storage/memory/store.ts';
import { countKept } from '../../support/garbage.ts';

testRepository('memory', async (options) => createMemoryStore(options), { feed: true });
testTransfer('memory', async () => createMemoryStore());

/** A store with gaps between its positions. It rejects positions that it has not given to its reader. */
function createSparseStore(options?: MemoryStoreOptions): Store {
  const store = createMemoryStore(options);
  if (store.changes === undefined) return store;
  const feed = feedOf(store);
  const given = new Set([0]);
  const position = (dense: number, inGap = false): number => {
    const sparse = 2 * dense + (inGap ? 1 : 0);
    given.add(sparse);
    return sparse;
  };
  return {
    ...store,
    changes: {
      ...feed,
      position: async (options) => position(await feed.position(options)),
      async read(query, options) {
        const { after } = query;
        if (!given.has(after)) throw new ChangesGone(after, 0);
        const page = await feed.read({ ...query, after: Math.floor(after / 2) }, options).catch((error) => {
          // A reader continues after the position before the oldest change, which is in a gap.
          throw error instanceof ChangesGone
            ? new ChangesGone(after, position(error.oldest - 1, true) + 1)
            : error;
        });
        const changes = page.changes.map((change) => ({ ...change, position: position(change.position) }));
        return { changes, next: position(page.next, page.more), more: page.more };
      },
    },
  };
}

it('a memory store rejects a batch with two different records of one id', async () => {
  const store = createMemoryStore();
  const rows = ['Ada', 'Grace'].map((name) => ({ id: 1, name, version: 1 }));
  await assert.rejects(store.importRows('users', rows), { kind: 'conflict' });
  assert.equal(await store.users.get(1), undefined);
});

it('a memory store removes expired idempotency keys at the next creation with a key', async () => {
  let now = 0;
  const store = createMemoryStore({ now: () => now, idempotencyTtlMs: 1_000 });
  const create = async (key: string) => {
    const { replayed } = await store.users.create({ name: 'Ada' }, { idempotency: { key, fingerprint: '' } });
    return replayed;
  };
  await create('first');
  now = 1_000;
  await create('second');
  // The clock was set back, but the first key is no longer kept.
  now = 500;
  assert.deepEqual([await create('first'), await create('second')], [false, true]);
});

it('a memory store keeps an idempotency key for 24 hours by default', async () => {
  let now = 0;
  const store = createMemoryStore({ now: () => now });
  const replayed: boolean[] = [];
  const day = 24 * 60 * 60 * 1_000;
  for (now of [0, day - 1, day]) {
    const created = await store.users.create({ name: 'Ada' }, { idempotency: { key: 'k', fingerprint: '' } });
    replayed.push(created.replayed);
  }
  assert.deepEqual(replayed, [false, true, false]);
});

it('a memory store adds the deletions of the posts of a user in the order of their ids', async () => {
  const store = createMemoryStore();
  await store.users.create({ name: 'Ada' });
  const post = { userId: 1, title: 't', body: '', version: 1 };
  await store.importRows('posts', [
    { ...post, id: 2 },
    { ...post, id: 1 },
  ]);
  const after = await feedOf(store).position();
  await store.users.delete(1);
  const { changes } = await feedOf(store).read({ after, limit: 10 });
  const shown = changes.map(({ type, record }) => `${type} ${record.id}`);
  assert.deepEqual(shown, ['post.deleted 1', 'post.deleted 2', 'user.deleted 1']);
});

it('a memory store without a feed keeps no deleted record in memory', async () => {
  const store = createMemoryStore({ changesKept: 0 });
  const createAndDelete = async () => {
    const { value } = await store.users.create({ name: 'Ada' });
    await store.users.delete(value.id);
    return new WeakRef(value);
  };
  assert.equal(await countKept([await createAndDelete()]), 0);
});

describe('a store with gaps between its positions', () => {
  const fixture = createFixture(async (options) => createSparseStore(options), { feed: true });
  testFeed(fixture);
  testFeedReads(fixture);
  testTransfer('the store', async () => createSparseStore());
});
