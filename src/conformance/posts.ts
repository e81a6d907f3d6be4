import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { maxId } from '../domain/record.ts';
import { addUsers, type Fixture, postQuery, rejects, walkPosts } from './fixture.ts';

const bodies: readonly (readonly [what: string, body: string])[] = [
  ['no body', ''],
  ['tabs and newlines', '\tline 1\n\n\tline 2\n'],
  ['10,000 emoji', '😀'.repeat(10_000)],
  ['what looks like JSON', '{"a":[1,"\\u0000"]}'],
  ['space alone', '   '],
];

/** What each query gives of posts titled b, a, b, A by id. */
const orders: readonly (readonly [query: string, ids: readonly number[]])[] = [
  ['', [1, 2, 3, 4]],
  ['sort=-id', [4, 3, 2, 1]],
  ['sort=title', [4, 2, 1, 3]],
  ['sort=-title', [3, 1, 2, 4]],
  ['sort=title,-id', [4, 2, 3, 1]],
  ['sort=title&limit=2&page=2', [1, 3]],
  ['limit=3&page=2', [4]],
  ['limit=4&page=2', []],
];

export function testPosts(fixture: Fixture): void {
  describe('posts', () => {
    it('creates with all fields, not replayed', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      const created = await repository.createPost(2, { title: 'Title', body: 'Body' });
      assert.deepEqual(created, {
        value: { id: 1, userId: 2, title: 'Title', body: 'Body' },
        replayed: false,
      });
      assert.deepEqual(await repository.listPosts(2, postQuery()), { items: [created?.value] });
    });

    for (const [what, body] of bodies) {
      it(`keeps ${what} as it is`, async (t) => {
        const repository = await fixture.open(t);
        await addUsers(repository, 'Ada');
        const created = await repository.createPost(1, { title: '😀'.repeat(200), body });
        assert.equal(created?.value.body, body);
        const page = await repository.listPosts(1, postQuery());
        assert.equal(page?.items[0]?.body, body);
        assert.equal(page?.items[0]?.title, '😀'.repeat(200));
      });
    }

    it('misses the posts of a user that is not there', async (t) => {
      const repository = await fixture.open(t);
      for (const id of [1, maxId]) {
        assert.equal(await repository.listPosts(id, postQuery()), undefined);
        assert.equal(await repository.countPosts(id), undefined);
        assert.equal(await repository.createPost(id, { title: 'title', body: '' }), undefined);
      }
    });

    it('tells a user without posts from none', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      assert.deepEqual(await repository.listPosts(1, postQuery()), { items: [] });
      assert.equal(await repository.countPosts(1), 0);
    });

    it("lists and counts a user's own posts only", async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1, 1])
        await repository.createPost(userId, { title: `of ${userId}`, body: '' });
      const page = await repository.listPosts(1, postQuery());
      assert.deepEqual(
        page?.items.map((post) => post.id),
        [1, 3, 4],
      );
      assert.equal(await repository.countPosts(1), 3);
      assert.equal(await repository.countPosts(2), 1);
    });

    for (const [query, ids] of orders) {
      it(`orders ${query || 'by default'}`, async (t) => {
        const repository = await fixture.open(t);
        await addUsers(repository, 'Ada');
        for (const title of ['b', 'a', 'b', 'A']) await repository.createPost(1, { title, body: '' });
        const page = await repository.listPosts(1, postQuery(query));
        assert.deepEqual(
          page?.items.map((post) => post.id),
          ids,
        );
      });
    }

    for (const sort of ['id', '-id', 'title', '-title', 'title,-id']) {
      it(`walks all posts by ${sort}, whatever the page size`, async (t) => {
        const repository = await fixture.open(t);
        await addUsers(repository, 'Ada', 'Bob');
        for (const title of ['b', 'a', '\u{1f600}', 'b', '\uff21', 'A', 'b']) {
          await repository.createPost(1, { title, body: '' });
          await repository.createPost(2, { title, body: '' });
        }
        const whole = await repository.listPosts(1, postQuery(`sort=${sort}`));
        for (const limit of [1, 2, 3, 7]) {
          const walked = await walkPosts(repository, 1, `sort=${sort}&limit=${limit}`);
          assert.deepEqual(walked, whole?.items, `limit ${limit}`);
        }
      });
    }

    it('deletes a user with its posts, and with no others', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1]) await repository.createPost(userId, { title: 'title', body: '' });
      await repository.deleteUser(1);
      assert.equal(await repository.countPosts(1), undefined);
      assert.equal(await repository.listPosts(1, postQuery()), undefined);
      assert.equal(await repository.countPosts(2), 1);
      const created = await repository.createPost(2, { title: 'next', body: '' });
      assert.equal(created?.value.id, 4, 'the id of a deleted post is not given again');
    });

    it('keeps the posts of a user whose deletion fails', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      await repository.createPost(1, { title: 'title', body: '' });
      await rejects(repository.deleteUser(1, { expected: [9] }), 'precondition-failed');
      assert.equal(await repository.countPosts(1), 1);
    });

    it('leaves no post behind where posts and the deletion of their user race', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      const create = () => repository.createPost(1, { title: 'title', body: '' });
      const before = Array.from({ length: 10 }, create);
      const deleted = repository.deleteUser(1);
      const after = Array.from({ length: 10 }, create);
      assert.equal(await deleted, true);
      // Each was created and deleted, or missed its user.
      await Promise.all([...before, ...after]);
      assert.equal(await repository.countPosts(1), undefined);
      assert.equal(await create(), undefined);
    });
  });
}
