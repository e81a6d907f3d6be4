import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { maxId, nameOf } from '../domain/record.ts';
import { addUsers, columnOf, type Fixture, keyed, rejects } from './fixture.ts';
import { firstChanges, whatOf } from './follow.ts';
import { type NestedKind, rowOf } from './kinds.ts';

/** Declares the tests of users that have records of a kind. */
export function testNested(fixture: Fixture, nested: NestedKind): void {
  const { kind, one, text, draft, patches, query, records } = nested;

  const { it } = fixture;
  describe(`users with ${kind}`, () => {
    it(`distinguishes a user without ${kind} from no user, for which it returns undefined`, async (repository) => {
      await addUsers(repository, 'Ada');
      assert.deepEqual(await records(repository, 1).list(query()), { items: [] });
      assert.equal(await records(repository, 1).count({}), 0);
      for (const id of [2, maxId]) {
        assert.equal(await records(repository, id).list(query()), undefined);
        assert.equal(await records(repository, id).list(query(`${text}=No`)), undefined);
        assert.equal(await records(repository, id).count({}), undefined);
        assert.equal(await records(repository, id).count({ [text]: 'No' }), undefined);
        assert.equal(await records(repository, id).create(draft), undefined);
      }
    });

    it(`lists and counts the ${kind} of one user only`, async (repository) => {
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1, 1]) await records(repository, userId).create(draft);
      const page = await records(repository, 1).list(query());
      assert.deepEqual(columnOf(page?.items, 'id'), [1, 3, 4]);
      assert.equal(await records(repository, 1).count({}), 3);
      assert.equal(await records(repository, 2).count({}), 1);
    });

    it(`does not store the idempotency key of ${one} whose user does not exist`, async (repository) => {
      assert.equal(await records(repository, 1).create(draft, keyed('k')), undefined);
      await addUsers(repository, 'Ada');
      assert.equal((await records(repository, 1).create(draft, keyed('k')))?.replayed, false);
    });

    it(`deletes the ${kind} of a deleted user, and no others`, async (repository) => {
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1]) await records(repository, userId).create(draft);
      await repository.users.delete(1);
      assert.equal(await records(repository, 1).count({}), undefined);
      assert.equal(await records(repository, 1).list(query()), undefined);
      assert.equal(await records(repository, 2).count({}), 1);
      const created = await records(repository, 2).create(draft);
      assert.equal(created?.value.id, 4, 'the id of a deleted record is used again');
    });

    it(`keeps the ${kind} of a user whose deletion fails`, async (repository) => {
      await addUsers(repository, 'Ada');
      await records(repository, 1).create(draft);
      await rejects(repository.users.delete(1, { expected: [9] }), 'precondition-failed');
      assert.equal(await records(repository, 1).count({}), 1);
    });

    it(`leaves no ${kind} without a user if they are created while their user is deleted`, async (repository) => {
      await addUsers(repository, 'Ada', 'Bob');
      const createOne = () => records(repository, 1).create(draft);
      const before = Array.from({ length: 10 }, createOne);
      const deleted = repository.users.delete(1);
      const after = Array.from({ length: 10 }, createOne);
      assert.equal(await deleted, true);
      // Each call either creates a record, which is then deleted, or finds no user.
      await Promise.all([...before, ...after]);
      assert.equal(await records(repository, 1).count({}), undefined);
      assert.equal(await createOne(), undefined);
    });

    it(`hides all ${kind} at once from readers`, async (repository) => {
      await addUsers(repository, 'Ada');
      for (let i = 0; i < 5; i += 1) await records(repository, 1).create(draft);
      let isOver = false;
      const deleting = repository.users.delete(1).finally(() => {
        isOver = true;
      });
      for (let reads = 1; !isOver; reads += 1) {
        const count = await records(repository, 1).count({});
        assert(count === undefined || count === 5, `a reader sees ${count} of 5`);
        // Counts that finish without any wait would keep the deletion from running.
        if (reads % 10 === 0) await nextTurn();
      }
      assert.equal(await deleting, true);
    });

    if (!fixture.traits.feed) return;

    it(`adds the deletions of the ${kind} of a deleted user to the feed, then of the user, with one origin`, async (repository) => {
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1]) await records(repository, userId).create(draft);
      await records(repository, 1).update(3, patches[0]);
      const origin = { requestId: 'a-1', key: 'ops' };
      await rejects(repository.users.delete(1, { expected: [2] }), 'precondition-failed');
      await repository.users.delete(1, { origin, expected: [1] });
      const deletions = (await firstChanges(repository, 9)).slice(6);
      const below = deletions.slice(0, 2).sort((a, b) => a.record.id - b.record.id);
      assert.deepEqual([...below, ...deletions.slice(2)].map(whatOf), [
        [`${nameOf(kind)}.deleted`, rowOf(nested, [1, 1])],
        [`${nameOf(kind)}.deleted`, rowOf(nested, [1, 3], { ...patches[0], version: 2 })],
        ['user.deleted', { id: 1, name: 'Ada', version: 1 }],
      ]);
      for (const deletion of deletions) assert.deepEqual(deletion.origin, origin);
    });
  });
}
