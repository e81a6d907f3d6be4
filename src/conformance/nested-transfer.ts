import assert from 'node:assert/strict';
import { it, type TestContext } from 'node:test';
import { maxVersion } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import type { StoredUser } from '../domain/user.ts';
import { fullUsers, rejects } from './fixture.ts';
import { type NestedKind, rowOf } from './nested-kinds.ts';

/** The users that the tests import. */
export const users: readonly StoredUser[] = [
  { id: 3, ...fullUsers[0], version: 7 },
  { id: 5, name: '\u{1f600}', version: 1 },
  { id: 9, name: ' é\u0301 ', version: 1_000_000 },
];

/** Declares the tests of the export and import of a kind of records that belong to users. */
export function testNestedTransfer(open: (t: TestContext) => Promise<Store>, nested: NestedKind): void {
  const { kind, one, draft, patches } = nested;
  const [patch, otherPatch] = patches;
  const first = rowOf(nested, [9, 2]);
  const second = rowOf(nested, [3, 4], { ...otherPatch, version: 7 });
  const rows = [first, second];
  const openWithUsers = async (t: TestContext): Promise<Store> => {
    const store = await open(t);
    await store.importRows('users', users);
    return store;
  };

  it(`exports ${kind} in pages, by id`, async (t) => {
    const store = await openWithUsers(t);
    await store.importRows(kind, rows.toReversed());
    assert.deepEqual(await store.exportRows(kind, 0, 1), [first]);
    assert.deepEqual(await store.exportRows(kind, 2, 10), [second]);
  });

  it(`reads and changes imported ${kind} like created ones, and assigns ids above theirs`, async (t) => {
    const store = await openWithUsers(t);
    await store.importRows(kind, rows);
    assert.equal(await nested.records(store, 3).count({}), 1);
    assert.deepEqual(await nested.records(store, 3).get(4), second);
    assert.deepEqual(await nested.records(store, 3).update(4, patch, { expected: [7] }), {
      ...second,
      ...patch,
      version: 8,
    });
    assert.equal((await nested.records(store, 3).create(draft))?.value.id, 5);
    await store.users.delete(9);
    assert.equal((await store.summary())[kind].count, 2);
  });

  it(`skips ${kind} that were imported before`, async (t) => {
    const store = await openWithUsers(t);
    assert.equal(await store.importRows(kind, [...rows, ...rows]), 2);
    assert.equal(await store.importRows(kind, rows), 0);
    assert.deepEqual(await store.exportRows(kind, 0, 10), rows);
  });

  it(`rejects a whole batch with ${one} that differs`, async (t) => {
    const store = await openWithUsers(t);
    await store.importRows(kind, rows);
    const added = rowOf(nested, [3, 1]);
    for (const change of [patch, otherPatch, { userId: 5 }, { version: 2 }]) {
      await rejects(store.importRows(kind, [added, { ...first, ...change }]), 'conflict');
    }
    assert.deepEqual(await store.exportRows(kind, 0, 10), rows);
  });

  it(`rejects a whole batch with ${one} of a missing user`, async (t) => {
    const store = await openWithUsers(t);
    await rejects(store.importRows(kind, [...rows, rowOf(nested, [4, 7])]), 'conflict');
    assert.deepEqual(await store.exportRows(kind, 0, 10), []);
  });

  it(`rejects changes to ${one} with the highest version, but allows to delete it`, async (t) => {
    const store = await openWithUsers(t);
    const last = rowOf(nested, [3, 1], { version: maxVersion });
    await store.importRows(kind, [last]);
    await rejects(nested.records(store, 3).update(1, patch), 'conflict');
    assert.deepEqual(await nested.records(store, 3).update(1, draft, { expected: [maxVersion] }), last);
    assert.equal(await nested.records(store, 3).delete(1, { expected: [maxVersion] }), true);
  });
}
