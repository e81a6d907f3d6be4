import {
  type Evidence,
  fieldsOf,
  isNotFound,
  isSuccess,
  isUnknown,
  tokenOf,
  type Violation,
} from './evidence.ts';
import { checkFeed } from './feed.ts';
import { describe, type Entry, type History, type RecordKind } from './history.ts';
import { checkPage } from './pages.ts';
import { Timeline } from './timeline.ts';

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly evidence: readonly Evidence[];
}

/** Judges a history by what the service promises; one that is not over yet may lack the end of its feed. */
export function judge({ entries, faults, feed }: History, isOver = true): Verdict {
  // Even without a fault, a slow machine may keep the service from its database for longer than it waits.
  const isFast = entries.every(({ start, end }) => end - start < patienceMs);
  const isQuiet = isFast && faults.every(({ skipped }) => skipped !== undefined);
  const evidence = (['user', 'post'] as const).flatMap((kind) => gather(kind, entries));
  const timelines = evidence.map((one) => new Timeline(one));
  const lists = entries.filter((entry) => entry.kind === 'list' && entry.status === 200);
  const owner = new Map(evidence.map(({ kind, id, userId }) => [`${kind} ${id}`, userId]));
  const pages = lists.flatMap((list) => {
    const kin = timelines.filter(
      ({ kind, id }) => kind === list.record && (kind === 'user' || owner.get(`post ${id}`) === list.user),
    );
    return checkPage(list, kin, strayCreations(entries, list));
  });
  const violations = [
    ...entries.flatMap((entry) => checkStatus(entry, isQuiet)),
    ...checkKeys(entries),
    ...(['user', 'post'] as const).flatMap((kind) => checkIds(kind, entries)),
    ...timelines.flatMap((timeline) => timeline.violations),
    ...pages,
    ...(feed.length > 0 ? checkFeed(feed, timelines, entries, { isQuiet, isOver }) : []),
  ];
  return { violations, evidence };
}

/** Everything that was asked of each record of a kind. */
function gather(record: RecordKind, all: readonly Entry[]): Evidence[] {
  const entries = all.filter((entry) => entry.record === record && entry.kind !== 'invalid');
  const lists = entries.filter(({ kind }) => kind === 'list');
  const byToken = new Map<string | undefined, Entry[]>();
  const direct = new Map<number, Entry[]>();
  const sightings = new Map<number, Evidence['sightings'][number][]>();
  const tokens = new Map<number, Set<string | undefined>>();
  for (const entry of entries) {
    const { kind, row, status, user, post, sent } = entry;
    if (kind === 'create' && isUnknown(entry)) add(byToken, tokenOf(sent), entry);
    const id = kind === 'create' ? (status === 201 ? row?.id : undefined) : record === 'user' ? user : post;
    if (id === undefined || kind === 'list') continue;
    if (kind === 'call' && row !== undefined)
      add(sightings, id, { entry, fields: fieldsOf(row), isWhole: false });
    add(direct, id, entry);
    if (row !== undefined) tokens.set(id, (tokens.get(id) ?? new Set()).add(tokenOf(fieldsOf(row))));
  }
  for (const entry of lists) {
    for (const row of entry.rows ?? []) {
      add(sightings, row.id, { entry, fields: fieldsOf(row), isWhole: true });
      tokens.set(row.id, (tokens.get(row.id) ?? new Set()).add(tokenOf(fieldsOf(row))));
    }
  }
  return [...tokens.keys()].map((id) => {
    const attempts = [...(tokens.get(id) ?? [])].flatMap((token) => byToken.get(token) ?? []);
    const known = [...attempts, ...(direct.get(id) ?? [])].sort((a, b) => a.start - b.start);
    const made = known.find(({ kind }) => kind === 'create') ?? sightings.get(id)?.[0]?.entry;
    const userId = record === 'post' ? made?.user : id;
    // A post is found by way of its own user only.
    const own =
      record === 'post' ? known.filter((entry) => entry.user === userId || isSuccess(entry)) : known;
    const ofUser = all.filter((entry) => entry.user === userId);
    return {
      kind: record,
      id,
      userId,
      entries: own,
      sightings: sightings.get(id) ?? [],
      cascades: record === 'post' ? ofUser.filter((e) => e.record === 'user' && e.kind === 'delete') : [],
      dependents: record === 'user' ? ofUser.filter((e) => e.record === 'post') : [],
    };
  });
}

function add<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}

/** Creations that may have happened, and that nothing else is known of. */
function strayCreations(entries: readonly Entry[], { record, user, end }: Entry): number {
  return entries.filter(
    (e) =>
      e.kind === 'create' &&
      e.record === record &&
      isUnknown(e) &&
      e.start <= end &&
      (record === 'user' || e.user === user),
  ).length;
}

const statuses: Readonly<Record<Entry['kind'], readonly (number | string)[]>> = {
  create: [201],
  get: [200, 304, 404, 412],
  call: ['OK', 'NOT_FOUND'],
  replace: [200, 404, 412],
  patch: [200, 404, 412],
  delete: [204, 404, 412],
  list: [200],
  invalid: [400],
};
const refusals: readonly (number | string | undefined)[] = [
  408,
  503,
  504,
  'UNAVAILABLE',
  'DEADLINE_EXCEEDED',
  'RESOURCE_EXHAUSTED',
  undefined,
];

