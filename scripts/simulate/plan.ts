import { Random } from '../../src/conformance/random.ts';
import type { EntryKind, Fields, Query, RecordKind, Sent } from './history.ts';

/** What the processes of a run share. */
export interface StorePlan {
  readonly kind: 'memory' | 'sqlite' | 'postgres';
  readonly processes: number;
  readonly workers: number;
  /** SQLite on a disk of a few megabytes. */
  readonly smallDisk: boolean;
  /** PostgreSQL behind PgBouncer. */
  readonly pooler: boolean;
  /** PostgreSQL with a synchronous standby; `hosts`: both are in the URL, else one address moves. */
  readonly standby: 'none' | 'hosts' | 'address';
  /** Whether the standby answers reads. */
  readonly standbyReads: boolean;
}

/** A client that follows the changes. */
export interface FollowerPlan {
  readonly n: number;
  readonly mode: 'pages' | 'stream';
  /** Leaves its stream after so many events, and resumes at the next process. */
  readonly leaveAfter: number;
}

/** What a client does. The ids in it are drawn as ranks among those known by then, newest first. */
export interface Step {
  readonly n: number;
  readonly client: number;
  readonly process: number;
  readonly pauseMs: number;
  readonly kind: EntryKind | 'walk';
  readonly record: RecordKind;
  readonly rank: number;
  readonly guard: 'none' | 'seen' | 'stale' | 'any' | 'unless seen';
  readonly sent?: Sent;
  /** A creation with an Idempotency-Key: copies sent at once, and what a further one sends instead. */
  readonly key?: { readonly copies: number; readonly other?: Fields };
  readonly query?: Query;
}

export interface Fault {
  /** Begins when so many steps are done. */
  readonly at: number;
  readonly kind: FaultKind;
  /** A process, by its number. */
  readonly target: number;
  readonly ms: number;
}

export interface Plan {
  readonly seed: number;
  readonly store: StorePlan;
  readonly clients: number;
  readonly followers: readonly FollowerPlan[];
  readonly steps: readonly Step[];
  readonly faults: readonly Fault[];
}

const anywhere = ['stop', 'hang up', 'cut clients', 'delay clients', 'descriptors', 'clock'] as const;
const durable = ['kill', 'terminate', 'kill worker'] as const;
const onFile = ['disk full', 'file away'] as const;
const onPostgres = [
  'crash database',
  'restart database',
  'end sessions',
  'cut database',
  'delay database',
  'fail over',
] as const;
export const faultKinds = [...anywhere, ...durable, ...onFile, ...onPostgres] as const;
export type FaultKind = (typeof faultKinds)[number];

export interface PlanOptions {
  readonly steps?: number;
  /** Only these stores are drawn. */
  readonly stores?: readonly [StorePlan['kind'], ...StorePlan['kind'][]];
}

/** Everything that is drawn for a run: a pure function of the seed. */
export function drawPlan(seed: number, { steps: count = 1_500, stores }: PlanOptions = {}): Plan {
  const random = new Random(seed);
  const store = drawStore(random, stores ?? ['memory', 'sqlite', 'sqlite', 'postgres', 'postgres']);
  const clients = 4 + random.below(9);
  const steps = Array.from({ length: count }, (_, n) => drawStep(random, n, clients));
  const faults = drawFaults(random, store, count);
  const followers = Array.from({ length: 1 + random.below(3) }, (_, n) => ({
    n,
    mode: random.pick(['pages', 'stream', 'stream'] as const),
    leaveAfter: 5 + random.below(300),
  }));
  return { seed, store, clients, followers, steps, faults };
}

function drawStore(random: Random, stores: readonly [StorePlan['kind'], ...StorePlan['kind'][]]): StorePlan {
  const kind = random.pick(stores);
  const processes = kind === 'memory' ? 1 : 1 + random.below(3);
  const pooler = kind === 'postgres' && random.below(3) === 0;
  const standby = kind === 'postgres' ? random.pick(['none', 'hosts', 'address'] as const) : 'none';
  return {
    kind,
    processes,
    workers: kind === 'sqlite' && processes < 3 ? 1 + random.below(2) : 1,
    smallDisk: kind === 'sqlite' && random.below(3) === 0,
    pooler,
    standby,
    standbyReads: standby !== 'none' && random.below(2) === 0,
  };
}

function drawFaults(random: Random, store: StorePlan, steps: number): Fault[] {
  const possible: FaultKind[] = [...anywhere];
  if (store.kind !== 'memory')
    possible.push(...durable.filter((f) => f !== 'kill worker' || store.workers > 1));
  if (store.kind === 'sqlite') possible.push(...onFile.filter((f) => f !== 'disk full' || store.smallDisk));
  if (store.kind === 'postgres') possible.push(...onPostgres.filter((f) => f !== 'fail over'));
  // A quiet run shows that what is refused is refused for a reason.
  const count = random.below(5) === 0 ? 0 : 2 + random.below(6);
  const [first = 'stop', ...rest] = possible;
  const faults = Array.from({ length: count }, (_, i) => ({
    at: Math.floor(((i + 0.5) * steps) / (count + 1)) + random.below(20),
    kind: random.pick([first, ...rest]),
    target: random.below(store.processes),
    ms: 50 + random.below(1_000),
  }));
  // Once in a run, and last: the old primary does not come back.
  if (count > 0 && store.standby !== 'none') {
    faults.push({ at: Math.floor(steps * 0.85), kind: 'fail over', target: 0, ms: 100 });
  }
  return faults;
}

