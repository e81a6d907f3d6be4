import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { addUsers, type Fixture, userQuery, walkUsers } from './fixture.ts';

const sixUsers = ['b:x', 'a', 'b', 'a:y', 'a:x', 'c:x'];

/** What each query gives of `sixUsers`, by id. */
const orders: readonly (readonly [query: string, ids: readonly number[]])[] = [
  ['', [1, 2, 3, 4, 5, 6]],
  ['sort=id', [1, 2, 3, 4, 5, 6]],
  ['sort=-id', [6, 5, 4, 3, 2, 1]],
  ['sort=name', [2, 4, 5, 1, 3, 6]],
  ['sort=-name', [6, 3, 1, 5, 4, 2]],
  ['sort=role', [2, 3, 1, 5, 6, 4]],
  ['sort=-role', [4, 6, 5, 1, 3, 2]],
  ['sort=name,-id', [5, 4, 2, 3, 1, 6]],
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

/** By code point, which is neither UTF-16's order nor any language's. */
const namesInOrder = [
  ' a',
  '10',
  '9',
  'A',
  'AA',
  'Z',
  '_',
  'a',
  'aa',
  'a\u0301',
  'z',
  '~',
  '\u00e9',
  '\u03a9',
  '\u4e00',
  '\ue000',
  '\uff21',
  '\uffff',
  '\u{1f600}',
  '\u{1f600}a',
  '\u{1f601}',
  '\u{10ffff}',
];

/** In an order that is sorted neither way. */
const namesShuffled = namesInOrder.map((_, i) => namesInOrder[(i * 5) % namesInOrder.length] ?? '');

/** Windows of a list of seven, in order of id. */
const windows: readonly (readonly [query: string, ids: readonly number[], more: boolean])[] = [
  ['limit=3', [1, 2, 3], true],
  ['limit=3&page=2', [4, 5, 6], true],
  ['limit=3&page=3', [7], false],
  ['limit=3&page=4', [], false],
  ['limit=7', [1, 2, 3, 4, 5, 6, 7], false],
  ['limit=6', [1, 2, 3, 4, 5, 6], true],
  ['limit=100', [1, 2, 3, 4, 5, 6, 7], false],
  ['limit=1&page=7', [7], false],
  ['limit=1&page=100000', [], false],
  ['limit=2&page=2&sort=-id', [5, 4], true],
];

export function testLists(fixture: Fixture): void {
  describe('lists', () => {
    it('is empty at first', async (t) => {
      const repository = await fixture.open(t);
      assert.deepEqual(await repository.listUsers(userQuery()), { items: [] });
      assert.equal(await repository.countUsers({}), 0);
    });

    it('shows users without their versions, and no role that is absent', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada:admin', 'Bob');
      const { items } = await repository.listUsers(userQuery());
      assert.deepEqual(items, [
        { id: 1, name: 'Ada', role: 'admin' },
        { id: 2, name: 'Bob' },
      ]);
    });

    const withSixUsers = fixture.share((repository) => addUsers(repository, ...sixUsers));
    for (const [query, ids] of orders) {
      it(`orders ${query || 'by default'}`, async () => {
        const repository = await withSixUsers();
        const { items } = await repository.listUsers(userQuery(query));
        assert.deepEqual(
          items.map((user) => user.id),
          ids,
        );
      });
    }

    const withSeven = fixture.share((repository) => addUsers(repository, 'g', 'f', 'e', 'd', 'c', 'b', 'a'));
    for (const [query, ids, more] of windows) {
      it(`cuts ${query}`, async () => {
        const repository = await withSeven();
        const { items, next } = await repository.listUsers(userQuery(query));
        assert.deepEqual(
          items.map((user) => user.id),
          ids,
        );
        assert.equal(next !== undefined, more, `next is ${next}`);
      });
    }

    const withNames = fixture.share((repository) => addUsers(repository, ...namesShuffled));
    it('orders names by code point', async () => {
      const repository = await withNames();
      const { items } = await repository.listUsers(userQuery('sort=name&limit=100'));
      assert.deepEqual(
        items.map((user) => user.name),
        namesInOrder,
      );
    });

    it('orders names by code point, descending', async () => {
      const repository = await withNames();
      const { items } = await repository.listUsers(userQuery('sort=-name&limit=100'));
      assert.deepEqual(
        items.map((user) => user.name),
        namesInOrder.toReversed(),
      );
    });

    for (const sort of ['name', '-name']) {
      it(`continues a list by ${sort} behind each name`, async () => {
        const repository = await withNames();
        const names = (await walkUsers(repository, `sort=${sort}&limit=1`)).map((user) => user.name);
        assert.deepEqual(names, sort === 'name' ? namesInOrder : namesInOrder.toReversed());
      });
    }

    it('orders roles by code point', async (t) => {
      const repository = await fixture.open(t);
      // Locale rules skip the punctuation.
      const roles = ['a', 'a-', 'a-b', 'a0', 'a_', 'a_a', 'aa', 'b'];
      await addUsers(repository, ...roles.toReversed().map((role) => `name:${role}`));
      const { items } = await repository.listUsers(userQuery('sort=role'));
      assert.deepEqual(
        items.map((user) => user.role),
        roles,
      );
    });

    it('filters by exactly the role', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a:admin', 'b:admin-x', 'c:admi', 'd', 'e:admin');
      const { items } = await repository.listUsers(userQuery('role=admin'));
      assert.deepEqual(
        items.map((user) => user.name),
        ['a', 'e'],
      );
    });

    it('follows changes of what it sorts and filters by', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'a:x', 'b:x', 'c');
      await repository.updateUser(1, { name: 'z' });
      await repository.updateUser(2, { role: null });
      await repository.updateUser(3, { role: 'x' });
      const { items } = await repository.listUsers(userQuery('role=x&sort=name'));
      assert.deepEqual(
        items.map((user) => user.id),
        [3, 1],
      );
    });

    it('counts all users and those of a role, whatever a page holds', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, ...sixUsers);
      await repository.deleteUser(6);
      assert.equal(await repository.countUsers({}), 5);
      assert.equal(await repository.countUsers({ role: 'x' }), 2);
      assert.equal(await repository.countUsers({ role: 'z' }), 0);
    });

    it('gives code that streams more than 100 rows at once', async (t) => {
      const repository = await fixture.open(t);
      await Promise.all(Array.from({ length: 150 }, (_, i) => repository.createUser({ name: `user ${i}` })));
      const { items, next } = await repository.listUsers({ ...userQuery(), limit: 1_000 });
      assert.equal(items.length, 150);
      assert.equal(next, undefined);
    });
  });
}
