import assert from 'node:assert/strict';
import { rejects, userQuery, walkUsers } from '../../src/conformance/fixture.ts';
import { feedOf } from '../../src/conformance/follow.ts';
import type { Store } from '../../src/domain/repository.ts';

/** Checks that a store contains the records of the files `version-1.sql`, can read and change them, and has restarted its feed. */
export async function checkMigrated(store: Store): Promise<void> {
  await rejects(feedOf(store).read({ after: 0, limit: 1 }), 'gone');
  assert.deepEqual(await store.exportRows('users', 0, 10), [
    { id: 1, name: 'Ada', role: 'admin', version: 3 },
    { id: 2, name: 'Bob', version: 1 },
    { id: 5, name: 'Ada', role: 'editor', version: 1 },
  ]);
  assert.deepEqual(await store.exportRows('posts', 0, 10), [
    { id: 1, userId: 1, title: 'title', body: 'line 1\nline 2', version: 1 },
    { id: 2, userId: 5, title: 'title', body: '', version: 1 },
  ]);
  for (const [sort, ids] of [
    ['-role', [5, 1, 2]],
    ['name', [1, 5, 2]],
    ['role,-name', [2, 1, 5]],
  ] as const) {
    const walked = await walkUsers(store, `sort=${sort}&limit=1`);
    assert.deepEqual(
      walked.map((user) => user.id),
      ids,
      sort,
    );
  }
  const idempotency = { key: 'key', fingerprint: 'fingerprint' };
  const replayed = await store.users.create({ name: 'Bob' }, { idempotency });
  assert.deepEqual(replayed, { value: { id: 2, name: 'Bob', version: 1 }, replayed: true });
  const post = await store
    .posts(5)
    .create({ title: 'title', body: '' }, { idempotency: { ...idempotency, key: 'post' } });
  const kept = { id: 2, userId: 5, title: 'title', body: '', version: 1 };
  assert.deepEqual(post, { value: kept, replayed: true });
  assert.equal((await store.posts(5).update(2, { body: 'x' }, { expected: [1] }))?.version, 2);
  assert.equal((await store.users.update(1, { name: 'Eve' }, { expected: [3] }))?.version, 4);
  assert.equal((await store.users.create({ name: 'next' })).value.id, 10);
  assert.equal((await store.posts(5).create({ title: 'next', body: '' }))?.value.id, 8);
  assert.equal((await store.users.list(userQuery('role=admin'))).items.length, 1);
}
