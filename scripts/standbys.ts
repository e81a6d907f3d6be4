// Reads with three processes and two standbys, one of them slow, while other clients write:
//
//   npm run try:standbys -- [--operations 100000] [--clients 48]
//
// stale: reads without a write that was acknowledged before they started. lost: acknowledged writes that are
// missing at the end. Then it compares reads with and without standbys: the cost of a read for the primary.
import { startPostgres } from '../test/kit/postgres.ts';
import { startProcess } from '../test/kit/process.ts';
import { readArguments } from './harness/arguments.ts';
import { fail } from './harness/fail.ts';
import { cpuSecondsOf } from './harness/proc.ts';
import { median, percentile } from './harness/statistics.ts';

const { operations, clients } = readArguments({ operations: 100_000, clients: 48 });
const users = 100;
const turns = 6;
const turnMs = 2_000;
const slowMs = 50;

await using cleanups = new AsyncDisposableStack();
const postgres = await startPostgres({ max_connections: '200' });
cleanups.defer(() => postgres.close());
const primary = postgres.server;
const standbys = [await postgres.createStandby(), await postgres.createStandby()];
const database = await postgres.createDatabase();
const readDatabase = new URL(database).href.replace(
  new URL(database).host,
  standbys.map(({ port }) => `127.0.0.1:${port}`).join(','),
);
const withStandbys = ['--database', database, '--read-database', readDatabase];
const start = async (args: readonly string[]): Promise<string> => {
  const { http } = await startProcess({ after: (end) => cleanups.defer(end) }, args);
  return http;
};
const urls = [await start(withStandbys), await start(withStandbys), await start(withStandbys)];
const plainUrl = await start(['--database', database]);

const below = (bound: number): number => Math.floor(Math.random() * bound);
const anyUrl = (): string => urls[below(urls.length)] ?? '';
const headers = { 'content-type': 'application/json' };

async function request(method: string, path: string, body?: object, base = anyUrl()) {
  const response = await fetch(base + path, { method, ...(body && { headers, body: JSON.stringify(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}: ${text}`);
  return {
    json: text === '' ? undefined : JSON.parse(text),
    version: Number(response.headers.get('etag')?.replaceAll('"', '')),
  };
}

/** The version of the last acknowledged write by id. The name of a user contains its version. */
const acknowledged = new Map<number, number>();
for (let i = 0; i < users; i += 1) {
  const { json } = await request('POST', '/users', { name: 'version 1' });
  acknowledged.set(json.id, 1);
}
const ids = [...acknowledged.keys()];
const anyId = (): number => ids[below(ids.length)] ?? 1;
let done = 0;
const stale: string[] = [];
const waits: number[] = [];

async function write(id: number): Promise<void> {
  // The next version is part of the name, so one client at a time writes a user.
  const version = (acknowledged.get(id) ?? 0) + 1;
  await request('PATCH', `/users/${id}`, { name: `version ${version}` });
  acknowledged.set(id, version);
}

async function read(id: number): Promise<void> {
  const least = acknowledged.get(id) ?? 0;
  const since = performance.now();
  const seen =
    Math.random() < 0.7
      ? (await request('GET', `/users/${id}`)).version
      : Number((await request('GET', `/users?id=${id}`)).json[0].name.split(' ')[1]);
  waits.push(performance.now() - since);
  if (seen < least) stale.push(`user ${id}: version ${seen} instead of at least ${least}`);
}

await standbys[1]?.query(`ALTER SYSTEM SET recovery_min_apply_delay = '${slowMs}ms'`);
await standbys[1]?.query('SELECT pg_reload_conf()');
const writing = new Set<number>();
async function client(): Promise<void> {
  while (done < operations) {
    done += 1;
    if (done % 5_000 === 0) console.log(`${done} operations, ${stale.length} stale`);
    const id = anyId();
    if (Math.random() < 0.3 && !writing.has(id)) {
      writing.add(id);
      await write(id).finally(() => writing.delete(id));
    } else await read(id);
  }
}
await Promise.all(Array.from({ length: clients }, client));
await standbys[1]?.query('ALTER SYSTEM RESET recovery_min_apply_delay');
await standbys[1]?.query('SELECT pg_reload_conf()');
let lost = 0;
for (const [id, version] of acknowledged) {
  if ((await request('GET', `/users/${id}`, undefined, plainUrl)).version !== version) lost += 1;
}
const metrics = await Promise.all(urls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
const outcomes: Record<string, number> = {};
for (const [, port, outcome, count] of metrics
  .join('\n')
  .matchAll(/standby_reads_total\{host="[^"]*:(\d+)",outcome="(\w+)"\} (\d+)/g)) {
  const which = Number(port) === standbys[1]?.port ? 'slow' : 'quick';
  outcomes[`${which} ${outcome}`] = (outcomes[`${which} ${outcome}`] ?? 0) + Number(count);
}
console.table({
  operations: done,
  stale: stale.length,
  lost,
  ...outcomes,
  'read p50 ms': percentile(waits, 0.5).toFixed(1),
  'read p99 ms': percentile(waits, 0.99).toFixed(1),
});
for (const line of stale.slice(0, 10)) console.log(line);

/** The processor time of all sessions of the primary so far, in seconds. */
async function primaryCpu(): Promise<number> {
  const rows = await primary.query<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()`,
  );
  return rows.reduce((sum, { pid }) => sum + cpuSecondsOf(pid), 0);
}

async function turn(bases: readonly string[]): Promise<{ usPerRead: number; p50: number; p99: number }> {
  const end = performance.now() + turnMs;
  const times: number[] = [];
  const before = await primaryCpu();
  const reader = async (i: number): Promise<void> => {
    while (performance.now() < end) {
      const since = performance.now();
      await request('GET', `/users/${anyId()}`, undefined, bases[i % bases.length]);
      times.push(performance.now() - since);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, i) => reader(i)));
  const seconds = (await primaryCpu()) - before;
  return {
    usPerRead: (seconds * 1e6) / times.length,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
  };
}

const ratios: number[] = [];
for (let i = 0; i < turns; i += 1) {
  // Use one process for each, so that both share their queries equally.
  const plain = await turn([plainUrl]);
  const standby = await turn(urls.slice(0, 1));
  ratios.push(standby.usPerRead / plain.usPerRead);
  console.log('without standbys', plain, 'with', standby);
}
console.log(
  `processor time of the primary per read, with / without: median ${median(ratios).toFixed(2)}, from ${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`,
);
if (stale.length + lost > 0) fail(`${stale.length} stale reads, ${lost} lost writes`);
for (const which of ['quick', 'slow']) {
  // Reads from the primary are never stale.
  if (!outcomes[`${which} answered`]) fail(`the ${which} standby has answered no read`);
}
