import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { StoredPost } from '../domain/post.ts';
import { byKind, maxId, maxVersion } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import type { StoredUser } from '../domain/user.ts';
import { addUsers, rejects } from './fixture.ts';
import { follow } from './follow.ts';

const users: readonly StoredUser[] = [
  { id: 3, name: 'Ada', role: 'admin', version: 7 },
  { id: 5, name: '\u{1f600}', version: 1 },
  { id: 9, name: ' é\u0301 ', version: 1_000_000 },
];

const posts: readonly StoredPost[] = [
  { id: 2, userId: 9, title: 'later', body: '', version: 1 },
  { id: 4, userId: 3, title: 'title', body: 'line 1\n\tline 2', version: 7 },
];

const differences: readonly (readonly [what: string, user: StoredUser])[] = [
  ['name', { id: 5, name: 'other', version: 1 }],
  ['role', { id: 5, name: '\u{1f600}', role: 'admin', version: 1 }],
  ['version', { id: 5, name: '\u{1f600}', version: 2 }],
];

const none = byKind(() => 0);

const operations: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  summary: (store) => store.summary(),
  exportRows: (store) => store.exportRows('users', 0, 1),
  importRows: (store) => store.importRows('users', users),
  continueIds: (store) => store.continueIds({ ...none, users: 1, posts: 1 }),
};

