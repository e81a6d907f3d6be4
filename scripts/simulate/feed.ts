import { isDeepStrictEqual } from 'node:util';
import { fieldsOf, findInversion, isSuccess, tokenOf, type Violation } from './evidence.ts';
import type { Change, Entry, History } from './history.ts';
import type { Timeline } from './timeline.ts';

/** Checks that followers saw every change once and in order, and that the last ones are the state of the store. */
export function checkFeed(
  { entries, feed }: History,
  timelines: readonly Timeline[],
  isOver: boolean,
): Violation[] {
  const violations: Violation[] = [];
  const fail = (rule: string, message: string, culprits: Entry[] = []) =>
    violations.push({ rule, message, culprits });
  const failOf = (rule: string, message: string, record: string) =>
    violations.push({ rule, message, culprits: [], record });

  const byPosition = new Map<number, Change>();
  for (const { follower, after, changes } of feed) {
    for (const [i, change] of changes.entries()) {
      const { position } = change;
      const previous = changes[i - 1]?.position ?? after;
      if (position <= previous)
        fail('reordered feed', `follower ${follower} saw ${position} after ${previous}`);
      const known = byPosition.get(position) ?? change;
      if (!isDeepStrictEqual(known, change)) {
        fail('feeds that differ', `${JSON.stringify(known)} and ${JSON.stringify(change)}`);
      }
      byPosition.set(position, change);
    }
  }
  const changes = [...byPosition.values()].sort((a, b) => a.position - b.position);
  for (const [follower, reads] of isOver ? Map.groupBy(feed, (read) => read.follower) : []) {
    const seen = new Set(reads.flatMap((read) => read.changes.map(({ position }) => position)));
    const missing = changes.filter(({ position }) => !seen.has(position));
    if (missing.length === 0) continue;
    fail('hole in the feed', `follower ${follower} missed ${missing.length}: ${JSON.stringify(missing[0])}`);
  }

  const lives = Map.groupBy(changes, ({ type, row }) => `${type.split('.')[0]} ${row.id}`);
  const positions = new Map<string, number>();
  for (const [record, life] of lives) {
    for (const [i, { type, version, position }] of life.entries()) {
      const before = life[i - 1];
      const isGone = isDeletion(type);
      const next = isGone ? `.deleted ${before?.version}` : `.updated ${(before?.version ?? 0) + 1}`;
      const expected = before === undefined ? '.created 1' : next;
      if (!`${type} ${version}`.endsWith(expected) || isDeletion(before?.type)) {
        const previous = `${before?.type ?? 'nothing'} of version ${before?.version ?? 0}`;
        failOf('wrong feed', `${type} of version ${version} follows ${previous}`, record);
      }
      positions.set(`${record} ${isGone ? 'gone' : version}`, position);
    }
  }
  for (const { name, fields, last, maybes, isGone, canBeGone } of timelines) {
    const life = lives.get(name) ?? [];
    for (const { type, version, row } of life) {
      const known = isDeletion(type) ? undefined : fields[version];
      if (known !== undefined && !isDeepStrictEqual(known, fieldsOf(row))) {
        failOf('wrong feed', `version ${version} is ${JSON.stringify(row)}`, name);
      }
    }
    if (!isOver) continue;
    const end = life.at(-1);
    // Without a response there is no version to compare. After a deletion, only the feed shows whether a
    // write without a response happened.
    const later = (end?.version ?? 0) - last;
    const isLast = last === 0 || later === 0 || (later > 0 && (isGone || later <= maybes.length));
    const isDeleted = isDeletion(end?.type);
    if (end === undefined || !isLast || (isDeleted ? !canBeGone : isGone)) {
      const state = `version ${last}${isGone ? ', gone' : ''}`;
      failOf('feed without its end', `ends with ${JSON.stringify(end)}, the store with ${state}`, name);
    }
  }

  const writes = entries.flatMap((entry) => {
    const { kind, record, user, post, row, version, replayed, sent } = entry;
    // A patch without a text of its own may have changed nothing.
    const isChange = kind === 'patch' ? tokenOf(sent) !== undefined : kind === 'delete' || sent !== undefined;
    if (!isSuccess(entry) || replayed || !isChange) return [];
    const id = row?.id ?? (record === 'post' ? post : user);
    const rank = positions.get(`${record} ${id} ${kind === 'delete' ? 'gone' : version}`);
    return rank === undefined ? [] : [{ entry, rank }];
  });
  const inverted = findInversion(writes);
  if (inverted !== undefined) {
    fail('reordered feed', 'a write began after the other had ended, but comes first in the feed', inverted);
  }
  return violations;
}

function isDeletion(type: string | undefined): boolean {
  return type?.endsWith('.deleted') === true;
}
