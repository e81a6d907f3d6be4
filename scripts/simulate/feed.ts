import { isDeepStrictEqual } from 'node:util';
import { fieldsOf, isSuccess, type Violation } from './evidence.ts';
import type { Change, Entry, FeedEntry } from './history.ts';
import type { Timeline } from './timeline.ts';

export interface FeedOptions {
  /** Whether refusals have no reason. */
  readonly isQuiet: boolean;
  /** Whether the followers have read on to the end. */
  readonly isOver: boolean;
}

/** Checks that followers saw every change once, in order, and ended at the state of the store. */
export function checkFeed(
  reads: readonly FeedEntry[],
  timelines: readonly Timeline[],
  entries: readonly Entry[],
  { isQuiet, isOver }: FeedOptions,
): Violation[] {
  const violations: Violation[] = [];
  const fail = (rule: string, message: string, record?: string) =>
    violations.push({ rule, message, culprits: [], ...(record !== undefined && { record }) });
  const all = new Map<number, Change>();
  for (const { follower, after, changes, status, note } of reads) {
    const isRefused = status === undefined || [408, 503, 504].includes(status);
    if (status !== 200 && (isQuiet || !isRefused))
      fail('wrong status', `follower ${follower}: ${status ?? 'no response'} ${note ?? ''}`);
    let previous = after;
    for (const change of changes) {
      const { position } = change;
      if (position <= previous)
        fail('reordered feed', `follower ${follower} saw ${position} after ${previous}`);
      previous = position;
      const known = all.get(position);
      if (known !== undefined && !isDeepStrictEqual(known, change)) {
        fail('feeds that differ', `${JSON.stringify(known)} and ${JSON.stringify(change)}`);
      }
      all.set(position, change);
    }
  }
  const changes = [...all.values()].sort((a, b) => a.position - b.position);
  for (const follower of new Set(isOver ? reads.map((read) => read.follower) : [])) {
    const seen = new Set(
      reads
        .filter((read) => read.follower === follower)
        .flatMap((read) => read.changes.map(({ position }) => position)),
    );
    const missing = changes.filter(({ position }) => !seen.has(position));
    if (missing.length > 0)
      fail(
        'hole in the feed',
        `follower ${follower} missed ${missing.length}: ${JSON.stringify(missing[0])}`,
      );
  }

  const byRecord = Map.groupBy(changes, ({ type, row }) => `${type.split('.')[0]} ${row.id}`);
  const positions = new Map<string, number>();
  for (const [record, life] of byRecord) {
    for (const [i, { type, version, position }] of life.entries()) {
      const before = life[i - 1];
      const isGone = type.endsWith('.deleted');
      const expected =
        before === undefined
          ? [1, '.created']
          : isGone
            ? [before.version, '.deleted']
            : [before.version + 1, '.updated'];
      if (
        version !== expected[0] ||
        !type.endsWith(String(expected[1])) ||
        before?.type.endsWith('.deleted')
      ) {
        fail(
          'wrong feed',
          `${type} of version ${version} follows ${before?.type ?? 'nothing'} of version ${before?.version ?? 0}`,
          record,
        );
      }
      positions.set(`${record} ${isGone ? 'gone' : version}`, position);
    }
  }
  for (const timeline of timelines) {
    const record = `${timeline.kind} ${timeline.id}`;
    const life = byRecord.get(record) ?? [];
    for (const { type, version, row } of life) {
      const fields = type.endsWith('.deleted') ? undefined : timeline.fields(version);
      if (fields !== undefined && !isDeepStrictEqual(fields, fieldsOf(row))) {
        fail('wrong feed', `version ${version} is ${JSON.stringify(row)}`, record);
      }
    }
    if (!isOver) continue;
    const { version, isGone, canBeGone } = timeline.last;
    const last = life.at(-1);
    // Without a response there is no version to compare; and of a record that is gone, only the feed shows
    // whether an unanswered write happened.
    const isLast =
      last !== undefined && (version === 0 || last.version === version || (isGone && last.version > version));
    const isDeleted = last?.type.endsWith('.deleted') === true;
    if (!isLast || (isDeleted ? !canBeGone : isGone)) {
      const state = `version ${version}${isGone ? ', gone' : ''}`;
      fail('feed without its end', `ends with ${JSON.stringify(last)}, the store with ${state}`, record);
    }
  }
  return [...violations, ...checkOrder(entries, positions)];
}

/** A write that began after another had ended is behind it. */
function checkOrder(entries: readonly Entry[], positions: ReadonlyMap<string, number>): Violation[] {
  const writes = entries.flatMap((entry) => {
    const { kind, record, user, post, row, version, replayed, sent } = entry;
    if (!isSuccess(entry) || replayed || kind === 'get' || kind === 'list' || kind === 'call') return [];
    // A patch without a text of its own may have changed nothing.
    if (kind === 'patch' && sent?.['name'] === undefined && sent?.['title'] === undefined) return [];
    const id = row?.id ?? (record === 'post' ? post : user);
    const position = positions.get(`${record} ${id} ${kind === 'delete' ? 'gone' : version}`);
    return position === undefined ? [] : [{ entry, position }];
  });
  const byEnd = writes.toSorted((a, b) => a.entry.end - b.entry.end);
  let highest: (typeof writes)[number] | undefined;
  let ended = 0;
  for (const write of writes.toSorted((a, b) => a.entry.start - b.entry.start)) {
    for (
      let next = byEnd[ended];
      next !== undefined && next.entry.end < write.entry.start;
      next = byEnd[ended]
    ) {
      if (highest === undefined || next.position > highest.position) highest = next;
      ended += 1;
    }
    if (highest === undefined || highest.position < write.position) continue;
    const message = `a write at position ${write.position} began after the one at ${highest.position} had ended`;
    return [{ rule: 'reordered feed', message, culprits: [highest.entry, write.entry] }];
  }
  return [];
}
