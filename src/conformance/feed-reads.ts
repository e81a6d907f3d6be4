import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Change, type ChangeQuery, ChangesGone } from '../domain/change.ts';
import type { ChangeFeed } from '../domain/repository.ts';
import { addUsers, columnOf, type Fixture, walkUsers } from './fixture.ts';
import { addSample, feedOf, follow, idsOf, readAll } from './follow.ts';

const filters: readonly (readonly [
  what: string,
  filter: Pick<ChangeQuery, 'types' | 'userId'>,
  ids: string[],
])[] = [
  ['one type', { types: ['user.created'] }, ['user.created 1', 'user.created 2']],
  [
    'several types',
    { types: ['user.deleted', 'user.updated', 'post.updated', 'post.deleted'] },
    ['user.updated 2', 'post.updated 3', 'post.deleted 1', 'post.deleted 3', 'user.deleted 1'],
  ],
  ['a user and its posts', { userId: 2 }, ['user.created 2', 'post.created 2', 'user.updated 2']],
  ['types of a user', { types: ['post.created', 'user.deleted'], userId: 2 }, ['post.created 2']],
  ['a user that never existed', { userId: 3 }, []],
];

export function testFeedReads(fixture: Fixture): void {
  const { it } = fixture;
  describe('reading the feed of changes', () => {
    it('returns all changes across pages of any size', async (repository) => {
      const all = await addSample(repository);
      const feed = feedOf(repository);
      const last = await feed.position();
      assert.equal(last, all.at(-1)?.position);
      for (const limit of [1, 3, 10, 11, 1_000]) assert.deepEqual(await readAll(feed, { limit }), all);
      const first = await feed.read({ after: 0, limit: 9 });
      assert.equal(first.more, true);
      assert.deepEqual(await readAll(feed, { after: first.next }), all.slice(9));
      for (const [i, { position }] of all.entries()) {
        assert.deepEqual(await feed.read({ after: position, limit: 100 }), {
          changes: all.slice(i + 1),
          next: last,
          more: false,
        });
      }
    });

    const withSample = fixture.share(addSample);
    for (const [what, filter, ids] of filters) {
      test(`is filtered by ${what}`, async () => {
        const repository = await withSample();
        const feed = feedOf(repository);
        for (const limit of [1, 2, 100]) {
          const found = await readAll(feed, { ...filter, limit });
          assert.deepEqual(idsOf(found).sort(), ids.toSorted(), `limit ${limit}`);
          const { next, more } = await feed.read({ ...filter, after: 0, limit });
          assert.equal(more, next < (await feed.position()), `more, with limit ${limit}`);
        }
        // The next position is also after changes that do not match.
        assert.equal((await feed.read({ ...filter, after: 0, limit: 100 })).next, await feed.position());
      });
    }

    it('returns every change that is missing in a list read after its position', async (repository) => {
      const feed = feedOf(repository);
      const writing = Promise.all(
        Array.from({ length: 200 }, (_, i) => repository.users.create({ name: `${i}` })),
      );
      const after = await feed.position();
      const listed = (await walkUsers(repository, 'limit=50')).map(({ id }) => id);
      await writing;
      const isWhole = (changes: readonly Change[]) =>
        new Set([...listed, ...changes.map(({ record }) => record.id)]).size === 200;
      await follow(feed, isWhole, { after });
    });

    it('fails as gone after a position that was never assigned', async (repository) => {
      const feed = feedOf(repository);
      await assert.rejects(feed.read({ after: 1, limit: 1 }), ChangesGone);
      await addSample(repository);
      const last = await feed.position();
      for (const after of [last + 1, Number.MAX_SAFE_INTEGER]) {
        await assert.rejects(feed.read({ after, limit: 1 }), ChangesGone);
        await assert.rejects(feed.read({ after, limit: 1, userId: 1, types: ['user.created'] }), ChangesGone);
      }
    });

    test('fails as gone if changes after the position were removed, and still returns the newest changes', async (t) => {
      const changesKept = 20;
      const repository = await fixture.open(t, { changesKept });
      const feed = feedOf(repository);
      const isThere = () => feed.read({ after: 0, limit: 1 }).catch(() => false);
      for (let round = 0; round < 100 && (await isThere()); round += 1) {
        await Promise.all(Array.from({ length: 100 }, () => repository.users.create({ name: 'Ada' })));
      }
      await assert.rejects(feed.read({ after: 0, limit: 1 }), ChangesGone);
      await findOldest(feed);
      const before = await feed.position();
      const { value: last } = await repository.users.create({ name: 'last' });
      const isWhole = (changes: readonly Change[]) => changes.some(({ record }) => record.id === last.id);
      await follow(feed, isWhole, { after: before });
      const after = await feed.position();
      const added = await addUsers(repository, ...Array<string>(changesKept).fill('kept'));
      const kept = await follow(feed, ({ length }) => length >= changesKept, { after });
      assert.deepEqual(columnOf(kept, 'record'), added);
    });
  });
}

/** Finds the oldest kept change as the HTTP API does: by the position in each `ChangesGone`. */
function findOldest(feed: ChangeFeed, after = 0): Promise<void> {
  return feed.read({ after, limit: 1 }).then(
    ({ changes: [oldest] }) => assert.equal(oldest?.position, after + 1, 'the oldest change is another one'),
    (error: unknown) => {
      // Some stores remove changes in the background, so also between two reads.
      assert(error instanceof ChangesGone && error.oldest - 1 > after, `after ${after}: ${error}`);
      return findOldest(feed, error.oldest - 1);
    },
  );
}
