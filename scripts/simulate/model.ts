import { isDeepStrictEqual } from 'node:util';
import { gather, writes } from './evidence.ts';
import { type Change, type Entry, type History, isUnknown, pathOf, tokenOf } from './history.ts';
import { judgeRecord, type Life, type State, type Violation } from './life.ts';
import { checkPage } from './pages.ts';

/** Judges the history of a run. */
export function judge(history: History) {
  const { entries } = history;
  const followed = new Map(entries.flatMap(({ changes = [] }) => changes.map((one) => [one.id, one])));
  const feed = [...followed.values()].sort((a, b) => Number(a.id) - Number(b.id));
  const violations = [...checkStatuses(history), ...checkKeys(entries), ...checkFeed(entries, feed)];
  const lives: Life[] = [];
  for (const kind of ['user', 'post'] as const) {
    const own = gather(kind, entries, feed).map(judgeRecord);
    for (const life of own) violations.push(...life.violations);
    for (const page of entries.filter(({ record, rows }) => record === kind && rows)) {
      violations.push(
        ...checkPage(
          page,
          own.filter(({ userId }) => userId === page.user),
        ),
      );
    }
    const made = entries.filter((entry) => entry.record === kind && entry.status === 201 && !entry.replayed);
    const births = made.map((entry) => ({ position: entry.row?.id ?? 0, after: entry, before: entry }));
    violations.push(...checkOrder('id not rising', births));
    lives.push(...own);
  }
  // Only the requests that wrote: two that overlap may change their records in one order and get their positions in the
  // other, and a read in between shows it.
  const written = lives
    .flatMap(({ states }) => states)
    .map(({ position, maker }) => ({
      position,
      after: maker,
      before: maker && !isUnknown(maker) ? maker : undefined,
    }));
  violations.push(...checkOrder('reordered feed', written));
  return { violations, lives };
}

/** The statuses of success. Those of the other kinds are 200. */
const successes: Partial<Record<Entry['kind'], number>> = { create: 201, delete: 204, invalid: 400 };
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
    const { kind, user, status, guard, key, note = '' } = entry;
    const allowed = [successes[kind] ?? 200, ...excused];
    if (user !== undefined && kind !== 'invalid') allowed.push(404);
    if (guard) allowed.push(412);
    if (guard && kind === 'get') allowed.push(304);
    if (key !== undefined) allowed.push(409, 422);
    if (allowed.includes(status)) continue;
    yield { rule: 'wrong status', message: `${status ?? 'no response'}: ${note}`, culprits: [entry] };
  }
}

/** A creation with a key happens once, and each text that a request wrote is in one record only. */
function* checkKeys(entries: readonly Entry[]): Generator<Violation> {
  const owners = new Map<string, { readonly id: number; readonly entry: Entry }>();
  for (const entry of entries) {
    const { record, key, status, sent, row, rows = [], end } = entry;
    for (const one of row ? [row] : rows) {
      const what = `${record} ${tokenOf(one)}`;
      const known = owners.get(what) ?? { id: one.id, entry };
      owners.set(what, known);
      const message = `the request with ${what} made or changed both ${known.id} and ${one.id}`;
      if (known.id !== one.id) yield { rule: 'doubled', message, culprits: [known.entry, entry] };
    }
    if (key === undefined || (status !== 409 && status !== 422)) continue;
    const others = entries.filter((other) => other !== entry && other.key === key && other.start <= end);
    if (others.some((other) => status === 409 || tokenOf(other.sent) !== tokenOf(sent))) continue;
    yield { rule: 'wrong status', message: `${status} for the first use of ${key}`, culprits: [entry] };
  }
}

/** Checks that every follower saw every change once and in order. */
function* checkFeed(entries: readonly Entry[], feed: readonly Change[]): Generator<Violation> {
  const reads = entries.filter(({ kind }) => kind === 'follow');
  for (const [follower, own] of Map.groupBy(reads, ({ client }) => client)) {
    const seen = own.flatMap(({ changes = [] }) => changes);
    const longer = seen.length > feed.length ? seen : feed;
    const i = longer.findIndex((_, i) => !isDeepStrictEqual(seen[i], feed[i]));
    if (i < 0) continue;
    const isHole = seen.length < feed.length;
    const rule =
      seen[i]?.id === feed[i]?.id ? 'feeds that differ' : isHole ? 'hole in the feed' : 'reordered feed';
    const message = `follower ${follower} saw ${JSON.stringify(seen[i])} in the place of ${JSON.stringify(feed[i])}`;
    yield { rule, message };
  }
}

/** Checks that the result of a later request has the higher position, which for a creation is its id. */
function checkOrder(
  rule: string,
  events: readonly Pick<State, 'position' | 'after' | 'before'>[],
): Violation[] {
  for (const { position, after } of events) {
    const earlier = events.find(
      ({ before, ...other }) => before && after && before.end < after.start && other.position >= position,
    );
    const message = `${position} came after ${earlier?.position}`;
    if (earlier) return [{ rule, message, culprits: [earlier.before, after] }];
  }
  return [];
}

/** The requests that show a violation, which are marked, and the other writes of the record in between. */
export function story({ rule, message, evidence, culprits = [] }: Violation): string {
  const shown = culprits.filter((entry) => entry !== undefined);
  const from = Math.min(...shown.map(({ start }) => start));
  const to = Math.max(...shown.map(({ end }) => end));
  const about = evidence?.operations.map(({ entry }) => entry) ?? [];
  const lines = [...new Set([...shown, ...about])]
    .filter((one) => culprits.includes(one) || (one.kind in writes && one.end >= from && one.start <= to))
    .sort((a, b) => a.start - b.start)
    .map((entry) => {
      const { client, process, start, end, kind, query, sent, guard, key } = entry;
      const { status = 'no response', version, row, rows, note = '' } = entry;
      const mark = culprits.includes(entry) ? '>' : ' ';
      const times = `${start.toFixed(1)}-${end.toFixed(1)} ms`;
      const asked = `${kind} ${pathOf(entry)} ${JSON.stringify({ query, sent, guard, key })}`;
      const answer = `${status} ${JSON.stringify({ version, row, rows: rows?.length })} ${note}`;
      return `${mark} ${times} client ${client} at process ${process}: ${asked} -> ${answer}`;
    });
  return [`${rule}: ${evidence ? `${evidence.name}: ` : ''}${message}`, ...lines].join('\n');
}
