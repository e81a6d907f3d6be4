import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { ChangesGone } from '../domain/change.ts';
import { byKind, maxId, recordKinds } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import { addUsers, fullUsers, keyed, rejects } from './fixture.ts';
import { feedOf, follow } from './follow.ts';
import { nestedKinds, rowOf, testedKinds } from './kinds.ts';
import { type DeclareTest, testRecordTransfer, users } from './record-transfer.ts';

const emptySummary = byKind(() => ({ count: 0, lastId: 0 }));

const operations: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  summary: (store) => store.summary(),
  exportRows: (store) => store.exportRows('users', 0, 1),
  importRows: (store) => store.importRows('users', users),
  continueIds: (store) => store.continueIds(byKind(() => 1)),
};

/** Declares the tests of export and import that every store must pass: the contract in `domain/repository.ts`. */
export function testTransfer(name: string, openStore: () => Promise<Store>): void {
  const open = async (t: TestContext): Promise<Store> => {
    const store = await openStore();
    t.after(() => store.close());
    return store;
  };

  const it: DeclareTest = (what, check) => test(what, async (t) => check(await open(t), t));

  describe(`${name}, as the source and target of a copy`, () => {
    it('returns a summary of an empty store, also after the import of an empty batch', async (store) => {
      for (const kind of recordKinds) assert.equal(await store.importRows(kind, []), 0);
      assert.deepEqual(await store.summary(), emptySummary);
      for (const kind of recordKinds) assert.deepEqual(await store.exportRows(kind, 0, 10), []);
    });

    it('returns a summary with the number of records and the last ids, including deleted ones', async (store) => {
      await addUsers(store, 'a', 'b', 'c');
      for (const { records, draft } of nestedKinds) {
        for (const userId of [1, 3, 3]) await records(store, userId).create(draft);
      }
      await store.users.delete(3);
      assert.deepEqual(await store.summary(), {
        ...byKind(() => ({ count: 1, lastId: 3 })),
        users: { count: 2, lastId: 3 },
      });
    });

    test('copies all records and the last ids from one store to another', async (t) => {
      const [from, to] = [await open(t), await open(t)];
      await from.users.create(fullUsers[0]);
      await addUsers(from, 'Bob', 'gone');
      await from.users.update(2, { name: 'Rob' });
      for (const { records, draft, patches } of nestedKinds) {
        for (const userId of [2, 1, 3]) await records(from, userId).create(draft);
        await records(from, 1).update(2, patches[0]);
      }
      await from.users.delete(3);
      for (const kind of recordKinds) {
        assert.equal(await to.importRows(kind, await from.exportRows(kind, 0, 10)), 2);
      }
      const summary = await from.summary();
      await to.continueIds(byKind((kind) => summary[kind].lastId));
      for (const kind of recordKinds) {
        assert.deepEqual(await to.exportRows(kind, 0, 10), await from.exportRows(kind, 0, 10));
      }
      assert.deepEqual(await to.summary(), summary);
      assert.equal((await to.users.create({ name: 'next' })).value.id, 4);
      for (const { records, draft } of nestedKinds)
        assert.equal((await records(to, 1).create(draft))?.value.id, 4);
    });

    it('restarts its feed of changes with an import, if it has one', async (store, t) => {
      const feed = store.changes;
      if (feed === undefined) return t.skip('the store has no feed of changes');
      await addUsers(store, 'a');
      await follow(feed, ({ length }) => length === 1);
      const before = await feed.position();
      await store.importRows('users', users);
      await assert.rejects(feed.read({ after: 0, limit: 1 }), ChangesGone);
      await assert.rejects(feed.read({ after: before, limit: 1 }), ChangesGone);
      for (const nested of nestedKinds) {
        const between = await feed.position();
        await store.importRows(nested.kind, [rowOf(nested, [3, 1])]);
        await assert.rejects(feed.read({ after: between, limit: 1 }), ChangesGone);
      }
      const after = await feed.position();
      assert.equal(await store.importRows('users', users), 0);
      await store.importRows('users', []);
      await store.continueIds(byKind(() => 0));
      await store.users.update(3, { name: 'Eve' });
      const [change] = await follow(feed, ({ length }) => length === 1, { after });
      assert.deepEqual(change?.record, { ...users[0], name: 'Eve', version: 8 });
    });

    test('rejects positions of the store that it was copied from, even if only ids were copied, if it has a feed', async (t) => {
      const [from, full, empty] = [await open(t), await open(t), await open(t)];
      if (from.changes === undefined) return t.skip('the store has no feed of changes');
      await addUsers(from, 'a', 'b', 'c');
      const feed = feedOf(from);
      await follow(feed, ({ length }) => length === 3);
      const after = await feed.position();
      await full.importRows('users', await from.exportRows('users', 0, 10));
      await empty.continueIds({ ...byKind(() => 0), users: 3 });
      for (const to of [full, empty]) {
        do await addUsers(to, 'later');
        while ((await feedOf(to).position()) <= after);
        await assert.rejects(feedOf(to).read({ after, limit: 1 }), ChangesGone);
      }
    });

    it('adds each record once in ten concurrent imports', async (store) => {
      const added = await Promise.all(Array.from({ length: 10 }, () => store.importRows('users', users)));
      const sum = added.reduce((total, n) => total + n);
      assert.equal(sum, 3);
    });

    it('continues from higher ids, and ignores lower ones', async (store) => {
      await store.continueIds({ ...byKind((_, i) => 100 * (i + 1)), users: 100 });
      await store.continueIds({ ...byKind((_, i) => 100 * (i + 2)), users: 50 });
      await store.continueIds(byKind(() => 0));
      assert.equal((await store.users.create({ name: 'next' })).value.id, 101);
      for (const [i, { records, draft }] of nestedKinds.entries()) {
        assert.equal((await records(store, 101).create(draft))?.value.id, 100 * (i + 3) + 1);
      }
    });

    it('assigns the highest id, then fails as unavailable', async (store) => {
      await store.continueIds(byKind(() => maxId - 1));
      assert.equal((await store.users.create({ name: 'last' })).value.id, maxId);
      await assert.rejects(store.users.create({ name: 'beyond' }), { kind: 'unavailable', isFinal: true });
      await rejects(store.users.create({ name: 'beyond' }, keyed('k')), 'unavailable');
      for (const { records, draft } of nestedKinds) {
        assert.equal((await records(store, maxId).create(draft))?.value.id, maxId);
        await rejects(records(store, maxId).create(draft), 'unavailable');
        assert.equal(await records(store, 1).create(draft), undefined, 'a missing user is reported first');
      }
      await store.users.delete(maxId);
      await rejects(store.users.create({ name: 'beyond' }), 'unavailable');
      const lastOnly = byKind(() => ({ count: 0, lastId: maxId }));
      assert.deepEqual(await store.summary(), lastOnly);
    });

    for (const tested of testedKinds) testRecordTransfer(it, tested);

    it('rejects all of these calls as unavailable on a closed store', async (store) => {
      await store.close();
      for (const call of Object.values(operations)) await rejects(call(store), 'unavailable');
    });
  });
}
