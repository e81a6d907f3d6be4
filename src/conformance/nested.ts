import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { maxId, nameOf } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import { addUsers, type Fixture, keyed, rejects } from './fixture.ts';
import { firstChanges, whatOf } from './follow.ts';
import { addNested, type NestedKind, rowOf } from './nested-kinds.ts';

type Change = (
  repository: Repository,
  userId: number,
  id: number,
  expected?: readonly number[],
) => Promise<unknown>;

/** Declares the tests of a kind of records that belong to users. */
export function testNested(fixture: Fixture, nested: NestedKind): void {
  const { kind, one, draft, patches, records } = nested;
  const [patch, otherPatch] = patches;
  const name = nameOf(kind);
  /** The record that `addNested` creates for user 1. */
  const row = rowOf(nested, [1, 2]);
  const fill = (repository: Repository) => addNested(repository, nested);

  const updates: readonly (readonly [what: string, patch: object, changed: object])[] = [
    ['no field, without a new version', {}, {}],
    ['one field', patch, patch],
    ['another field', otherPatch, otherPatch],
    ['several fields', { ...patch, ...otherPatch }, { ...patch, ...otherPatch }],
    ['all fields to the same values, without a new version', draft, {}],
    ...nested.updates,
  ];
  const changes: Readonly<Record<string, Change>> = {
    'an update': (repository, userId, id, expected) =>
      records(repository, userId).update(id, patch, expected && { expected }),
    'an update without fields': (repository, userId, id, expected) =>
      records(repository, userId).update(id, {}, expected && { expected }),
    'a deletion': (repository, userId, id, expected) =>
      records(repository, userId).delete(id, expected && { expected }),
  };

  describe(kind, () => {
    it(`creates ${one} with all fields, not replayed`, async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      const created = await records(repository, 2).create(draft);
      assert.deepEqual(created, { value: { id: 1, userId: 2, ...draft, version: 1 }, replayed: false });
      assert.deepEqual(await records(repository, 2).get(1), created?.value);
      assert.deepEqual(await records(repository, 2).list(nested.query()), {
        items: [{ id: 1, userId: 2, ...draft }],
      });
    });

    it(`finds ${one} only by its user`, async (t) => {
      const repository = await fixture.open(t);
      await fill(repository);
      assert.deepEqual(await records(repository, 1).get(2), row);
      for (const [userId, id] of [
        [1, 1],
        [2, 2],
        [1, 4],
        [3, 1],
        [maxId, maxId],
      ] as const) {
        assert.equal(await records(repository, userId).get(id), undefined, `record ${id} of user ${userId}`);
      }
    });

    const withThree = fixture.share(fill);
    for (const [what, given, changed] of updates) {
      it(`updates ${what}`, async () => {
        const repository = await withThree();
        const created = await records(repository, 1).create(draft);
        assert(created);
        const { id } = created.value;
        const version = Object.keys(changed).length > 0 ? 2 : 1;
        const after = rowOf(nested, [1, id], { ...changed, version });
        assert.deepEqual(await records(repository, 1).update(id, given), after);
        assert.deepEqual(await records(repository, 1).get(id), after);
        assert.deepEqual(await records(repository, 2).get(3), rowOf(nested, [2, 3]));
      });
    }

    it(`deletes ${one} once, and does not reuse its id`, async (t) => {
      const repository = await fixture.open(t);
      await fill(repository);
      assert.equal(await records(repository, 2).delete(3), true);
      assert.equal(await records(repository, 2).delete(3), false);
      assert.equal(await records(repository, 2).get(3), undefined);
      assert.equal(await records(repository, 2).count({}), 1);
      assert.deepEqual(await records(repository, 1).get(2), row);
      assert.equal((await records(repository, 2).create(draft))?.value.id, 4);
    });

    for (const [what, change] of Object.entries(changes)) {
      it(`${what} does not find ${one} that the user does not have, for any expected version`, async () => {
        const repository = await withThree();
        for (const expected of [undefined, [], [1], [2]]) {
          for (const [userId, id] of [
            [2, 2],
            [1, 3],
            [3, 2],
            [maxId, maxId],
          ] as const) {
            const missed = await change(repository, userId, id, expected);
            assert(missed === undefined || missed === false, `${expected}: got ${missed}`);
          }
        }
        assert.deepEqual(await records(repository, 1).get(2), row);
      });

      it(`${what} of ${one} accepts an expected version, and rejects other versions`, async (t) => {
        const repository = await fixture.open(t);
        await fill(repository);
        for (const expected of [[2], [], [0], [2, 3, maxId]]) {
          await rejects(change(repository, 1, 2, expected), 'precondition-failed');
        }
        assert.deepEqual(await records(repository, 1).get(2), row);
        assert.ok(await change(repository, 1, 2, [7, 1, 1000]));
      });
    }

    it(`applies two concurrent patches of different fields of ${one}`, async (t) => {
      const repository = await fixture.open(t);
      await fill(repository);
      await Promise.all(patches.map((one) => records(repository, 1).update(2, one)));
      const both = { ...patch, ...otherPatch, version: 3 };
      assert.deepEqual(await records(repository, 1).get(2), rowOf(nested, [1, 2], both));
    });

    it(`accepts one of ten concurrent changes to the same version of ${one}`, async (t) => {
      const repository = await fixture.open(t);
      await fill(repository);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, () => records(repository, 1).update(2, patch, { expected: [1] })),
      );
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
      assert.equal((await records(repository, 1).get(2))?.version, 2);
    });

    for (const [what, given] of nested.exact) {
      it(`stores ${one} unchanged: ${what}`, async () => {
        const repository = await withThree();
        const created = await records(repository, 1).create(given);
        assert(created);
        const { id } = created.value;
        assert.deepEqual(created.value, { id, userId: 1, ...given, version: 1 });
        assert.deepEqual(await records(repository, 1).get(id), created.value);
        const page = await records(repository, 1).list(nested.query('sort=-id&limit=100'));
        const listed = page?.items.find((item) => item.id === id);
        assert.deepEqual(listed, { id, userId: 1, ...given });
      });
    }

    it(`creates ${one} once for an idempotency key, and replays it even after its user was deleted`, async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      const first = await records(repository, 1).create(draft, keyed('k'));
      assert.equal(first?.replayed, false);
      const replayed = { value: first.value, replayed: true };
      assert.deepEqual(await records(repository, 1).create(draft, keyed('k')), replayed);
      await rejects(records(repository, 1).create(draft, keyed('k', 'other')), 'unprocessable');
      assert.equal(await records(repository, 1).count({}), 1);
      await repository.users.delete(1);
      assert.deepEqual(await records(repository, 1).create(draft, keyed('k')), replayed);
    });

    it(`does not store the idempotency key of ${one} whose user does not exist`, async (t) => {
      const repository = await fixture.open(t);
      assert.equal(await records(repository, 1).create(draft, keyed('k')), undefined);
      await addUsers(repository, 'Ada');
      assert.equal((await records(repository, 1).create(draft, keyed('k')))?.replayed, false);
    });

    if (!fixture.traits.feed) return;

    it(`adds each change of ${one} to the feed, but no write without effect`, async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      const origin = { requestId: 'a-1', key: 'ops' };
      const outdated = { expected: [9] };
      await records(repository, 3).create(draft);
      await records(repository, 1).create(draft, { ...keyed('k'), origin });
      await records(repository, 1).create(draft, { ...keyed('k'), origin: { requestId: 'a-2' } });
      await records(repository, 1).update(1, draft);
      await records(repository, 2).update(1, patch);
      await rejects(records(repository, 1).update(1, patch, outdated), 'precondition-failed');
      await records(repository, 1).update(1, patch, { origin });
      await records(repository, 2).delete(1);
      await rejects(records(repository, 1).delete(1, outdated), 'precondition-failed');
      await records(repository, 1).delete(1, { origin });
      const changes = (await firstChanges(repository, 5)).slice(2);
      const updated = rowOf(nested, [1, 1], { ...patch, version: 2 });
      assert.deepEqual(changes.map(whatOf), [
        [`${name}.created`, rowOf(nested, [1, 1])],
        [`${name}.updated`, updated],
        [`${name}.deleted`, updated],
      ]);
      for (const change of changes) assert.deepEqual(change.origin, origin);
    });

    it(`adds the deletions of the ${kind} of a deleted user to the feed, then of the user, with one origin`, async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1]) await records(repository, userId).create(draft);
      await records(repository, 1).update(3, patch);
      const origin = { requestId: 'a-1', key: 'ops' };
      await rejects(repository.users.delete(1, { expected: [2] }), 'precondition-failed');
      await repository.users.delete(1, { origin, expected: [1] });
      const deletions = (await firstChanges(repository, 9)).slice(6);
      const below = deletions.slice(0, 2).sort((a, b) => a.record.id - b.record.id);
      assert.deepEqual([...below, ...deletions.slice(2)].map(whatOf), [
        [`${name}.deleted`, rowOf(nested, [1, 1])],
        [`${name}.deleted`, rowOf(nested, [1, 3], { ...patch, version: 2 })],
        ['user.deleted', { id: 1, name: 'Ada', version: 1 }],
      ]);
      for (const deletion of deletions) assert.deepEqual(deletion.origin, origin);
    });
  });
}
