import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { maxId } from '../domain/record.ts';
import { addUsers, columnOf, type Fixture, fullUsers, keyed } from './fixture.ts';

/** Texts that stores, drivers or escaping between them are known to damage. */
const faithfulNames: readonly (readonly [what: string, name: string])[] = [
  ['200 emoji', '😀'.repeat(200)],
  ['the highest code point', '\u{10ffff}'],
  ['a noncharacter', '\uffff'],
  ['a byte order mark', '\ufeffAda'],
  ['a combining mark, not composed', 'e\u0301'],
  ['a composed letter, not decomposed', '\u00e9'],
  ['space around', '  Ada  '],
  ['a quote that ends a statement', "'; DROP TABLE users; --"],
  ['a backslash and double quotes', '\\"\\n\\u0000'],
  ['placeholders', '? ?1 $1 :name @name $name %s {name}'],
  ['patterns', '%_*[a-z]'],
  ['digits alone', '007'],
  ['the word null', 'null'],
  ['right to left', '\u202eאדה'],
];

export function testUsers(fixture: Fixture): void {
  describe('users', () => {
    it('assigns ascending ids from 1', async (t) => {
      const repository = await fixture.open(t);
      assert.deepEqual(columnOf(await addUsers(repository, 'a', 'b', 'c'), 'id'), [1, 2, 3]);
    });

    it('creates a user with all fields and version 1, not replayed', async (t) => {
      const repository = await fixture.open(t);
      const created = await repository.users.create(fullUsers[0]);
      assert.deepEqual(created, { value: { id: 1, ...fullUsers[0], version: 1 }, replayed: false });
      assert.deepEqual(await repository.users.get(1), created.value);
    });

    it('creates a user without optional fields', async (t) => {
      const repository = await fixture.open(t);
      const created = await repository.users.create({ name: 'Ada' });
      assert.deepEqual(created.value, { id: 1, name: 'Ada', version: 1 });
      assert.deepEqual(await repository.users.get(1), { id: 1, name: 'Ada', version: 1 });
    });

    it('returns undefined for a user that does not exist', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      for (const id of [2, 1000, maxId]) assert.equal(await repository.users.get(id), undefined, `id ${id}`);
    });

    const withNames = fixture.share(async () => {});
    for (const [what, name] of faithfulNames) {
      it(`stores a name unchanged: ${what}`, async () => {
        const repository = await withNames();
        const { value } = await repository.users.create({ name });
        assert.equal(value.name, name);
        assert.equal((await repository.users.get(value.id))?.name, name);
        assert.equal((await repository.users.update(value.id, { name: `${name}x` }))?.name, `${name}x`);
      });
    }

    it('does not change when the caller modifies an object that it passed or received', async (t) => {
      const repository = await fixture.open(t);
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

    it('assigns 100 different ids to 100 users created concurrently', async (t) => {
      const repository = await fixture.open(t);
      const created = await Promise.all(
        Array.from({ length: 100 }, (_, i) => repository.users.create({ name: `user ${i}` })),
      );
      assert.equal(new Set(created.map(({ value }) => value.id)).size, 100);
      for (const { value } of created) assert.deepEqual(await repository.users.get(value.id), value);
    });

    it('does not reuse the id of a deleted user', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a', 'b');
      await repository.users.delete(2);
      await repository.users.delete(1);
      const [next] = await addUsers(repository, 'c');
      assert.equal(next?.id, 3);
    });

    fixture.itRestarts('does not reuse the id of a deleted user after a restart', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a', 'b');
      await repository.users.delete(2);
      const [next] = await addUsers(await fixture.restart(t, repository), 'c');
      assert(next !== undefined && next.id > 2, `got ${next?.id}`);
    });

    fixture.itRestarts('has the same users after a restart', async (t) => {
      const repository = await fixture.open(t);
      await repository.users.create(fullUsers[0]);
      await addUsers(repository, 'Bob');
      await repository.users.update(2, { name: 'Rob' });
      const again = await fixture.restart(t, repository);
      assert.deepEqual(await again.users.get(1), { id: 1, ...fullUsers[0], version: 1 });
      assert.deepEqual(await again.users.get(2), { id: 2, name: 'Rob', version: 2 });
    });
  });
}
