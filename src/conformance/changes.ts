import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DomainError } from '../domain/errors.ts';
import { maxId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import { type StoredUser, type UserPatch, userBodies } from '../domain/user.ts';
import { addUsers, type Fixture, fullUsers, rejects } from './fixture.ts';

const [full, other] = fullUsers;
const ada: StoredUser = { id: 1, ...full, version: 1 };
/** Sets the name, and removes each optional field. */
const replacement = userBodies.parseReplacement({ name: 'Eve' }, {});

const patches: readonly (readonly [what: string, patch: UserPatch, after: StoredUser])[] = [
  ['no field, without a new version', {}, ada],
  ['all fields', other, { id: 1, ...other, version: 2 }],
  ['all fields to the same values, without a new version', full, ada],
  ['a name, and all optional fields to null', replacement, { id: 1, name: 'Eve', version: 2 }],
  ['a name to one that differs only in case', { name: 'ADA' }, { ...ada, name: 'ADA', version: 2 }],
  ['a name to one with a trailing space', { name: 'Ada ' }, { ...ada, name: 'Ada ', version: 2 }],
];

type Change = (repository: Repository, id: number, expected?: readonly number[]) => Promise<unknown>;

const changes: Readonly<Record<string, Change>> = {
  'users.update': (repository, id, expected) =>
    repository.users.update(id, { name: 'Eve' }, expected && { expected }),
  'users.update without fields': (repository, id, expected) =>
    repository.users.update(id, {}, expected && { expected }),
  'users.delete': (repository, id, expected) => repository.users.delete(id, expected && { expected }),
};

export function testChanges(fixture: Fixture): void {
  describe('changes', () => {
    const withOther = fixture.share((repository) => addUsers(repository, 'other'));
    const checkUpdate = async (patch: UserPatch, updated: object) => {
      const repository = await withOther();
      const { value } = await repository.users.create(full);
      const after = { ...updated, id: value.id };
      assert.deepEqual(await repository.users.update(value.id, patch), after);
      assert.deepEqual(await repository.users.get(value.id), after);
      assert.deepEqual(await repository.users.get(1), { id: 1, name: 'other', version: 1 });
    };
    for (const [what, patch, updated] of patches) {
      it(`updates ${what}`, () => checkUpdate(patch, updated));
    }
    for (const [field, value] of Object.entries(other)) {
      it(`updates only the ${field}`, () =>
        checkUpdate({ [field]: value }, { ...ada, [field]: value, version: 2 }));
    }
    for (const [field, value] of Object.entries(full)) {
      it(`updates the ${field} to the same value, without a new version`, () =>
        checkUpdate({ [field]: value }, ada));
    }
    for (const field of Object.keys(replacement).filter((name) => name !== 'name')) {
      it(`removes only the ${field}`, () => {
        const rest = Object.entries(ada).filter(([name]) => name !== field);
        return checkUpdate({ [field]: null }, { ...Object.fromEntries(rest), version: 2 });
      });
    }

    it('does not change a user without optional fields by removing them', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Eve');
      assert.deepEqual(await repository.users.update(1, replacement), { id: 1, name: 'Eve', version: 1 });
    });

    it('deletes a user once, and no other user', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      assert.equal(await repository.users.delete(1), true);
      assert.equal(await repository.users.get(1), undefined);
      assert.equal(await repository.users.delete(1), false);
      assert.equal((await repository.users.get(2))?.name, 'Bob');
    });

    const empty = fixture.share(async () => {});
    for (const [name, change] of Object.entries(changes)) {
      it(`${name} does not find a user that does not exist, for any expected version`, async () => {
        const repository = await empty();
        for (const expected of [undefined, [], [1], [1, 2]]) {
          for (const id of [1, maxId]) {
            const missed = await change(repository, id, expected);
            assert(missed === undefined || missed === false, `${expected}: got ${missed}`);
          }
        }
      });

      it(`${name} changes a user with an expected version`, async (t) => {
        const repository = await fixture.open(t);
        await addUsers(repository, 'Ada', 'Bob');
        await repository.users.update(2, { name: 'Rob' });
        assert.ok(await change(repository, 1, [1]));
        assert.ok(await change(repository, 2, [7, 2, 1000]));
      });

      it(`${name} rejects a version that is not expected`, async (t) => {
        const repository = await fixture.open(t);
        await repository.users.create(full);
        for (const expected of [[2], [], [0], [2, 3, maxId]]) {
          await rejects(change(repository, 1, expected), 'precondition-failed');
        }
        assert.deepEqual(await repository.users.get(1), ada);
      });
    }

    it('loses no update of 16 read-modify-write loops on one user', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, '0');
      const increment = async (): Promise<void> => {
        for (;;) {
          const user = await repository.users.get(1);
          assert(user);
          try {
            const name = `${Number(user.name) + 1}`;
            await repository.users.update(1, { name }, { expected: [user.version] });
            return;
          } catch (error) {
            assert(error instanceof DomainError && error.kind === 'precondition-failed', String(error));
          }
        }
      };
      await Promise.all(Array.from({ length: 16 }, increment));
      assert.deepEqual(await repository.users.get(1), { id: 1, name: '16', version: 17 });
    });

    it('applies two concurrent patches of different fields', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      await Promise.all([
        repository.users.update(1, { name: 'Eve' }),
        repository.users.update(1, { role: 'admin' }),
      ]);
      assert.deepEqual(await repository.users.get(1), { id: 1, name: 'Eve', role: 'admin', version: 3 });
    });

    it('accepts one of ten concurrent deletions of a user', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      const deleted = await Promise.all(Array.from({ length: 10 }, () => repository.users.delete(1)));
      assert.equal(deleted.filter(Boolean).length, 1);
    });

    it('rejects one of several concurrent changes without effect on the others', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a', 'b', 'c');
      const [first, second, third] = await Promise.allSettled([
        repository.users.update(1, { name: 'x' }),
        repository.users.update(2, { name: 'x' }, { expected: [9] }),
        repository.users.update(3, { name: 'x' }),
      ]);
      assert.equal(first.status, 'fulfilled');
      assert.equal(second.status, 'rejected');
      assert.equal(third.status, 'fulfilled');
      assert.equal((await repository.users.get(2))?.name, 'b');
    });
  });
}
