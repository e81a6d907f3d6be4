import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { maxVersion } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import type { StoredUser } from '../domain/user.ts';
import { fullUsers, rejects } from './fixture.ts';
import { rowOf, type TestedKind } from './kinds.ts';

/** The users that the tests import. */
export const users: readonly StoredUser[] = [
  { id: 3, ...fullUsers[0], version: 7 },
  { id: 5, name: '\u{1f600}', version: 1 },
  { id: 9, name: ' é\u0301 ', version: 1_000_000 },
];

export type StoreTest = (store: Store, t: TestContext) => Promise<void>;
/** Declares a test of a new, empty store. */
export type DeclareTest = (name: string, test: StoreTest) => void;

/** Declares the tests of the export and import of a kind of records. */
export function testRecordTransfer(itOpens: DeclareTest, tested: TestedKind): void {
  const { kind, one, draft, patches, records } = tested;
  const [patch, otherPatch] = patches;
  const first = rowOf(tested, [9, 2]);
  const isNested = 'userId' in first;
  const second = rowOf(tested, [3, 4], { ...otherPatch, version: 7 });
  /** Without optional fields. */
  const bare = rowOf({ ...tested, draft: tested.exact[0]?.[1] ?? draft }, [3, 3]);
  const rows = [first, bare, second];
  /** Declares a test of a store with the users to whom the records belong. */
  const it = (name: string, test: StoreTest) =>
    itOpens(name, async (store, t) => {
      if (isNested) await store.importRows('users', users);
      await test(store, t);
    });

  it(`exports ${kind} in pages, by id`, async (store) => {
    await store.importRows(kind, rows.toReversed());
    assert.deepEqual(await store.exportRows(kind, 0, 10), rows);
    assert.deepEqual(await store.exportRows(kind, 0, 1), [first]);
    assert.deepEqual(await store.exportRows(kind, 2, 10), [bare, second]);
    assert.deepEqual(await store.exportRows(kind, 4, 10), []);
  });

  it(`reads and changes imported ${kind} like created ones, and assigns ids above theirs`, async (store) => {
    await store.importRows(kind, rows);
    assert.deepEqual(await records(store, 3).get(4), second);
    assert.deepEqual(await records(store, 3).update(4, patch, { expected: [7] }), {
      ...second,
      ...patch,
      version: 8,
    });
    assert.equal((await records(store, 3).create(draft))?.value.id, 5);
    await store.importRows(kind, [rowOf(tested, [3, 1])]);
    assert.equal((await records(store, 3).create(draft))?.value.id, 6);
    await store.users.delete(isNested ? 9 : 2);
    assert.equal((await store.summary())[kind].count, 5);
  });

  it(`skips ${kind} that were imported before`, async (store) => {
    assert.equal(await store.importRows(kind, [first, first, second]), 2);
    assert.equal(await store.importRows(kind, [...rows, ...rows]), 1);
    assert.equal(await store.importRows(kind, rows), 0);
    assert.deepEqual(await store.exportRows(kind, 0, 10), rows);
  });

  it(`rejects a whole batch with ${one} that differs`, async (store) => {
    await store.importRows(kind, rows);
    const [early, late] = [rowOf(tested, [3, 1]), rowOf(tested, [3, 7])];
    const others = [
      ...[patch, otherPatch, ...(isNested ? [{ userId: 5 }] : []), { version: 2 }].map((change) => {
        return { ...first, ...change };
      }),
      ...Object.entries(draft).map(([field, value]) => ({ ...bare, [field]: value })),
    ];
    for (const one of others) await rejects(store.importRows(kind, [early, one, late]), 'conflict');
    assert.deepEqual(await store.exportRows(kind, 0, 10), rows);
  });

  it(`rejects changes to ${one} with the highest version, but allows to read and delete it`, async (store) => {
    const last = rowOf(tested, [3, 1], { version: maxVersion });
    await store.importRows(kind, [last, { ...last, id: 2, version: maxVersion - 1 }]);
    const ofUser = records(store, 3);
    await rejects(ofUser.update(1, patch), 'conflict');
    await rejects(ofUser.update(1, patch, { expected: [maxVersion] }), 'conflict');
    await rejects(ofUser.update(1, patch, { expected: [1] }), 'precondition-failed');
    assert.deepEqual(await ofUser.update(1, draft, { expected: [maxVersion] }), last);
    assert.deepEqual(await ofUser.get(1), last);
    assert.equal((await ofUser.update(2, patch))?.version, maxVersion);
    await assert.rejects(ofUser.update(2, otherPatch), { kind: 'conflict', isFinal: true });
    assert.equal(await ofUser.delete(1, { expected: [maxVersion] }), true);
  });

  if (!isNested) return;

  it(`rejects a whole batch with ${one} of a missing user`, async (store) => {
    await rejects(store.importRows(kind, [...rows, rowOf(tested, [4, 7])]), 'conflict');
    assert.deepEqual(await store.exportRows(kind, 0, 10), []);
  });
}
