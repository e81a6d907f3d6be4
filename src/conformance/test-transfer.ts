import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Post } from '../domain/post.ts';
import type { Store } from '../domain/repository.ts';
import { maxId, type StoredUser } from '../domain/user.ts';
import { addUsers, rejects } from './fixture.ts';

const users: readonly StoredUser[] = [
  { id: 3, name: 'Ada', role: 'admin', version: 7 },
  { id: 5, name: '\u{1f600}', version: 1 },
  { id: 9, name: ' é\u0301 ', version: 1_000_000 },
];

const posts: readonly Post[] = [
  { id: 2, userId: 9, title: 'later', body: '' },
  { id: 4, userId: 3, title: 'title', body: 'line 1\n\tline 2' },
];

const differences: readonly (readonly [what: string, user: StoredUser])[] = [
  ['name', { id: 5, name: 'other', version: 1 }],
  ['role', { id: 5, name: '\u{1f600}', role: 'admin', version: 1 }],
  ['version', { id: 5, name: '\u{1f600}', version: 2 }],
];

const operations: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  summary: (store) => store.summary(),
  exportUsers: (store) => store.exportUsers(0, 1),
  exportPosts: (store) => store.exportPosts(0, 1),
  importUsers: (store) => store.importUsers(users),
  importPosts: (store) => store.importPosts([]),
  continueIds: (store) => store.continueIds({ lastUserId: 1, lastPostId: 1 }),
};

