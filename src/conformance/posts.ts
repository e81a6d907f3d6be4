import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PostPatch, StoredPost } from '../domain/post.ts';
import { maxId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import { addUsers, type Fixture, postQuery, rejects } from './fixture.ts';

const bodies: readonly (readonly [what: string, body: string])[] = [
  ['no body', ''],
  ['tabs and newlines', '\tline 1\n\n\tline 2\n'],
  ['10,000 emoji', '😀'.repeat(10_000)],
  ['a text like JSON', '{"a":[1,"\\u0000"]}'],
  ['only spaces', '   '],
];

const post: StoredPost = { id: 2, userId: 1, title: 'Title', body: 'Body', version: 1 };

const patches: readonly (readonly [what: string, patch: PostPatch, after: StoredPost])[] = [
  ['no field, without a new version', {}, post],
  ['a title', { title: 'Other' }, { ...post, title: 'Other', version: 2 }],
  ['a body', { body: 'a\n\tb' }, { ...post, body: 'a\n\tb', version: 2 }],
  ['an empty body', { body: '' }, { ...post, body: '', version: 2 }],
  ['both fields', { title: 'Other', body: '' }, { ...post, title: 'Other', body: '', version: 2 }],
  ['both to the same values, without a new version', { title: 'Title', body: 'Body' }, post],
  ['a title to one that differs only in case', { title: 'TITLE' }, { ...post, title: 'TITLE', version: 2 }],
];

type Change = (
  repository: Repository,
  userId: number,
  id: number,
  expected?: readonly number[],
) => Promise<unknown>;

const changes: Readonly<Record<string, Change>> = {
  updatePost: (repository, userId, id, expected) =>
    repository.updatePost(userId, id, { title: 'Other' }, expected && { expected }),
  'updatePost without fields': (repository, userId, id, expected) =>
    repository.updatePost(userId, id, {}, expected && { expected }),
  deletePost: (repository, userId, id, expected) =>
    repository.deletePost(userId, id, expected && { expected }),
};

/** Creates user 1 with post 2, and user 2 with posts 1 and 3. */
async function addPosts(repository: Repository): Promise<void> {
  await addUsers(repository, 'Ada', 'Bob');
  for (const userId of [2, 1, 2]) await repository.createPost(userId, { title: 'Title', body: 'Body' });
}

export function testPosts(fixture: Fixture): void {
  describe('posts', () => {
    it('creates a post with all fields, not replayed', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      const created = await repository.createPost(2, { title: 'Title', body: 'Body' });
      assert.deepEqual(created, {
        value: { id: 1, userId: 2, title: 'Title', body: 'Body', version: 1 },
        replayed: false,
      });
      assert.deepEqual(await repository.getPost(2, 1), created?.value);
      assert.deepEqual(await repository.listPosts(2, postQuery()), {
        items: [{ id: 1, userId: 2, title: 'Title', body: 'Body' }],
      });
    });

    it('finds a post only by its user', async (t) => {
      const repository = await fixture.open(t);
      await addPosts(repository);
      assert.deepEqual(await repository.getPost(1, 2), post);
      for (const [userId, id] of [
        [1, 1],
        [2, 2],
        [1, 4],
        [3, 1],
        [maxId, maxId],
      ] as const) {
        assert.equal(await repository.getPost(userId, id), undefined, `post ${id} of user ${userId}`);
      }
    });

    const withPosts = fixture.share(addPosts);
    for (const [what, patch, updated] of patches) {
      it(`updates ${what}`, async () => {
        const repository = await withPosts();
        const created = await repository.createPost(1, { title: 'Title', body: 'Body' });
        assert(created);
        const { id } = created.value;
        const after = { ...updated, id };
        assert.deepEqual(await repository.updatePost(1, id, patch), after);
        assert.deepEqual(await repository.getPost(1, id), after);
        assert.deepEqual(await repository.getPost(2, 3), { ...post, id: 3, userId: 2 });
      });
    }

    it('deletes a post once, and does not reuse its id', async (t) => {
      const repository = await fixture.open(t);
      await addPosts(repository);
      assert.equal(await repository.deletePost(2, 3), true);
      assert.equal(await repository.deletePost(2, 3), false);
      assert.equal(await repository.getPost(2, 3), undefined);
      assert.equal(await repository.countPosts(2, {}), 1);
      assert.deepEqual(await repository.getPost(1, 2), post);
      assert.equal((await repository.createPost(2, { title: 'next', body: '' }))?.value.id, 4);
    });

    const withThreePosts = fixture.share(addPosts);
    for (const [name, change] of Object.entries(changes)) {
      it(`${name} does not find a post that the user does not have, for any expected version`, async () => {
        const repository = await withThreePosts();
        for (const expected of [undefined, [], [1], [2]]) {
          for (const [userId, id] of [
            [2, 2],
            [1, 4],
            [3, 2],
            [maxId, maxId],
          ] as const) {
            const missed = await change(repository, userId, id, expected);
            assert(missed === undefined || missed === false, `${expected}: got ${missed}`);
          }
        }
        assert.deepEqual(await repository.getPost(1, 2), post);
      });

      it(`${name} changes a post with an expected version, and rejects other versions`, async (t) => {
        const repository = await fixture.open(t);
        await addPosts(repository);
        for (const expected of [[2], [], [0], [2, 3, maxId]]) {
          await rejects(change(repository, 1, 2, expected), 'precondition-failed');
        }
        assert.deepEqual(await repository.getPost(1, 2), post);
        assert.ok(await change(repository, 1, 2, [7, 1, 1000]));
      });
    }

    it('applies two concurrent patches of different fields of a post', async (t) => {
      const repository = await fixture.open(t);
      await addPosts(repository);
      await Promise.all([
        repository.updatePost(1, 2, { title: 'Other' }),
        repository.updatePost(1, 2, { body: '' }),
      ]);
      assert.deepEqual(await repository.getPost(1, 2), { ...post, title: 'Other', body: '', version: 3 });
    });

    it('accepts one of ten concurrent changes to the same version of a post', async (t) => {
      const repository = await fixture.open(t);
      await addPosts(repository);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, (_, i) =>
          repository.updatePost(1, 2, { body: `${i}` }, { expected: [1] }),
        ),
      );
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
      assert.equal((await repository.getPost(1, 2))?.version, 2);
    });

    const withBodies = fixture.share(async () => {});
    for (const [what, body] of bodies) {
      it(`stores a body unchanged: ${what}`, async () => {
        const repository = await withBodies();
        const { value: user } = await repository.createUser({ name: 'Ada' });
        const created = await repository.createPost(user.id, { title: '😀'.repeat(200), body });
        assert.equal(created?.value.body, body);
        const page = await repository.listPosts(user.id, postQuery());
        assert.equal(page?.items[0]?.body, body);
        assert.equal(page?.items[0]?.title, '😀'.repeat(200));
      });
    }

    it('deletes the posts of a deleted user, and no others', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1]) await repository.createPost(userId, { title: 'title', body: '' });
      await repository.deleteUser(1);
      assert.equal(await repository.countPosts(1, {}), undefined);
      assert.equal(await repository.listPosts(1, postQuery()), undefined);
      assert.equal(await repository.countPosts(2, {}), 1);
      const created = await repository.createPost(2, { title: 'next', body: '' });
      assert.equal(created?.value.id, 4, 'the id of a deleted post is used again');
    });

    it('keeps the posts of a user whose deletion fails', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      await repository.createPost(1, { title: 'title', body: '' });
      await rejects(repository.deleteUser(1, { expected: [9] }), 'precondition-failed');
      assert.equal(await repository.countPosts(1, {}), 1);
    });

    it('leaves no post without a user if posts are created while their user is deleted', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      const create = () => repository.createPost(1, { title: 'title', body: '' });
      const before = Array.from({ length: 10 }, create);
      const deleted = repository.deleteUser(1);
      const after = Array.from({ length: 10 }, create);
      assert.equal(await deleted, true);
      // Each call either creates a post, which is then deleted, or finds no user.
      await Promise.all([...before, ...after]);
      assert.equal(await repository.countPosts(1, {}), undefined);
      assert.equal(await create(), undefined);
    });
  });
}
