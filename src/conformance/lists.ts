import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { userFields } from '../domain/user.ts';
import { addUsers, columnOf, type Fixture, fullUsers, userFilters, userQuery, walkUsers } from './fixture.ts';
import { compareUsers } from './positions.ts';

const sixUsers = ['b:x', 'a', 'b', 'a:y', 'a:x', 'c:x'];

/** The ids that each query returns from `sixUsers`. */
const orders: readonly (readonly [query: string, ids: readonly number[]])[] = [
  ['sort=role', [2, 3, 1, 5, 6, 4]],
  ['sort=-role', [4, 6, 5, 1, 3, 2]],
  ['sort=-name,id', [6, 1, 3, 2, 4, 5]],
  ['sort=role,-id', [3, 2, 6, 5, 1, 4]],
  ['sort=role,name', [2, 3, 5, 1, 6, 4]],
  ['sort=role,-name', [3, 2, 6, 1, 5, 4]],
  ['sort=-role,name', [4, 5, 1, 6, 2, 3]],
  ['sort=-role,-name', [4, 6, 1, 5, 3, 2]],
  ['sort=name,role', [2, 5, 4, 3, 1, 6]],
  ['sort=name,-role', [4, 5, 2, 1, 3, 6]],
  ['sort=-name,role', [6, 3, 1, 2, 5, 4]],
  ['role=x', [1, 5, 6]],
  ['role=x&sort=-id', [6, 5, 1]],
  ['role=x&sort=name', [5, 1, 6]],
  ['role=x&sort=-name', [6, 1, 5]],
  ['role=x&sort=role', [1, 5, 6]],
  ['role=x&sort=-role', [6, 5, 1]],
  ['role=x&sort=-role,id', [1, 5, 6]],
  ['role=x&sort=role,-name', [6, 1, 5]],
  ['role=z', []],
];

export function testLists(fixture: Fixture): void {
  describe('lists of users with roles', () => {
    it('of a new repository are empty', async (t) => {
      const repository = await fixture.open(t);
      assert.deepEqual(await repository.users.list(userQuery()), { items: [] });
      assert.equal(await repository.users.count({}), 0);
    });

    const withSixUsers = fixture.share((repository) => addUsers(repository, ...sixUsers));
    for (const [query, ids] of orders) {
      it(`are in order for ${query}`, async () => {
        const repository = await withSixUsers();
        const { items } = await repository.users.list(userQuery(query));
        assert.deepEqual(columnOf(items, 'id'), ids);
      });
    }

    const withEachField = fixture.share(async (repository) => {
      const [full, other] = fullUsers;
      for (const draft of [full, other, { name: other.name }]) await repository.users.create(draft);
    });
    for (const sort of Object.keys(userFields).flatMap((field) => [field, `-${field}`])) {
      it(`are in order for ${sort} from page to page, with absent values first`, async () => {
        const repository = await withEachField();
        const { items } = await repository.users.list(userQuery());
        const order = userQuery(`sort=${sort}`).sort;
        const expected = items.toSorted((a, b) => compareUsers(order, a, b));
        assert.deepEqual(await walkUsers(repository, `sort=${sort}&limit=1`), expected);
      });
    }
    for (const [filter, value] of Object.entries(userFilters)) {
      it(`contain and count only users that match the filter ${filter}`, async () => {
        const repository = await withEachField();
        const query = userQuery(`${filter}=${value}`);
        assert.deepEqual(await repository.users.list(query), { items: [{ id: 1, ...fullUsers[0] }] });
        assert.equal(await repository.users.count(query.filter), 1);
      });
    }

    it('order a text before the same text with a space after it', async (t) => {
      const repository = await fixture.open(t);
      // A database that pads texts with spaces to compare them orders these two by id.
      await addUsers(repository, 'a ', 'a');
      for (const [sort, ids] of [
        ['name', [2, 1]],
        ['-name', [1, 2]],
      ] as const) {
        const { items } = await repository.users.list(userQuery(`sort=${sort}`));
        assert.deepEqual(columnOf(items, 'id'), ids);
      }
    });

    it('order roles by code point', async (t) => {
      const repository = await fixture.open(t);
      // The rules of most locales ignore the punctuation.
      const roles = ['a', 'a-', 'a-b', 'a0', 'a_', 'a_a', 'aa', 'b'];
      await addUsers(repository, ...roles.toReversed().map((role) => `name:${role}`));
      const { items } = await repository.users.list(userQuery('sort=role'));
      assert.deepEqual(columnOf(items, 'role'), roles);
    });

    it('contain only exact matches of a role', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a:admin', 'b:admin-x', 'c:admi', 'd', 'e:admin');
      const { items } = await repository.users.list(userQuery('role=admin'));
      assert.deepEqual(columnOf(items, 'name'), ['a', 'e']);
    });

    it('reflect updates of the fields that they sort and filter by', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a:x', 'b:x', 'c');
      await repository.users.update(1, { name: 'z' });
      await repository.users.update(2, { role: null });
      await repository.users.update(3, { role: 'x' });
      const { items } = await repository.users.list(userQuery('role=x&sort=name'));
      assert.deepEqual(columnOf(items, 'id'), [3, 1]);
    });

    it('of more than 100 rows are complete, in pages of 100 and in a longer one for code that streams', async (t) => {
      const repository = await fixture.open(t);
      await Promise.all(
        Array.from({ length: 150 }, (_, i) => repository.users.create({ name: `user ${i}` })),
      );
      const { items, next } = await repository.users.list({ ...userQuery(), limit: 1_000 });
      assert.equal(items.length, 150);
      assert.equal(next, undefined);
      assert.deepEqual(await walkUsers(repository, 'limit=100'), items);
    });
  });
}
