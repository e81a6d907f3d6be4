import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { maxId, nameOf } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import { type Fixture, keyed, rejects } from './fixture.ts';
import { firstChanges, whatOf } from './follow.ts';
import { addRecords, rowOf, type TestedKind } from './kinds.ts';

type Change = (
  repository: Repository,
  userId: number,
  id: number,
  expected?: readonly number[],
) => Promise<unknown>;

/** Declares the tests of creating, changing and deleting records of a kind. */
export function testRecords(fixture: Fixture, tested: TestedKind): void {
  const { kind, one, draft, other, patches, records, query } = tested;
  const [patch, otherPatch] = patches;
  const fill = (repository: Repository) => addRecords(repository, tested);
  /** The record that `fill` creates for user 1, and the next one. */
  const row = rowOf(tested, [1, 2]);
  const next = rowOf(tested, [1, 4]);
  /** Users, each with the id of a record that it does not have. */
  const missing: readonly (readonly [userId: number, id: number])[] = [
    ...(kind === 'users'
      ? []
      : ([
          [2, 2],
          [1, 3],
          [3, 2],
        ] as const)),
    [1, 4],
    [maxId, maxId],
  ];

  const updates: readonly (readonly [what: string, patch: object, changed: object])[] = [
    ['no field, without a new version', {}, {}],
    ['all fields', other, other],
    ['all fields to the same values, without a new version', draft, {}],
    ...Object.entries(other).map(([field, value]) => {
      return [`only the ${field}`, { [field]: value }, { [field]: value }] as const;
    }),
    ...Object.entries(draft).map(([field, value]) => {
      return [`the ${field} to the same value, without a new version`, { [field]: value }, {}] as const;
    }),
    ...tested.updates,
  ];
  const changes: Readonly<Record<string, Change>> = {
    'an update': (repository, userId, id, expected) =>
      records(repository, userId).update(id, patch, expected && { expected }),
    'an update without fields': (repository, userId, id, expected) =>
      records(repository, userId).update(id, {}, expected && { expected }),
    'a deletion': (repository, userId, id, expected) =>
      records(repository, userId).delete(id, expected && { expected }),
  };

  const { it } = fixture;
  describe(kind, () => {
    it(`creates ${one} with all fields and version 1, not replayed`, async (repository) => {
      await fill(repository);
      assert.deepEqual(await records(repository, 1).create(draft), { value: next, replayed: false });
      assert.deepEqual(await records(repository, 1).get(4), next);
    });

    const withThree = fixture.share(fill);
    for (const [what, given, changed] of updates) {
      test(`updates ${what}`, async () => {
        const repository = await withThree();
        const created = await records(repository, 1).create(draft);
        assert(created);
        const { id } = created.value;
        const version = Object.keys(changed).length > 0 ? 2 : 1;
        const after = rowOf(tested, [1, id], { ...changed, version });
        assert.deepEqual(await records(repository, 1).update(id, given), after);
        assert.deepEqual(await records(repository, 1).get(id), after);
        assert.deepEqual(await records(repository, 2).get(3), rowOf(tested, [2, 3]));
      });
    }

    it(`deletes ${one} once, and does not reuse its id`, async (repository) => {
      await fill(repository);
      const count = Number(await records(repository, 2).count({}));
      assert.equal(await records(repository, 2).delete(3), true);
      assert.equal(await records(repository, 2).delete(3), false);
      assert.equal(await records(repository, 2).get(3), undefined);
      assert.equal(await records(repository, 2).count({}), count - 1);
      assert.deepEqual(await records(repository, 1).get(2), row);
      assert.equal((await records(repository, 1).create(draft))?.value.id, 4);
    });

    for (const [what, change] of Object.entries(changes)) {
      it(`${what} does not find ${one} that does not exist, for any expected version`, async (repository) => {
        await fill(repository);
        for (const expected of [undefined, [], [1], [1, 2]]) {
          for (const [userId, id] of missing) {
            const missed = await change(repository, userId, id, expected);
            assert(missed === undefined || missed === false, `${expected}: got ${missed}`);
            assert.equal(
              await records(repository, userId).get(id),
              undefined,
              `record ${id} of user ${userId}`,
            );
          }
        }
        assert.deepEqual(await records(repository, 1).get(2), row);
      });

      it(`${what} of ${one} accepts an expected version, and rejects other versions`, async (repository) => {
        await fill(repository);
        for (const expected of [[2], [], [0], [2, 3, maxId]]) {
          await rejects(change(repository, 1, 2, expected), 'precondition-failed');
        }
        assert.deepEqual(await records(repository, 1).get(2), row);
        await records(repository, 2).update(3, otherPatch);
        assert.ok(await change(repository, 1, 2, [1]));
        assert.ok(await change(repository, 2, 3, [7, 2, 1000]));
      });
    }

    it(`applies two concurrent patches of different fields of ${one}`, async (repository) => {
      await fill(repository);
      await Promise.all(patches.map((one) => records(repository, 1).update(2, one)));
      const both = { ...patch, ...otherPatch, version: 3 };
      assert.deepEqual(await records(repository, 1).get(2), rowOf(tested, [1, 2], both));
    });

    it(`accepts one of ten concurrent changes to the same version of ${one}`, async (repository) => {
      await fill(repository);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, () => records(repository, 1).update(2, patch, { expected: [1] })),
      );
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
      assert.equal((await records(repository, 1).get(2))?.version, 2);
    });

    it(`accepts one of ten concurrent deletions of ${one}`, async (repository) => {
      await fill(repository);
      const deletions = Array.from({ length: 10 }, () => records(repository, 1).delete(2));
      assert.equal((await Promise.all(deletions)).filter(Boolean).length, 1);
    });

    for (const [what, given] of tested.exact) {
      test(`stores ${one} unchanged: ${what}`, async () => {
        const repository = await withThree();
        const created = await records(repository, 1).create(given);
        const updated = await records(repository, 1).create(draft);
        assert(created && updated);
        const { id } = created.value;
        assert.deepEqual(created.value, rowOf({ ...tested, draft: given }, [1, id]));
        assert.deepEqual(await records(repository, 1).get(id), created.value);
        const page = await records(repository, 1).list(query('sort=-id&limit=100'));
        const { version, ...listed } = created.value;
        assert.deepEqual(
          page?.items.find((item) => item.id === id),
          listed,
        );
        const after = rowOf(tested, [1, updated.value.id], { ...given, version: 2 });
        assert.deepEqual(await records(repository, 1).update(updated.value.id, given), after);
        assert.deepEqual(await records(repository, 1).get(updated.value.id), after);
      });
    }

    it(`creates ${one} once for an idempotency key, and replays it even after it was changed and deleted`, async (repository) => {
      await fill(repository);
      const create = (fingerprint?: string) => records(repository, 1).create(draft, keyed('k', fingerprint));
      const count = Number(await records(repository, 1).count({}));
      assert.deepEqual(await create(), { value: next, replayed: false });
      const replayed = { value: next, replayed: true };
      assert.deepEqual(await create(), replayed);
      await rejects(create('other'), 'unprocessable');
      assert.equal(await records(repository, 1).count({}), count + 1);
      await records(repository, 1).update(4, patch);
      assert.deepEqual(await create(), replayed);
      await records(repository, 1).delete(4);
      assert.deepEqual(await create(), replayed);
      await repository.users.delete(1);
      assert.deepEqual(await create(), replayed);
    });

    if (!fixture.traits.feed) return;

    it(`adds each change of ${one} to the feed once, with its origin, but no write without effect`, async (repository) => {
      await fill(repository);
      const origin = { requestId: 'a-1', key: 'ops' };
      const outdated = { expected: [9] };
      const ofUser = records(repository, 1);
      if (kind !== 'users') await records(repository, 3).create(draft);
      await ofUser.create(draft, { ...keyed('k'), origin });
      await ofUser.create(draft, { ...keyed('k'), origin: { requestId: 'a-2' } });
      await rejects(ofUser.create(draft, keyed('k', 'other')), 'unprocessable');
      await ofUser.update(4, {});
      await ofUser.update(4, draft);
      for (const change of Object.values(changes)) await change(repository, maxId, maxId);
      if (kind !== 'users') for (const change of Object.values(changes)) await change(repository, 2, 4);
      await rejects(ofUser.update(4, patch, outdated), 'precondition-failed');
      await ofUser.update(4, patch, { origin });
      await rejects(ofUser.delete(4, outdated), 'precondition-failed');
      await ofUser.delete(4, { origin });
      const filled = kind === 'users' ? 3 : 5;
      const added = (await firstChanges(repository, filled + 3)).slice(filled);
      const updated = rowOf(tested, [1, 4], { ...patch, version: 2 });
      const name = nameOf(kind);
      assert.deepEqual(added.map(whatOf), [
        [`${name}.created`, next],
        [`${name}.updated`, updated],
        [`${name}.deleted`, updated],
      ]);
      for (const change of added) assert.deepEqual(change.origin, origin);
    });
  });
}
