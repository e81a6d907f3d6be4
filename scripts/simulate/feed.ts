import { isDeepStrictEqual } from 'node:util';
import { type Change, type Entry, fieldsOf, type History, isSuccess, tokenOf } from './history.ts';
import type { Life, Violation } from './life.ts';

/** Checks that followers saw every change once and in order, and that the last ones are the state of the store. */
export function* checkFeed({ entries, feed }: History, lives: readonly Life[]): Generator<Violation> {
  if (feed.length === 0) return;
  const byPosition = new Map<number, Change>();
  for (const { follower, after, changes } of feed) {
    for (const [i, change] of changes.entries()) {
      const { position } = change;
      const previous = changes[i - 1]?.position ?? after;
      const known = byPosition.get(position) ?? change;
      byPosition.set(position, change);
      const order = `follower ${follower} saw ${position} after ${previous}`;
      if (position <= previous) yield { rule: 'reordered feed', message: order, culprits: [] };
      const both = `${JSON.stringify(known)} and ${JSON.stringify(change)}`;
      if (!isDeepStrictEqual(known, change)) yield { rule: 'feeds that differ', message: both, culprits: [] };
    }
  }
  const changes = [...byPosition.values()].sort((a, b) => a.position - b.position);
  for (const [follower, reads] of Map.groupBy(feed, (read) => read.follower)) {
    const seen = new Set(reads.flatMap((read) => read.changes.map(({ position }) => position)));
    const missed = changes.find(({ position }) => !seen.has(position));
    const message = `follower ${follower} missed ${JSON.stringify(missed)}`;
    if (missed) yield { rule: 'hole in the feed', message, culprits: [] };
  }

  const changesOf = Map.groupBy(changes, ({ type, row }) => `${type.split('.')[0]} ${row.id}`);
  const positions = new Map<string, number>();
  for (const [record, own] of changesOf) {
    const life = lives.find(({ name }) => name === record);
    for (const [i, { type, version, position, row }] of own.entries()) {
      const before = own[i - 1] ?? { type: 'nothing', version: 0 };
      const isGone = isDeletion(type);
      const next = isGone ? `.deleted ${before.version}` : `.updated ${before.version + 1}`;
      const isNext = `${type} ${version}`.endsWith(i === 0 ? '.created 1' : next) && !isDeletion(before.type);
      const known = isGone ? undefined : life?.fieldsOf(version);
      const message = `${type} ${version} of ${JSON.stringify(row)} after ${before.type} ${before.version}`;
      const isKnown = known === undefined || isDeepStrictEqual(known, fieldsOf(row));
      if (!isNext || !isKnown) yield { rule: 'wrong feed', message, culprits: [], record };
      positions.set(`${record} ${isGone ? 'gone' : version}`, position);
    }
  }
  for (const { name, last, isGone, maybes } of lives) {
    const end = changesOf.get(name)?.at(-1);
    // Without a response there is no version to compare. After a deletion, only the feed shows whether a
    // write without a response happened.
    const later = (end?.version ?? 0) - last;
    const isLast = last === 0 || later === 0 || (later > 0 && (isGone === 'yes' || later <= maybes.size));
    if (end && isLast && isGone !== (isDeletion(end.type) ? 'no' : 'yes')) continue;
    const message = `it ends with ${JSON.stringify(end)}, the store with version ${last}, gone: ${isGone}`;
    yield { rule: 'feed without its end', message, culprits: [], record: name };
  }

  const writes = entries.flatMap((entry) => {
    const { kind, record, user, post, row, version, replayed, sent } = entry;
    // A patch without a text of its own may have changed nothing.
    const isChange = kind === 'patch' ? tokenOf(sent) !== undefined : kind === 'delete' || sent !== undefined;
    const id = row?.id ?? (record === 'post' ? post : user);
    const rank = positions.get(`${record} ${id} ${kind === 'delete' ? 'gone' : version}`);
    return !isSuccess(entry) || replayed || !isChange || rank === undefined ? [] : [{ entry, rank }];
  });
  const culprits = findInversion(writes);
  const message = 'a write began after the other had ended, but comes first in the feed';
  if (culprits) yield { rule: 'reordered feed', message, culprits };
}

function isDeletion(type: string): boolean {
  return type.endsWith('.deleted');
}

/** Finds two writes of which the second began after the first had ended, but has no higher rank. */
export function findInversion(writes: readonly { entry: Entry; rank: number }[]): Entry[] | undefined {
  for (const { entry, rank } of writes) {
    const earlier = writes.find((other) => other.entry.end < entry.start && other.rank >= rank);
    if (earlier !== undefined) return [earlier.entry, entry];
  }
  return undefined;
}
