import { deduce } from './deduce.ts';
import {
  type Evidence,
  findInversion,
  gather,
  isNotFound,
  isUnknown,
  tokenOf,
  type Violation,
} from './evidence.ts';
import { checkFeed } from './feed.ts';
import { describe, type Entry, type History, type RequestKind } from './history.ts';
import { checkPage } from './pages.ts';

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly evidence: readonly Evidence[];
}

const records = ['user', 'post'] as const;
// The shortest timeout of the service, that of a connection to PostgreSQL.
const patienceMs = 2_000;

/** Judges a history. While the run is not over, the feed may lack the last changes. */
export function judge(history: History, isOver = true): Verdict {
  const { entries, faults, feed } = history;
  // On a slow machine the service may run into its timeouts without any fault.
  const isFast = entries.every(({ start, end }) => end - start < patienceMs);
  const isQuiet = isFast && faults.every(({ skipped }) => skipped !== undefined);
  const evidence = records.flatMap((record) => gather(record, entries));
  const timelines = evidence.map(deduce);
  const strays = entries.filter((entry) => entry.kind === 'create' && isUnknown(entry));
  const pages = entries.filter(({ kind, status }) => kind === 'list' && status === 200);
  const violations = [
    ...entries.flatMap((entry) => checkStatus(entry, isQuiet)),
    ...feed
      .filter(({ status }) => status !== 200 && (isQuiet || !isRefusal(status)))
      .map(({ follower, status = 'no response', note }) => {
        return { rule: 'wrong status', message: `follower ${follower}: ${status} ${note}`, culprits: [] };
      }),
    ...checkKeys(entries),
    ...checkIds(entries),
    ...timelines.flatMap((timeline) => timeline.violations),
    ...pages.flatMap((page) => {
      const isIn = ({ kind, userId }: Pick<Evidence, 'kind' | 'userId'>) =>
        kind === page.record && (kind === 'user' || userId === page.user);
      const near = strays.filter(
        ({ record, user, start }) => isIn({ kind: record, userId: user }) && start <= page.end,
      );
      return checkPage(
        page,
        timelines.filter((timeline) => isIn(timeline.evidence)),
        near.length,
      );
    }),
    ...(feed.length > 0 ? checkFeed(history, timelines, isOver) : []),
  ];
  return { violations, evidence };
}

const statuses: Readonly<Record<RequestKind, readonly unknown[]>> = {
  create: [201],
  get: [200, 304, 404, 412],
  call: ['OK', 'NOT_FOUND'],
  replace: [200, 404, 412],
  patch: [200, 404, 412],
  delete: [204, 404, 412],
  list: [200],
  invalid: [400],
};
const refusals = [undefined, 408, 503, 504, 'UNAVAILABLE', 'DEADLINE_EXCEEDED', 'RESOURCE_EXHAUSTED'];

function isRefusal(status: Entry['status']): boolean {
  return refusals.includes(status);
}

/** Only the documented statuses are allowed, and a rejection for overload or outage only in a run with faults. */
function checkStatus(entry: Entry, isQuiet: boolean): Violation[] {
  const { kind, record, status, guard, key, note } = entry;
  const isAllowed =
    (statuses[kind].includes(status) &&
      (status !== 412 || guard !== undefined) &&
      (status !== 304 || guard?.header === 'if-none-match')) ||
    (record === 'post' && isNotFound(entry)) ||
    (key !== undefined && (status === 409 || status === 422)) ||
    (isRefusal(status) && !isQuiet);
  if (isAllowed) return [];
  const why = isRefusal(status) ? 'without a fault' : 'which is not documented';
  const message = `${status ?? 'no response'} ${why}: ${note ?? ''}`;
  return [{ rule: 'wrong status', message, culprits: [entry] }];
}

/** A creation with a key happens once, and each text that a request wrote is in one record only. */
function checkKeys(entries: readonly Entry[]): Violation[] {
  const violations: Violation[] = [];
  const owners = new Map<string, { readonly id: number; readonly entry: Entry }>();
  const own = (what: string, id: number, entry: Entry) => {
    const known = owners.get(what) ?? { id, entry };
    owners.set(what, known);
    if (known.id === id) return;
    const message = `${known.id} and ${id} were both made or changed by the request with ${what}`;
    violations.push({ rule: 'doubled', message, culprits: [known.entry, entry] });
  };
  for (const entry of entries) {
    const { record, key, row, rows = [] } = entry;
    if (key !== undefined && row !== undefined) own(`${record} ${key}`, row.id, entry);
    for (const { id, name, title } of row === undefined ? rows : [row])
      own(`${record} ${name ?? title}`, id, entry);
  }
  const keyed = entries.filter(({ key }) => key !== undefined);
  for (const entry of keyed) {
    const { key, status, sent, end } = entry;
    const others = keyed.filter((other) => other !== entry && other.key === key && other.start <= end);
    const isOtherBody = others.some((other) => tokenOf(other.sent) !== tokenOf(sent));
    if ((status === 422 && !isOtherBody) || (status === 409 && others.length === 0)) {
      violations.push({
        rule: 'wrong status',
        message: `${status} for the first use of ${key}`,
        culprits: [entry],
      });
    }
  }
  return violations;
}

/** A later creation has a higher id. */
function checkIds(entries: readonly Entry[]): Violation[] {
  return records.flatMap((record) => {
    const made = entries.filter(
      (e) => e.kind === 'create' && e.record === record && e.status === 201 && !e.replayed,
    );
    const culprits = findInversion(made.map((entry) => ({ entry, rank: entry.row?.id ?? 0 })));
    if (culprits === undefined) return [];
    const [earlier, later] = culprits;
    const message = `${record} ${later?.row?.id} after ${earlier?.row?.id}`;
    return [{ rule: 'id not rising', message, culprits }];
  });
}

const storyLines = 25;

/** The requests for the record of a violation, in the order of time. Those that show it are marked. */
export function story({ rule, message, record, culprits }: Violation, { evidence }: Verdict): string {
  const about = evidence.find(({ kind, id }) => `${kind} ${id}` === record);
  const sightings = about?.sightings.map(({ entry }) => entry) ?? [];
  const all = new Set([...culprits, ...(about?.entries ?? []), ...sightings, ...(about?.cascades ?? [])]);
  const from = Math.min(...culprits.map(({ start }) => start));
  const to = Math.max(...culprits.map(({ end }) => end));
  const during = [...all].filter(({ start, end }) => end >= from && start <= to);
  // If there are too many lines, other reads are left out first.
  const reads: readonly RequestKind[] = ['get', 'list', 'call'];
  const weight = (entry: Entry) => (culprits.includes(entry) ? 0 : reads.includes(entry.kind) ? 2 : 1);
  const kept = during.sort((a, b) => weight(a) - weight(b)).slice(0, storyLines);
  kept.sort((a, b) => a.start - b.start);
  const lines = kept.map((entry) => `${culprits.includes(entry) ? '>' : ' '} ${describe(entry)}`);
  return [`${rule}: ${message}`, ...lines].join('\n');
}
