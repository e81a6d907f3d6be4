import { isDeepStrictEqual } from 'node:util';
import { gather } from './evidence.ts';
import { type Change, type Entry, type History, pathOf, tokenOf } from './history.ts';
import { Life, type Violation } from './life.ts';
import { checkPage } from './pages.ts';

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly lives: readonly Life[];
}

/** Judges the history of a run. */
export function judge(history: History): Verdict {
  const { entries } = history;
  const feed = mergeFeeds(entries);
  const evidence = [...gather('user', entries, feed), ...gather('post', entries, feed)];
  const lives = evidence.map((one) => new Life(one));
  const violations = [...checkStatuses(history), ...checkKeys(entries), ...checkIds(entries)];
  for (const life of lives) violations.push(...life.violations);
  for (const page of entries.filter(({ rows }) => rows)) {
    const own = lives.filter(({ evidence: { kind, userId } }) => {
      return kind === page.record && (kind === 'user' || userId === page.user);
    });
    violations.push(...checkPage(page, own));
  }
  violations.push(...checkFeed(entries, feed, lives));
  return { violations, lives };
}

const statuses: Readonly<Record<Entry['kind'], readonly Entry['status'][]>> = {
  create: [201],
  get: [200, 304, 404, 412],
  call: [200, 404],
  replace: [200, 404, 412],
  patch: [200, 404, 412],
  delete: [204, 404, 412],
  list: [200],
  walk: [200],
  follow: [200],
  invalid: [400],
};
/** Of overload and outage. */
const refusals = [undefined, 408, 503, 504];
// The shortest timeout of the service, that of a connection to PostgreSQL.
const patienceMs = 2_000;

/** Only the documented statuses are allowed, and a rejection for overload or outage only in a run with faults. */
function* checkStatuses({ entries, faults }: History): Generator<Violation> {
  // On a slow machine the service may run into its timeouts without any fault. Streams are long on any machine.
  const isSlow = entries.some(({ kind, start, end }) => kind !== 'follow' && end - start >= patienceMs);
  const excused = isSlow || faults.some(({ skipped }) => skipped === undefined) ? refusals : [];
  for (const entry of entries) {
    const { kind, record, status, guard, key, note = '' } = entry;
    const allowed = [...statuses[kind], ...excused];
    if (record === 'post') allowed.push(404);
    if (key !== undefined) allowed.push(409, 422);
    const isReason =
      status === 304 ? guard?.header === 'if-none-match' : status !== 412 || guard !== undefined;
    if (allowed.includes(status) && isReason) continue;
    yield { rule: 'wrong status', message: `${status ?? 'no response'}: ${note}`, culprits: [entry] };
  }
}

/** A creation with a key happens once, and each text that a request wrote is in one record only. */
function* checkKeys(entries: readonly Entry[]): Generator<Violation> {
  const owners = new Map<string, { readonly id: number; readonly entry: Entry }>();
  for (const entry of entries) {
    const { record, key, status, sent, row, rows = [], end } = entry;
    const shown = (row ? [row] : rows).map((one) => ({ id: one.id, what: `${record} ${tokenOf(one)}` }));
    if (key !== undefined && row) shown.push({ id: row.id, what: `${record} ${key}` });
    for (const { id, what } of shown) {
      const known = owners.get(what) ?? { id, entry };
      owners.set(what, known);
      const message = `the request with ${what} made or changed both ${known.id} and ${id}`;
      if (known.id !== id) yield { rule: 'doubled', message, culprits: [known.entry, entry] };
    }
    if (key === undefined || (status !== 409 && status !== 422)) continue;
    const others = entries.filter((other) => other !== entry && other.key === key && other.start <= end);
    const reasons = others.filter((other) => status === 409 || tokenOf(other.sent) !== tokenOf(sent));
    const message = `${status} for the first use of ${key}`;
    if (reasons.length === 0) yield { rule: 'wrong status', message, culprits: [entry] };
  }
}

/** A later creation has a higher id. */
function* checkIds(entries: readonly Entry[]): Generator<Violation> {
  const made = entries.filter(({ status, replayed }) => status === 201 && !replayed);
  for (const some of Map.groupBy(made, ({ record }) => record).values()) {
    const [earlier, later] = findInversion(some.map((entry) => ({ entry, rank: entry.row?.id ?? 0 }))) ?? [];
    if (earlier === undefined || later === undefined) continue;
    const message = `${later.record} ${later.row?.id} after ${earlier.row?.id}`;
    yield { rule: 'id not rising', message, culprits: [earlier, later] };
  }
}

/** All changes that followers saw, in the order of their positions. */
function mergeFeeds(entries: readonly Entry[]): Change[] {
  const changes = new Map(entries.flatMap(({ changes = [] }) => changes.map((one) => [Number(one.id), one])));
  return [...changes].sort(([a], [b]) => a - b).map(([, change]) => change);
}

/** Checks that every follower saw every change once and in order, which is the order of the writes. */
function* checkFeed(
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
function findInversion(writes: readonly { entry: Entry; rank: number }[]): Entry[] | undefined {
  for (const { entry, rank } of writes) {
    const earlier = writes.find((other) => other.entry.end < entry.start && other.rank >= rank);
    if (earlier !== undefined) return [earlier.entry, entry];
  }
  return undefined;
}

const storyLines = 25;

/** The requests for the record of a violation, in the order of time. Those that show it are marked. */
export function story({ rule, message, record, culprits = [] }: Violation, { lives }: Verdict): string {
  const about = lives.find(({ name }) => name === record)?.evidence.operations ?? [];
  const from = Math.min(...culprits.map(({ start }) => start));
  const to = Math.max(...culprits.map(({ end }) => end));
  const all = [...new Set([...culprits, ...about.map(({ entry }) => entry)])];
  const during = all.filter(({ start, end }) => end >= from && start <= to);
  // If there are too many lines, other reads are left out first.
  const weight = (one: Entry) => (culprits.includes(one) ? 0 : one.sent || one.kind === 'delete' ? 1 : 2);
  const kept = during.sort((a, b) => weight(a) - weight(b)).slice(0, storyLines);
  const lines = kept
    .sort((a, b) => a.start - b.start)
    .map((entry) => {
      const { client, process, start, end, kind, rows, status = 'no response', note = '' } = entry;
      const { sent, guard, key, query, version, row } = entry;
      const what = `${kind} ${pathOf(entry)} ${JSON.stringify({ query, sent, guard, key })}`;
      const shown = rows ? `${rows.length} rows` : JSON.stringify({ version, row });
      const mark = culprits.includes(entry) ? '>' : ' ';
      const times = `${start.toFixed(1)}-${end.toFixed(1)} ms`;
      return `${mark} ${times} client ${client} at process ${process}: ${what} -> ${status} ${shown} ${note}`;
    });
  return [`${rule}: ${message}`, ...lines].join('\n');
}
