import { Random } from '../../src/conformance/random.ts';

/** The same fields, each of which may be absent. */
export type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** The fields of a user or a post without its ids. In a merge patch, `null` removes a field. */
export type Fields = Readonly<Record<string, string | null>>;

/** What a list asks for. `id` holds ids of users. */
export type Query = Optional<
  Record<'role' | 'prefix' | 'sort', string> &
    Record<'limit' | 'page', number> & { id: readonly number[]; count: boolean }
>;

/** A step of a client. It names its records by rank among those known by then, the newest first. */
export interface Step {
  readonly n: number;
  readonly client: number;
  readonly process: number;
  readonly pauseMs: number;
  /** `call` is GetUser over gRPC, `walk` a list page by page, and `invalid` a path that no user can have. */
  readonly kind: 'create' | 'get' | 'call' | 'replace' | 'patch' | 'delete' | 'list' | 'walk' | 'invalid';
  readonly record: keyof typeof sorts;
  readonly rank: number;
  /** The precondition: a version that the client has seen, an older one, or any. */
  readonly guard: 'none' | 'seen' | 'stale' | 'any' | 'unless seen';
  readonly sent?: Fields | undefined;
  /** A creation with an Idempotency-Key: copies sent at once, and what a further one sends instead. */
  readonly key?: { readonly copies: number; readonly other?: Fields };
  readonly query?: Query | undefined;
}

/** A fault begins when `at` steps are done. `target` is the number of a process. */
export interface Fault {
  readonly at: number;
  /** One of the faults of `run.ts`. */
  readonly kind: string;
  readonly target: number;
  readonly ms: number;
}

export type Plan = ReturnType<typeof drawPlan>;
type Stores = readonly ['memory' | 'sqlite' | 'postgres', ...('memory' | 'sqlite' | 'postgres')[]];
const anyStore: Stores = ['memory', 'sqlite', 'sqlite', 'postgres', 'postgres'];

/** Draws everything for a run. The same seed always draws the same plan. */
export function drawPlan(seed: number, count = 1_500, stores = anyStore) {
  const random = new Random(seed);
  const store = drawStore(random, stores);
  const clients = 4 + random.below(9);
  const steps = Array.from({ length: count }, (_, n) => drawStep(random, n, clients));
  const faults = drawFaults(random, store, count);
  const followers = Array.from({ length: 1 + random.below(3) }, (_, n) => ({
    n,
    isStream: random.pick(['pages', 'stream', 'stream']) === 'stream',
    // Ends its stream after so many changes, and resumes at the next process.
    leaveAfter: 5 + random.below(300),
  }));
  return { seed, store, clients, followers, steps, faults };
}

function drawStore(random: Random, stores: Stores) {
  const kind = random.pick(stores);
  const processes = kind === 'memory' ? 1 : 1 + random.below(3);
  // PostgreSQL behind PgBouncer, and with a synchronous standby: `hosts` has both servers in the URL, with
  // `address` a forwarder moves from one to the other.
  const pooler = kind === 'postgres' && random.below(3) === 0;
  const standby = kind === 'postgres' ? random.pick(['none', 'hosts', 'address'] as const) : 'none';
  const workers = kind === 'sqlite' && processes < 3 ? 1 + random.below(2) : 1;
  // SQLite on a disk of 32 MB.
  const smallDisk = kind === 'sqlite' && random.below(3) === 0;
  const standbyReads = standby !== 'none' && random.below(2) === 0;
  return { kind, processes, workers, smallDisk, pooler, standby, standbyReads };
}

function drawFaults(random: Random, store: Plan['store'], steps: number): Fault[] {
  const { kind, processes, workers, smallDisk, standby } = store;
  const possible: [string, ...string[]] = ['stop', 'hang up', 'cut clients', 'delay clients'];
  possible.push('descriptors', 'clock');
  if (kind !== 'memory') possible.push('kill', 'terminate');
  if (workers > 1) possible.push('kill worker');
  if (smallDisk) possible.push('disk full');
  if (kind === 'sqlite') possible.push('file away');
  if (kind === 'postgres') possible.push('crash database', 'restart database', 'end sessions');
  if (kind === 'postgres') possible.push('cut database', 'delay database');
  // A run without faults shows that the service does not reject requests without a reason.
  const count = random.below(5) === 0 ? 0 : 2 + random.below(6);
  const faults = Array.from({ length: count }, (_, i) => ({
    at: Math.floor(((i + 0.5) * steps) / (count + 1)) + random.below(20),
    kind: random.pick(possible),
    target: random.below(processes),
    ms: 50 + random.below(1_000),
  }));
  // Once in a run, and last, since the old primary does not return.
  if (count > 0 && standby !== 'none') {
    const at = Math.max(Math.floor(steps * 0.85), ...faults.map((fault) => fault.at));
    faults.push({ at, kind: 'fail over', target: 0, ms: 100 });
  }
  return faults;
}