const letters = ['a', 'b', 'é', '\u{ff5e}', '\u{1d4b3}'] as const;
const roles = ['admin', 'guest', 'staff'] as const;
const weights: readonly (readonly [weight: number, kind: Step['kind'], record: RecordKind])[] = [
  [14, 'create', 'user'],
  [8, 'create', 'post'],
  [14, 'get', 'user'],
  [7, 'get', 'post'],
  [6, 'call', 'user'],
  [8, 'replace', 'user'],
  [14, 'patch', 'user'],
  [4, 'replace', 'post'],
  [6, 'patch', 'post'],
  [4, 'delete', 'user'],
  [3, 'delete', 'post'],
  [6, 'list', 'user'],
  [3, 'list', 'post'],
  [3, 'walk', 'user'],
  [1, 'walk', 'post'],
  [1, 'invalid', 'user'],
];
const kinds = weights.flatMap(([weight, kind, record]) =>
  Array.from({ length: weight }, () => ({ kind, record })),
);

function drawStep(random: Random, n: number, clients: number): Step {
  const { kind, record } = kinds[random.below(kinds.length)] ?? { kind: 'get', record: 'user' };
  // Most go to the newest few, so that clients meet.
  const rank = random.below(3) > 0 ? random.below(4) : random.below(40);
  const base = {
    n,
    client: random.below(clients),
    process: random.below(6),
    pauseMs: random.below(8) === 0 ? random.below(40) : random.below(3),
    kind,
    record,
    rank,
  };
  const text = (): string => `${random.pick(letters)}${n}`;
  const whole = (): Fields =>
    record === 'post'
      ? { title: text(), body: random.below(2) === 0 ? '' : `body ${n}` }
      : { name: text(), ...(random.below(3) > 0 && { role: random.pick(roles) }) };
  switch (kind) {
    case 'create': {
      const keyed = random.below(2) === 0;
      const other =
        random.below(8) === 0 ? { ...whole(), [record === 'post' ? 'title' : 'name']: `o${n}` } : undefined;
      const key = { copies: 1 + random.below(2), ...(other && { other }) };
      return { ...base, guard: 'none', sent: whole(), ...(keyed && { key }) };
    }
    case 'replace':
      return { ...base, guard: drawGuard(random), sent: whole() };
    case 'patch':
      return { ...base, guard: drawGuard(random), sent: drawPatch(random, record, text) };
    case 'delete':
      return { ...base, guard: drawGuard(random) };
    case 'get':
      return { ...base, guard: random.pick(['none', 'none', 'unless seen', 'seen', 'any']) };
    case 'list':
    case 'walk':
      return { ...base, guard: 'none', query: drawQuery(random, kind, record) };
    default:
      return { ...base, guard: 'none' };
  }
}

function drawGuard(random: Random): Step['guard'] {
  return random.pick(['none', 'none', 'seen', 'seen', 'seen', 'stale', 'any']);
}

function drawPatch(random: Random, record: RecordKind, text: () => string): Sent {
  const [named, other, values] =
    record === 'post'
      ? ['title', 'body', ['', 'x', 'y'] as const]
      : ['name', 'role', [...roles, null] as const];
  const which = random.below(10);
  if (which === 0) return {};
  return {
    ...(which < 7 && { [named]: text() }),
    ...(which > 4 && { [other]: values[random.below(values.length)] ?? null }),
  };
}

function drawQuery(random: Random, kind: 'list' | 'walk', record: RecordKind): Query {
  const sorts =
    record === 'post'
      ? (['id', '-id', 'title', '-title', 'title,-id'] as const)
      : (['id', '-id', 'name', '-name', 'role,-name', '-role,name', 'role', 'name,-id'] as const);
  const sort = random.below(3) > 0 ? { sort: random.pick(sorts) } : {};
  const prefix = random.below(3) === 0 ? { prefix: random.pick(letters) } : {};
  if (record === 'post' && kind === 'list' && random.below(2) === 0) return { ...sort, ...prefix };
  const role = record === 'user' && random.below(3) === 0 ? { role: random.pick(roles) } : {};
  const limit = { limit: kind === 'walk' ? 3 + random.below(30) : 1 + random.below(100) };
  const count = random.below(2) === 0 ? { count: true } : {};
  if (kind === 'walk') return { ...sort, ...prefix, ...role, ...limit };
  const page = random.below(5) === 0 ? { page: 1 + random.below(3) } : {};
  // Ranks, which the client turns into ids.
  const id = record === 'user' && random.below(5) === 0 ? { id: [0, 1, 2, 3 + random.below(30)] } : {};
  return { ...sort, ...prefix, ...role, ...limit, ...page, ...count, ...id };
}
