import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Repository } from '../domain/repository.ts';
import { userFields } from '../domain/user.ts';
import { addUsers, columnOf, type Fixture, fullUsers, userFilters, userQuery, walkUsers } from './fixture.ts';
import { compareUsers, userSorts } from './positions.ts';
import { Random } from './random.ts';
import { beginnings, similarTexts } from './record-lists.ts';

const roles = [undefined, 'x', 'y'] as const;

export function testLists(fixture: Fixture): void {
  const { it } = fixture;
  describe('lists of users with roles and ids', () => {
    it('of a new repository are empty', async (repository) => {
      assert.deepEqual(await repository.users.list(userQuery()), { items: [] });
      assert.equal(await repository.users.count({}), 0);
    });

    const withEachField = fixture.share(async (repository) => {
      const [full, other] = fullUsers;
      for (const draft of [full, other, { name: other.name }]) await repository.users.create(draft);
    });
    for (const sort of Object.keys(userFields).flatMap((field) => [field, `-${field}`])) {
      test(`are in order for ${sort} from page to page, with absent values first`, async () => {
        const repository = await withEachField();
        const { items } = await repository.users.list(userQuery());
        const order = userQuery(`sort=${sort}`).sort;
        const expected = items.toSorted((a, b) => compareUsers(order, a, b));
        assert.deepEqual(await walkUsers(repository, `sort=${sort}&limit=1`), expected);
      });
    }
    for (const [filter, value] of Object.entries(userFilters)) {
      test(`contain and count only users that match the filter ${filter}`, async () => {
        const repository = await withEachField();
        const query = userQuery(`${filter}=${value}`);
        assert.deepEqual(await repository.users.list(query), { items: [{ id: 1, ...fullUsers[0] }] });
        assert.equal(await repository.users.count(query.filter), 1);
      });
    }

    it('reflect updates of the fields that they sort and filter by', async (repository) => {
      await addUsers(repository, 'a:x', 'b:x', 'c');
      await repository.users.update(1, { name: 'z' });
      await repository.users.update(2, { role: null });
      await repository.users.update(3, { role: 'x' });
      const { items } = await repository.users.list(userQuery('role=x&sort=name'));
      assert.deepEqual(columnOf(items, 'id'), [3, 1]);
    });

    it('of more than 200 rows are complete, in pages of 100, in a late one by number, and in a longer one for code that streams', async (repository) => {
      await Promise.all(
        Array.from({ length: 220 }, (_, i) => repository.users.create({ name: `user ${i}` })),
      );
      const { items, next } = await repository.users.list({ ...userQuery(), limit: 1_000 });
      assert.equal(items.length, 220);
      assert.equal(next, undefined);
      assert.deepEqual(await walkUsers(repository, 'limit=100'), items);
      const late = await repository.users.list(userQuery('limit=10&page=22'));
      assert.deepEqual(late.items, items.slice(210));
    });

    test('contain the existing users with given ids, also in a page by number', async () => {
      const repository = await withEachField();
      for (const [query, ids] of [
        ['id=3,1,9&sort=-id&limit=1&page=2', [1]],
        ['id=9', []],
        ['id=2147483648', []],
      ] as const) {
        const { items } = await repository.users.list(userQuery(query));
        assert.deepEqual(columnOf(items, 'id'), ids, query);
      }
    });

    const seed = fixture.traits.seed ?? Math.floor(Math.random() * 2 ** 32);
    test(`are the same as filter and sort of an array, for random queries (seed ${seed})`, async (t) => {
      t.diagnostic(`seed ${seed}`);
      const random = new Random(seed);
      const repository = await fixture.open(t);
      await addAll(repository);
      const { items: all } = await repository.users.list({ ...userQuery(), limit: 1_000 });
      for (let search = 0; search < 150; search += 1) {
        const parameters = new URLSearchParams({
          sort: random.pick(userSorts),
          limit: `${1 + random.below(7)}`,
        });
        const [name, role] = [beginnings[random.below(beginnings.length)] ?? 'a', random.pick(roles)];
        const ids = Array.from({ length: 1 + random.below(20) }, () => 1 + random.below(all.length + 2));
        if (random.below(4) > 0) parameters.set('name', name);
        if (role !== undefined) parameters.set('role', role);
        if (random.below(3) === 0) parameters.set('id', ids.join(','));
        const query = userQuery(`${parameters}`);
        const expected = all
          .filter((user) => !parameters.has('name') || user.name.startsWith(name))
          .filter((user) => role === undefined || user.role === role)
          .filter((user) => !parameters.has('id') || ids.includes(user.id))
          .sort((a, b) => compareUsers(query.sort, a, b));
        const run = `seed ${seed}, search ${search}, ${decodeURIComponent(`${parameters}`)}`;
        assert.deepEqual(await walkUsers(repository, `${parameters}`), expected, run);
        assert.equal(await repository.users.count(query.filter), expected.length, run);
      }
    });
  });
}

/** Creates a user with each name, in neither ascending nor descending order, with the roles in turn. */
async function addAll(repository: Repository): Promise<void> {
  for (let i = 0; i < similarTexts.length; i += 1) {
    const name = similarTexts[(i * 5) % similarTexts.length] ?? '';
    const role = roles[i % roles.length];
    await repository.users.create(role === undefined ? { name } : { name, role });
  }
}
