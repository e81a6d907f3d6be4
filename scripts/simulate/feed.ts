import { isDeepStrictEqual } from 'node:util';
import type { Change, Entry } from './history.ts';
import type { Life, Violation } from './life.ts';

/** All changes that followers saw, in the order of their positions. */
export function mergeFeeds(entries: readonly Entry[]): Change[] {
  const changes = new Map(entries.flatMap(({ changes = [] }) => changes.map((one) => [Number(one.id), one])));
  return [...changes].sort(([a], [b]) => a - b).map(([, change]) => change);
}

/** Checks that every follower saw every change once and in order, which is the order of the writes. */
export function* checkFeed(
  entries: readonly Entry[],
  feed: readonly Change[],
  lives: readonly Life[],
): Generator<Violation> {
  const reads = entries.filter(({ kind }) => kind === 'follow');
  for (const [follower, own] of Map.groupBy(reads, ({ client }) => client)) {
    const seen = own.flatMap(({ changes = [] }) => changes);
    const longer = seen.length > feed.length ? seen : feed;
    const i = longer.findIndex((_, i) => !isDeepStrictEqual(seen[i], feed[i]));
    if (i < 0) continue;
    const isLater = seen.slice(i).some(({ id }) => id === (feed[i]?.id ?? id));
    const rule =
      seen[i]?.id === feed[i]?.id ? 'feeds that differ' : isLater ? 'reordered feed' : 'hole in the feed';
    const message = `follower ${follower} saw ${JSON.stringify(seen[i])} in the place of ${JSON.stringify(feed[i])}`;
    yield { rule, message };
  }
  const made = lives.flatMap(({ states }) => states);
  const culprits = findInversion(
    made.flatMap(({ maker, position }) => (maker ? { entry: maker, rank: position } : [])),
  );
  const message = 'a write began after the other had ended, but comes first in the feed';
  if (culprits) yield { rule: 'reordered feed', message, culprits };
}

/** Finds two writes of which the second began after the first had ended, but has no higher rank. */
export function findInversion(writes: readonly { entry: Entry; rank: number }[]): Entry[] | undefined {
  for (const { entry, rank } of writes) {
    const earlier = writes.find((other) => other.entry.end < entry.start && other.rank >= rank);
    if (earlier !== undefined) return [earlier.entry, entry];
  }
  return undefined;
}