const letters = ['a', 'b', 'é', '\u{ff5e}', '\u{1d4b3}'] as const;
const roles = ['admin', 'guest', 'staff'] as const;
const readGuards = ['none', 'none', 'unless seen', 'seen', 'any'] as const;
const writeGuards = ['none', 'none', 'seen', 'seen', 'seen', 'stale', 'any'] as const;
const sorts = {
  user: ['id', '-id', 'name', '-name', 'role,-name', '-role,name', 'role', 'name,-id'],
  post: ['id', '-id', 'title', '-title', 'title,-id'],
} as const;
/** How many of a hundred steps are of a kind. */
const weights = `14 create user, 8 create post, 14 get user, 7 get post, 6 call user, 8 replace user, 14 patch user,
  4 replace post, 6 patch post, 4 delete user, 3 delete post, 6 list user, 3 list post, 3 walk user, 1 walk post,
  1 invalid user`;
const kinds = weights.split(',').flatMap((text) => {
  const [weight, kind, record] = text.trim().split(' ');
  return Array(Number(weight)).fill({ kind, record });
});

function drawStep(random: Random, n: number, clients: number): Step {
  const { kind, record }: Pick<Step, 'kind' | 'record'> = kinds[random.below(kinds.length)];
  // Most steps use the newest few records, so that clients meet.
  const rank = random.below(3) > 0 ? random.below(4) : random.below(40);
  const client = random.below(clients);
  const process = random.below(6);
  const pauseMs = random.below(8) === 0 ? random.below(40) : random.below(3);
  const step = { n, client, process, pauseMs, kind, record, rank };
  const isPost = record === 'post';
  const named = () => ({ [isPost ? 'title' : 'name']: `${random.pick(letters)}${n}` });
  const whole = (): Fields => ({
    ...named(),
    ...(isPost && { body: random.below(2) === 0 ? '' : `body ${n}` }),
    ...(!isPost && random.below(3) > 0 && { role: random.pick(roles) }),
  });
  if (kind === 'create') {
    const isKeyed = random.below(2) === 0;
    const other = random.below(8) === 0 && { ...whole(), [isPost ? 'title' : 'name']: `o${n}` };
    const key = { copies: 1 + random.below(2), ...(other && { other }) };
    return { ...step, guard: 'none', sent: whole(), ...(isKeyed && { key }) };
  }
  if (kind === 'list' || kind === 'walk') {
    return { ...step, guard: 'none', query: drawQuery(random, kind, record) };
  }
  if (kind === 'call' || kind === 'invalid') return { ...step, guard: 'none' };
  const guard = random.pick(kind === 'get' ? readGuards : writeGuards);
  if (kind === 'replace') return { ...step, guard, sent: whole() };
  if (kind !== 'patch') return { ...step, guard };
  const which = random.below(10);
  const other = () =>
    isPost ? { body: random.pick(['', 'x', 'y']) } : { role: roles[random.below(4)] ?? null };
  return { ...step, guard, sent: { ...(which > 0 && which < 7 && named()), ...(which > 4 && other()) } };
}

function drawQuery(random: Random, kind: 'list' | 'walk', record: Step['record']): Query {
  const isUser = record === 'user';
  const sort = random.below(3) > 0 && { sort: random.pick<string>(sorts[record]) };
  const prefix = random.below(3) === 0 && { prefix: random.pick(letters) };
  if (!isUser && kind === 'list' && random.below(2) === 0) return { ...sort, ...prefix };
  const role = isUser && random.below(3) === 0 && { role: random.pick(roles) };
  const limit = kind === 'walk' ? 3 + random.below(30) : 1 + random.below(100);
  const count = random.below(2) === 0 && { count: true };
  if (kind === 'walk') return { ...sort, ...prefix, ...role, limit };
  const page = random.below(5) === 0 && { page: 1 + random.below(3) };
  // Ranks, which the client turns into ids.
  const id = isUser && random.below(5) === 0 && { id: [0, 1, 2, 3 + random.below(30)] };
  return { ...sort, ...prefix, ...role, limit, ...page, ...count, ...id };
}