const patienceMs = 4_000;

/** Nothing but the documented statuses, and no refusal without a fault. */
function checkStatus(entry: Entry, isQuiet: boolean): Violation[] {
  const { kind, record, status, guard, key } = entry;
  const isAllowed =
    (statuses[kind].includes(status ?? '') &&
      (status !== 412 || guard !== undefined) &&
      (status !== 304 || guard?.header === 'if-none-match')) ||
    (record === 'post' && isNotFound(entry)) ||
    (key !== undefined && (status === 409 || status === 422)) ||
    (!isQuiet && refusals.includes(status));
  if (isAllowed) return [];
  const why = refusals.includes(status) ? 'without a fault' : 'which is not documented';
  return [
    {
      rule: 'wrong status',
      message: `${status ?? 'no response'} ${why}: ${entry.note ?? ''}`,
      culprits: [entry],
    },
  ];
}

/** A creation with a key happens once, and every text is in one record only. */
function checkKeys(entries: readonly Entry[]): Violation[] {
  const violations: Violation[] = [];
  const byKey = new Map<string, Entry[]>();
  const owners = new Map<string, { readonly id: number; readonly entry: Entry }>();
  const own = (record: RecordKind, text: string | undefined, id: number, entry: Entry) => {
    if (text === undefined) return;
    const known = owners.get(`${record} ${text}`);
    if (known === undefined) owners.set(`${record} ${text}`, { id, entry });
    else if (known.id !== id) {
      const message = `${record}s ${known.id} and ${id} were both made or changed by the request that wrote ${text}`;
      violations.push({ rule: 'doubled', message, culprits: [known.entry, entry] });
    }
  };
  for (const entry of entries) {
    const { record, key, kind, row, rows = [] } = entry;
    if (key !== undefined && kind === 'create') add(byKey, `${record} ${key}`, entry);
    for (const shown of row === undefined ? rows : [row])
      own(record, shown.name ?? shown.title, shown.id, entry);
  }
  for (const [key, attempts] of byKey) {
    const made = attempts.filter(({ status, replayed }) => status === 201 && replayed !== true);
    if (made.length > 1)
      violations.push({ rule: 'doubled', message: `${key} created twice`, culprits: made });
    for (const entry of attempts) {
      const others = attempts.filter((other) => other !== entry && other.start <= entry.end);
      const others422 = others.some(({ sent }) => tokenOf(sent) !== tokenOf(entry.sent));
      if ((entry.status === 422 && !others422) || (entry.status === 409 && others.length === 0)) {
        violations.push({
          rule: 'wrong status',
          message: `${entry.status} for the first use of ${key}`,
          culprits: [entry],
        });
      }
    }
  }
  return violations;
}

/** Ids rise. */
function checkIds(record: RecordKind, entries: readonly Entry[]): Violation[] {
  const violations: Violation[] = [];
  const creations = entries.filter(
    (e) => e.kind === 'create' && e.record === record && e.status === 201 && !e.replayed,
  );
  const byEnd = creations.toSorted((a, b) => a.end - b.end);
  let highest: Entry | undefined;
  let ended = 0;
  for (const creation of creations.toSorted((a, b) => a.start - b.start)) {
    for (let next = byEnd[ended]; next !== undefined && next.end < creation.start; next = byEnd[ended]) {
      if (highest === undefined || (next.row?.id ?? 0) > (highest.row?.id ?? 0)) highest = next;
      ended += 1;
    }
    const id = creation.row?.id ?? 0;
    if (highest !== undefined && (highest.row?.id ?? 0) > id) {
      violations.push({
        rule: 'id not rising',
        message: `${record} ${id} after ${highest.row?.id}`,
        culprits: [highest, creation],
      });
    }
  }
  return violations;
}

const storyLines = 25;

/** The requests for the record of a violation, in the order of time; those that show it are marked. */
export function story({ rule, message, record, culprits }: Violation, { evidence }: Verdict): string {
  const about = evidence.find(({ kind, id }) => `${kind} ${id}` === record);
  const others =
    about === undefined
      ? []
      : [...about.entries, ...about.sightings.map(({ entry }) => entry), ...about.cascades];
  const steps = culprits.map(({ step, start }) => `${step} ${start}`);
  const isCulprit = (entry: Entry) => steps.includes(`${entry.step} ${entry.start}`);
  const between = {
    start: Math.min(...culprits.map(({ start }) => start)),
    end: Math.max(...culprits.map(({ end }) => end)),
  };
  const all = [...new Set([...culprits, ...others])].filter(
    (e) => e.end >= between.start && e.start <= between.end,
  );
  const unique = all.filter((e, i) => all.findIndex((o) => o.step === e.step && o.start === e.start) === i);
  // Reads and lists that show nothing wrong give way to the rest.
  const weight = (e: Entry) =>
    isCulprit(e) ? 0 : e.kind === 'list' || e.kind === 'get' || e.kind === 'call' ? 2 : 1;
  const kept = unique.toSorted((a, b) => weight(a) - weight(b)).slice(0, storyLines);
  const lines = kept
    .sort((a, b) => a.start - b.start)
    .map((e) => `${isCulprit(e) ? '>' : ' '} ${describe(e)}`);
  return [`${rule}: ${message}`, ...lines].join('\n');
}
