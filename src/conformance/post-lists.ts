import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { maxId } from '../domain/record.ts';
import { addUsers, type Fixture, postQuery, walkPosts } from './fixture.ts';

/** The ids that each query returns from posts 1 to 4, with the titles b, a, b, A. */
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

export function testPostLists(fixture: Fixture): void {
  describe('lists of posts', () => {
    it('returns undefined for the posts of a user that does not exist', async (t) => {
      const repository = await fixture.open(t);
      for (const id of [1, maxId]) {
        assert.equal(await repository.listPosts(id, postQuery()), undefined);
        assert.equal(await repository.countPosts(id, {}), undefined);
        assert.equal(await repository.createPost(id, { title: 'title', body: '' }), undefined);
      }
    });

    it('distinguishes a user without posts from no user', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      assert.deepEqual(await repository.listPosts(1, postQuery()), { items: [] });
      assert.equal(await repository.countPosts(1, {}), 0);
    });

    it('lists and counts the posts of one user only', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1, 1])
        await repository.createPost(userId, { title: `of ${userId}`, body: '' });
      const page = await repository.listPosts(1, postQuery());
      assert.deepEqual(
        page?.items.map((post) => post.id),
        [1, 3, 4],
      );
      assert.equal(await repository.countPosts(1, {}), 3);
      assert.equal(await repository.countPosts(2, {}), 1);
    });

    const withFour = fixture.share(async (repository) => {
      await addUsers(repository, 'Ada');
      for (const title of ['b', 'a', 'b', 'A']) await repository.createPost(1, { title, body: '' });
    });
    for (const [query, ids] of orders) {
      it(
        query ? `returns the posts in order for ${query}` : 'returns the posts by id by default',
        async () => {
          const repository = await withFour();
          const page = await repository.listPosts(1, postQuery(query));
          assert.deepEqual(
            page?.items.map((post) => post.id),
            ids,
          );
        },
      );
    }

    const withSeven = fixture.share(async (repository) => {
      await addUsers(repository, 'Ada', 'Bob');
      for (const title of ['b', 'a', '\u{1f600}', 'b', '\uff21', 'A', 'b']) {
        await repository.createPost(1, { title, body: '' });
        await repository.createPost(2, { title, body: '' });
      }
    });
    for (const sort of ['id', '-id', 'title', '-title', 'title,-id']) {
      it(`returns all posts by ${sort} across pages of any size`, async () => {
        const repository = await withSeven();
        const whole = await repository.listPosts(1, postQuery(`sort=${sort}`));
        for (const limit of [1, 2, 3, 7]) {
          const walked = await walkPosts(repository, 1, `sort=${sort}&limit=${limit}`);
          assert.deepEqual(walked, whole?.items, `limit ${limit}`);
        }
      });
    }
  });
}
