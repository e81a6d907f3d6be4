import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { DomainError } from '../domain/errors.ts';
import { userBodies } from '../domain/user.ts';
import { addUsers, type Fixture, fullUsers, keyed } from './fixture.ts';

const [full] = fullUsers;

/** Sets the name, and removes each optional field. */
const replacement = userBodies.parseReplacement({ name: 'Eve' }, {});

export function testUsers(fixture: Fixture): void {
  const { it, itRestarts } = fixture;
  describe('fields and versions of users', () => {
    it('removes all optional fields of a user, and then has nothing to remove', async (repository) => {
      await repository.users.create(full);
      const after = { id: 1, name: 'Eve', version: 2 };
      for (let i = 0; i < 2; i += 1) assert.deepEqual(await repository.users.update(1, replacement), after);
      assert.deepEqual(await repository.users.get(1), after);
    });

    for (const field of Object.keys(replacement).filter((name) => name !== 'name')) {
      it(`removes only the ${field} of a user`, async (repository) => {
        await repository.users.create(full);
        const rest = Object.fromEntries(Object.entries(full).filter(([name]) => name !== field));
        const after = { id: 1, ...rest, version: 2 };
        assert.deepEqual(await repository.users.update(1, { [field]: null }), after);
        assert.deepEqual(await repository.users.get(1), after);
      });
    }

    it('does not change when the caller modifies an object that it passed or received', async (repository) => {
      const draft = { name: 'Ada', role: 'admin' };
      const creating = repository.users.create(draft);
      draft.name = 'changed';
      const { value } = await creating;
      Reflect.set(value, 'name', 'changed');
      const read = await repository.users.get(1);
      assert.equal(read?.name, 'Ada');
      Reflect.set(read, 'role', 'changed');
      assert.equal((await repository.users.get(1))?.role, 'admin');
      const first = await repository.users.create({ name: 'Bob' }, keyed('k'));
      Reflect.set(first.value, 'name', 'changed');
      assert.equal((await repository.users.create({ name: 'Bob' }, keyed('k'))).value.name, 'Bob');
    });

    it('assigns 100 different ids to 100 users created concurrently', async (repository) => {
      const created = await Promise.all(
        Array.from({ length: 100 }, (_, i) => repository.users.create({ name: `user ${i}` })),
      );
      assert.equal(new Set(created.map(({ value }) => value.id)).size, 100);
      for (const { value } of created) assert.deepEqual(await repository.users.get(value.id), value);
    });

    it('loses no update of 16 read-modify-write loops on one user', async (repository) => {
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

    it('rejects one of several concurrent changes without effect on the others', async (repository) => {
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

    itRestarts('has the same users after a restart, and reuses no deleted id', async (repository, t) => {
      await repository.users.create(full);
      await addUsers(repository, 'Bob', 'gone');
      await repository.users.update(2, { name: 'Rob' });
      await repository.users.delete(3);
      const again = await fixture.restart(t, repository);
      assert.deepEqual(await again.users.get(1), { id: 1, ...full, version: 1 });
      assert.deepEqual(await again.users.get(2), { id: 2, name: 'Rob', version: 2 });
      const [next] = await addUsers(again, 'next');
      assert(next !== undefined && next.id > 3, `got ${next?.id}`);
    });
  });
}