/** Declares the tests that every store passes whose content can move: the contract of `domain/repository.ts`. */
export function testTransfer(name: string, openStore: () => Promise<Store>): void {
  const open = async (t: TestContext): Promise<Store> => {
    const store = await openStore();
    t.after(() => store.close());
    return store;
  };

  describe(`${name}, as a store to move`, () => {
    it('sums up nothing', async (t) => {
      const store = await open(t);
      assert.deepEqual(await store.summary(), { users: 0, posts: 0, lastUserId: 0, lastPostId: 0 });
      assert.deepEqual(await store.exportUsers(0, 10), []);
      assert.deepEqual(await store.exportPosts(0, 10), []);
    });

    it('sums up what there is and was', async (t) => {
      const store = await open(t);
      await addUsers(store, 'a', 'b', 'c');
      for (const userId of [1, 3, 3]) await store.createPost(userId, { title: 'title', body: '' });
      await store.deleteUser(3);
      assert.deepEqual(await store.summary(), { users: 2, posts: 1, lastUserId: 3, lastPostId: 3 });
    });

    it('exports in pages, by id', async (t) => {
      const store = await open(t);
      await store.importUsers(users.toReversed());
      await store.importPosts(posts.toReversed());
      assert.deepEqual(await store.exportUsers(0, 10), users);
      assert.deepEqual(await store.exportUsers(0, 2), users.slice(0, 2));
      assert.deepEqual(await store.exportUsers(5, 2), users.slice(2));
      assert.deepEqual(await store.exportUsers(9, 2), []);
      assert.deepEqual(await store.exportPosts(0, 1), posts.slice(0, 1));
      assert.deepEqual(await store.exportPosts(2, 10), posts.slice(1));
    });

    it('moves everything from one store to another', async (t) => {
      const [from, to] = [await open(t), await open(t)];
      await addUsers(from, 'Ada:admin', 'Bob', 'gone');
      await from.updateUser(2, { name: 'Rob' });
      for (const userId of [2, 1, 3]) await from.createPost(userId, { title: 'title', body: 'a\nb' });
      await from.deleteUser(3);
      assert.equal(await to.importUsers(await from.exportUsers(0, 10)), 2);
      assert.equal(await to.importPosts(await from.exportPosts(0, 10)), 2);
      await to.continueIds(await from.summary());
      assert.deepEqual(await to.exportUsers(0, 10), await from.exportUsers(0, 10));
      assert.deepEqual(await to.exportPosts(0, 10), await from.exportPosts(0, 10));
      assert.deepEqual(await to.summary(), await from.summary());
      assert.equal((await to.createUser({ name: 'next' })).value.id, 4);
      assert.equal((await to.createPost(1, { title: 'next', body: '' }))?.value.id, 4);
    });

    it('serves what it imported as if it had been created', async (t) => {
      const store = await open(t);
      await store.importUsers(users);
      await store.importPosts(posts);
      assert.deepEqual(await store.getUser(3), users[0]);
      assert.deepEqual(await store.updateUser(3, { name: 'Eve' }, { expected: [7] }), {
        ...users[0],
        name: 'Eve',
        version: 8,
      });
      assert.equal(await store.countPosts(3), 1);
      await store.deleteUser(9);
      assert.equal((await store.summary()).posts, 1);
    });

    it('imports once what is imported twice', async (t) => {
      const store = await open(t);
      assert.equal(await store.importUsers(users.slice(0, 2)), 2);
      assert.equal(await store.importUsers(users), 1);
      assert.equal(await store.importUsers([...users, ...users]), 0);
      assert.equal(await store.importPosts([...posts, ...posts]), 2);
      assert.equal(await store.importPosts(posts), 0);
      assert.deepEqual(await store.exportUsers(0, 10), users);
      assert.deepEqual(await store.exportPosts(0, 10), posts);
    });

    it('imports nothing at all', async (t) => {
      const store = await open(t);
      assert.equal(await store.importUsers([]), 0);
      assert.equal(await store.importPosts([]), 0);
    });

    it('imports each once where ten imports race', async (t) => {
      const store = await open(t);
      const added = await Promise.all(Array.from({ length: 10 }, () => store.importUsers(users)));
      assert.equal(
        added.reduce((sum, n) => sum + n),
        3,
      );
    });

    for (const [what, different] of differences) {
      it(`refuses a whole batch with a user that differs in ${what}`, async (t) => {
        const store = await open(t);
        await store.importUsers([users[1] ?? different]);
        const batch = [{ id: 1, name: 'new', version: 1 }, different, { id: 2, name: 'new', version: 1 }];
        await rejects(store.importUsers(batch), 'conflict');
        assert.deepEqual(await store.exportUsers(0, 10), [users[1]]);
      });
    }

    it('refuses a whole batch with a post that differs', async (t) => {
      const store = await open(t);
      await store.importUsers(users);
      await store.importPosts(posts);
      const added = { id: 1, userId: 3, title: 'new', body: '' };
      for (const change of [{ title: 'other' }, { body: 'other' }, { userId: 5 }]) {
        await rejects(
          store.importPosts([added, { id: 2, userId: 9, title: 'later', body: '', ...change }]),
          'conflict',
        );
      }
      assert.deepEqual(await store.exportPosts(0, 10), posts);
    });

    it('refuses a whole batch with a post of no user', async (t) => {
      const store = await open(t);
      await store.importUsers(users);
      const orphan = { id: 7, userId: 4, title: 'orphan', body: '' };
      await rejects(store.importPosts([...posts, orphan]), 'conflict');
      assert.deepEqual(await store.exportPosts(0, 10), []);
    });

    it('gives ids above those it imported', async (t) => {
      const store = await open(t);
      await store.importUsers(users);
      await store.importPosts(posts);
      assert.equal((await store.createUser({ name: 'next' })).value.id, 10);
      assert.equal((await store.createPost(3, { title: 'next', body: '' }))?.value.id, 5);
      await store.importUsers([{ id: 1, name: 'early', version: 1 }]);
      assert.equal((await store.createUser({ name: 'next' })).value.id, 11);
    });

    it('raises the ids it gives, never lowers them', async (t) => {
      const store = await open(t);
      await store.continueIds({ lastUserId: 100, lastPostId: 200 });
      await store.continueIds({ lastUserId: 50, lastPostId: 300 });
      await store.continueIds({ lastUserId: 0, lastPostId: 0 });
      assert.equal((await store.createUser({ name: 'next' })).value.id, 101);
      assert.equal((await store.createPost(101, { title: 'next', body: '' }))?.value.id, 301);
    });

    it('gives the last id there is, then is out of ids', async (t) => {
      const store = await open(t);
      await store.continueIds({ lastUserId: maxId - 1, lastPostId: maxId - 1 });
      assert.equal((await store.createUser({ name: 'last' })).value.id, maxId);
      assert.equal((await store.createPost(maxId, { title: 'last', body: '' }))?.value.id, maxId);
      await rejects(store.createUser({ name: 'beyond' }), 'unavailable');
      await rejects(
        store.createUser({ name: 'beyond' }, { idempotency: { key: 'k', fingerprint: '' } }),
        'unavailable',
      );
      await rejects(store.createPost(maxId, { title: 'beyond', body: '' }), 'unavailable');
      await store.deleteUser(maxId);
      await rejects(store.createUser({ name: 'beyond' }), 'unavailable');
      assert.deepEqual(await store.summary(), { users: 0, posts: 0, lastUserId: maxId, lastPostId: maxId });
    });

    for (const [operation, call] of Object.entries(operations)) {
      it(`${operation} is unavailable when closed`, async (t) => {
        const store = await open(t);
        await store.close();
        await rejects(call(store), 'unavailable');
      });
    }
  });
}
