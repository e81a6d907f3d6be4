import assert from 'node:assert/strict';
import type { Change, ChangeQuery } from '../domain/change.ts';
import type { ChangeFeed, Repository } from '../domain/repository.ts';
import { addUsers } from './fixture.ts';

const patienceMs = 20_000;

export function feedOf({ changes }: Repository): ChangeFeed {
  assert(changes, 'the repository has no feed of changes');
  return changes;
}

/** Reads all changes after a position, page by page. */
export async function readAll(feed: ChangeFeed, query: Partial<ChangeQuery> = {}): Promise<Change[]> {
  const read: Change[] = [];
  for (let after = query.after ?? 0; ; ) {
    const { changes, next, more } = await feed.read({ limit: 100, ...query, after });
    for (const change of changes) {
      assert(change.position > after && change.position <= next, `${after} < ${change.position} <= ${next}`);
      after = change.position;
    }
    assert(next >= after, `next is ${next}, after ${after}`);
    read.push(...changes);
    if (!more) return read;
    assert(changes.length > 0 || next > after, `there are more changes, but next is still ${next}`);
    after = next;
  }
}

/** Follows the feed from a position until `isEnough`; fails if no change arrives in time. */
export async function follow(
  feed: ChangeFeed,
  isEnough: (changes: readonly Change[]) => boolean,
  query: Partial<ChangeQuery> = {},
): Promise<Change[]> {
  let woken = Promise.withResolvers<void>();
  const unwatch = feed.watch(() => woken.resolve());
  const followed: Change[] = [];
  try {
    for (;;) {
      const after = followed.at(-1)?.position ?? query.after ?? 0;
      followed.push(...(await readAll(feed, { ...query, after })));
      if (isEnough(followed)) return followed;
      const { promise, reject } = woken;
      const timer = setTimeout(() => reject(new Error('no change in time')), patienceMs);
      await promise.finally(() => clearTimeout(timer));
      woken = Promise.withResolvers();
    }
  } finally {
    unwatch();
  }
}

/** Waits until the feed has `count` changes, and returns them; fails if there are more. */
export async function firstChanges(repository: Repository, count: number): Promise<Change[]> {
  const changes = await follow(feedOf(repository), ({ length }) => length >= count);
  assert.equal(changes.length, count, 'the feed has more changes than expected');
  return changes;
}

/** The parts of a change that do not depend on time. */
export function whatOf({ type, record }: Change): unknown[] {
  return [type, record];
}

export function idsOf(changes: readonly Change[]): string[] {
  return changes.map(({ type, record }) => `${type} ${record.id}`);
}

/** Makes ten changes: creates two users and three posts (post 2 of user 2), then updates and deletes some. */
export async function addSample(repository: Repository): Promise<readonly Change[]> {
  await addUsers(repository, 'Ada', 'Bob');
  for (const userId of [1, 2, 1]) await repository.posts(userId).create({ title: 'Title', body: '' });
  await repository.users.update(2, { name: 'Rob' });
  await repository.posts(1).update(3, { title: 'Other' });
  await repository.posts(1).delete(1);
  await repository.users.delete(1);
  return firstChanges(repository, 10);
}