/** Declares the tests of export and import that every store must pass: the contract in `domain/repository.ts`. */
export function testTransfer(name: string, openStore: () => Promise<Store>): void {
  const open = async (t: TestContext): Promise<Store> => {
    const store = await openStore();
    t.after(() => store.close());
    return store;
  };

  describe(`${name}, as the source and target of a copy`, () => {
    it('returns a summary of an empty store', async (t) => {
      const store = await open(t);
      assert.partialDeepStrictEqual(await store.summary(), {
        users: { count: 0, lastId: 0 },
        posts: { count: 0, lastId: 0 },
      });
      assert.deepEqual(await store.exportRows('users', 0, 10), []);
      assert.deepEqual(await store.exportRows('posts', 0, 10), []);
    });

    it('returns a summary with the number of records and the last ids, including deleted ones', async (t) => {
      const store = await open(t);
      await addUsers(store, 'a', 'b', 'c');
      for (const userId of [1, 3, 3]) await store.createPost(userId, { title: 'title', body: '' });
      await store.deleteUser(3);
      assert.partialDeepStrictEqual(await store.summary(), {
        users: { count: 2, lastId: 3 },
        posts: { count: 1, lastId: 3 },
      });
    });

    it('exports records in pages, by id', async (t) => {
      const store = await open(t);
      await store.importRows('users', users.toReversed());
      await store.importRows('posts', posts.toReversed());
      assert.deepEqual(await store.exportRows('users', 0, 10), users);
      assert.deepEqual(await store.exportRows('users', 0, 2), users.slice(0, 2));
      assert.deepEqual(await store.exportRows('users', 5, 2), users.slice(2));
      assert.deepEqual(await store.exportRows('users', 9, 2), []);
      assert.deepEqual(await store.exportRows('posts', 0, 1), posts.slice(0, 1));
      assert.deepEqual(await store.exportRows('posts', 2, 10), posts.slice(1));
    });

    it('copies all records and the last ids from one store to another', async (t) => {
      const [from, to] = [await open(t), await open(t)];
      await addUsers(from, 'Ada:admin', 'Bob', 'gone');
      await from.updateUser(2, { name: 'Rob' });
      for (const userId of [2, 1, 3]) await from.createPost(userId, { title: 'title', body: 'a\nb' });
      await from.updatePost(1, 2, { body: 'c' });
      await from.deleteUser(3);
      assert.equal(await to.importRows('users', await from.exportRows('users', 0, 10)), 2);
      assert.equal(await to.importRows('posts', await from.exportRows('posts', 0, 10)), 2);
      const summary = await from.summary();
      await to.continueIds(byKind((kind) => summary[kind].lastId));
      assert.deepEqual(await to.exportRows('users', 0, 10), await from.exportRows('users', 0, 10));
      assert.deepEqual(await to.exportRows('posts', 0, 10), await from.exportRows('posts', 0, 10));
      assert.deepEqual(await to.summary(), await from.summary());
      assert.equal((await to.createUser({ name: 'next' })).value.id, 4);
      assert.equal((await to.createPost(1, { title: 'next', body: '' }))?.value.id, 4);
    });

    it('reads and changes imported records like created ones', async (t) => {
      const store = await open(t);
      await store.importRows('users', users);
      await store.importRows('posts', posts);
      assert.deepEqual(await store.getUser(3), users[0]);
      assert.deepEqual(await store.updateUser(3, { name: 'Eve' }, { expected: [7] }), {
        ...users[0],
        name: 'Eve',
        version: 8,
      });
      assert.equal(await store.countPosts(3, {}), 1);
      assert.deepEqual(await store.getPost(3, 4), posts[1]);
      assert.deepEqual(await store.updatePost(3, 4, { body: '' }, { expected: [7] }), {
        ...posts[1],
        body: '',
        version: 8,
      });
      await store.deleteUser(9);
      assert.equal((await store.summary()).posts.count, 1);
    });

    it('skips records that were imported before', async (t) => {
      const store = await open(t);
      assert.equal(await store.importRows('users', users.slice(0, 2)), 2);
      assert.equal(await store.importRows('users', users), 1);
      assert.equal(await store.importRows('users', [...users, ...users]), 0);
      assert.equal(await store.importRows('posts', [...posts, ...posts]), 2);
      assert.equal(await store.importRows('posts', posts), 0);
      assert.deepEqual(await store.exportRows('users', 0, 10), users);
      assert.deepEqual(await store.exportRows('posts', 0, 10), posts);
    });

    it('restarts its feed of changes with an import, if it has one', async (t) => {
      const store = await open(t);
      const feed = store.changes;
      if (feed === undefined) return t.skip('the store has no feed of changes');
      await addUsers(store, 'a');
      await follow(feed, ({ length }) => length === 1);
      const before = await feed.position();
      await store.importRows('users', users);
      await rejects(feed.read({ after: 0, limit: 1 }), 'gone');
      await rejects(feed.read({ after: before, limit: 1 }), 'gone');
      const after = await feed.position();
      assert.equal(await store.importRows('users', users), 0);
      await store.importRows('posts', []);
      await store.updateUser(3, { name: 'Eve' });
      const [change] = await follow(feed, ({ length }) => length === 1, { after });
      assert.deepEqual(change?.record, { ...users[0], name: 'Eve', version: 8 });
    });

    it('imports an empty batch', async (t) => {
      const store = await open(t);
      assert.equal(await store.importRows('users', []), 0);
      assert.equal(await store.importRows('posts', []), 0);
    });

    it('adds each record once in ten concurrent imports', async (t) => {
      const store = await open(t);
      const added = await Promise.all(Array.from({ length: 10 }, () => store.importRows('users', users)));
      assert.equal(
        added.reduce((sum, n) => sum + n),
        3,
      );
    });

    for (const [what, different] of differences) {
      it(`rejects a whole batch with a user that differs in ${what}`, async (t) => {
        const store = await open(t);
        await store.importRows('users', [users[1] ?? different]);
        const batch = [{ id: 1, name: 'new', version: 1 }, different, { id: 2, name: 'new', version: 1 }];
        await rejects(store.importRows('users', batch), 'conflict');
        assert.deepEqual(await store.exportRows('users', 0, 10), [users[1]]);
      });
    }

    it('rejects a whole batch with a post that differs', async (t) => {
      const store = await open(t);
      await store.importRows('users', users);
      await store.importRows('posts', posts);
      const added = { id: 1, userId: 3, title: 'new', body: '', version: 1 };
      const there = { id: 2, userId: 9, title: 'later', body: '', version: 1 };
      for (const change of [{ title: 'other' }, { body: 'other' }, { userId: 5 }, { version: 2 }]) {
        await rejects(store.importRows('posts', [added, { ...there, ...change }]), 'conflict');
      }
      assert.deepEqual(await store.exportRows('posts', 0, 10), posts);
    });

    it('rejects a whole batch with a post of a missing user', async (t) => {
      const store = await open(t);
      await store.importRows('users', users);
      const orphan = { id: 7, userId: 4, title: 'orphan', body: '', version: 1 };
      await rejects(store.importRows('posts', [...posts, orphan]), 'conflict');
      assert.deepEqual(await store.exportRows('posts', 0, 10), []);
    });

    it('assigns ids above the imported ones', async (t) => {
      const store = await open(t);
      await store.importRows('users', users);
      await store.importRows('posts', posts);
      assert.equal((await store.createUser({ name: 'next' })).value.id, 10);
      assert.equal((await store.createPost(3, { title: 'next', body: '' }))?.value.id, 5);
      await store.importRows('users', [{ id: 1, name: 'early', version: 1 }]);
      assert.equal((await store.createUser({ name: 'next' })).value.id, 11);
    });

    it('continues from higher ids, and ignores lower ones', async (t) => {
      const store = await open(t);
      await store.continueIds({ ...none, users: 100, posts: 200 });
      await store.continueIds({ ...none, users: 50, posts: 300 });
      await store.continueIds(none);
      assert.equal((await store.createUser({ name: 'next' })).value.id, 101);
      assert.equal((await store.createPost(101, { title: 'next', body: '' }))?.value.id, 301);
    });

    it('assigns the highest id, then fails as unavailable', async (t) => {
      const store = await open(t);
      await store.continueIds({ ...none, users: maxId - 1, posts: maxId - 1 });
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
      assert.partialDeepStrictEqual(await store.summary(), {
        users: { count: 0, lastId: maxId },
        posts: { count: 0, lastId: maxId },
      });
    });

    it('rejects changes to a record with the highest version, but allows to read and delete it', async (t) => {
      const store = await open(t);
      const last = { id: 1, name: 'Ada', role: 'admin', version: maxVersion };
      await store.importRows('users', [last, { ...last, id: 2, version: maxVersion - 1 }]);
      await rejects(store.updateUser(1, { name: 'Eve' }), 'conflict');
      await rejects(store.updateUser(1, { role: null }, { expected: [maxVersion] }), 'conflict');
      await rejects(store.updateUser(1, { name: 'Eve' }, { expected: [1] }), 'precondition-failed');
      assert.deepEqual(await store.updateUser(1, { name: 'Ada', role: 'admin' }), last);
      assert.deepEqual(await store.getUser(1), last);
      assert.equal((await store.updateUser(2, { name: 'Eve' }))?.version, maxVersion);
      await rejects(store.updateUser(2, { name: 'Bob' }), 'conflict');
      const post = { id: 1, userId: 1, title: 'title', body: '', version: maxVersion };
      await store.importRows('posts', [post]);
      await rejects(store.updatePost(1, 1, { title: 'other' }), 'conflict');
      assert.deepEqual(await store.updatePost(1, 1, { title: 'title' }, { expected: [maxVersion] }), post);
      assert.equal(await store.deletePost(1, 1, { expected: [maxVersion] }), true);
      assert.equal(await store.deleteUser(1, { expected: [maxVersion] }), true);
    });

    it('rejects all of these calls as unavailable on a closed store', async (t) => {
      const store = await open(t);
      await store.close();
      for (const call of Object.values(operations)) await rejects(call(store), 'unavailable');
    });
  });
}
