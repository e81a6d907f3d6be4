// Follows the feed of changes while processes and the database fail, and checks that each follower ends with
// exactly the content of the database:
//
//   npm run try:feed -- [--changes 200000] [--sqlite] [--rate 500] [--calm] [--minutes 30]
//
// 64 writers use three processes on PostgreSQL (two on one SQLite file). 20 followers disconnect at random
// and resume with Last-Event-ID. Processes are killed with SIGKILL and started again. The database crashes,
// restarts, ends its sessions and fails over to a synchronous standby. Latencies are from the response to the
// writer to the arrival at a follower, without changes that a follower missed while it was disconnected.
// `--rate` limits the writes per second. With `--calm` there are no failures and no disconnects.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createProgress } from '../src/commands/progress.ts';
import { openStore } from '../src/storage/open.ts';
import { freePorts } from '../test/kit/free-ports.ts';
import { openPostgres, openSqlite } from './feed/databases.ts';
import { Deliveries } from './feed/deliveries.ts';
import { follow } from './feed/follower.ts';
import { Changes, rowText } from './feed/replica.ts';
import { write } from './feed/writer.ts';
import { readArguments } from './harness/arguments.ts';
import { RestartableService } from './harness/process.ts';

const values = readArguments({
  changes: 200_000,
  sqlite: false,
  writers: 64,
  followers: 20,
  rate: Number.POSITIVE_INFINITY,
  calm: false,
  minutes: Number.POSITIVE_INFINITY,
});
const { changes: wanted, writers } = values;
const quietMs = 8_000;
// Processes and followers reconnect and catch up.
const recoveryMs = 4_000;
const catchUpMs = 120_000;

await using stack = new AsyncDisposableStack();
const database = await (values.sqlite ? openSqlite(stack) : openPostgres(stack));
const ports = await freePorts(values.sqlite ? 4 : 6);
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const logs = await mkdtemp(join(tmpdir(), 'feed-logs-'));
stack.defer(() => rm(logs, { recursive: true }));
const services: RestartableService[] = [];
for (let i = 0; i < ports.length; i += 2) {
  const own = [ports[i] ?? 0, ports[i + 1] ?? 0] as const;
  const service = new RestartableService(
    [main, '--database', database.url, '--log', 'off'],
    own,
    join(logs, `${i}`),
    {},
  );
  stack.defer(() => service.signal('SIGKILL'));
  services.push(service);
}
await Promise.all(services.map((service) => service.start()));
const urls = services.map(({ port }) => `http://127.0.0.1:${port}`);

const deliveries = new Deliveries(values.followers);
const changes = new Changes(values.followers, deliveries);
const leaving = new AbortController();
const followers = Array.from({ length: values.followers }, () =>
  follow(urls, changes, deliveries, leaving.signal, values.calm),
);
const replicas = followers.map(({ followed }) => followed.replica);
const newest = () => Math.max(...replicas.map(({ changes }) => changes));
let hasFailed = false;
const isWrong = () => followers.some(({ followed }) => followed.violations.size > 0);
const endAt = performance.now() + values.minutes * 60_000;
const isOver = () => hasFailed || isWrong() || newest() >= wanted || performance.now() >= endAt;
const writing = Array.from({ length: writers }, (_, i) =>
  write(urls[i % urls.length] ?? '', deliveries, isOver, (writers * 1_000) / values.rate),
);

const killed = new Map<string, number>();
const kill = async () => {
  const service = services[Math.floor(Math.random() * services.length)];
  await service?.signal('SIGKILL');
  await sleep(Math.random() * 1_000);
  await service?.start();
};
const faults = Object.entries({ 'a process is killed': kill, ...database.faults });
const progress = createProgress(process.stderr, 'feed', wanted);
const shown = setInterval(() => progress.update(Math.min(newest(), wanted)), 1_000);
stack.defer(() => clearInterval(shown));

async function breakThings(): Promise<void> {
  for (let turn = 0, failovers = 0; ; turn += 1) {
    await sleep(quietMs);
    if (isOver()) return;
    if (values.calm) continue;
    const isFailover = database.failOver !== undefined && newest() > (wanted * (failovers + 1)) / 3;
    const [name, fault] =
      isFailover && database.failOver
        ? (['the database fails over', database.failOver] as const)
        : (faults[turn % faults.length] ?? (['a process is killed', kill] as const));
    if (isFailover) failovers += 1;
    killed.set(name, (killed.get(name) ?? 0) + 1);
    deliveries.isQuiet = false;
    await fault();
    await sleep(recoveryMs);
    deliveries.isQuiet = true;
  }
}

const breaking = breakThings();
try {
  await Promise.all([breaking, ...writing]);
} catch (error) {
  hasFailed = true;
  // A fault may start a process again.
  await Promise.allSettled([breaking]);
  throw error;
}
const store = await openStore(database.url);
stack.defer(() => store.close());
const end = (await store.changes?.position()) ?? 0;
const deadline = performance.now() + catchUpMs;
while (replicas.some(({ position }) => position < end) && performance.now() < deadline) await sleep(100);
leaving.abort();
await Promise.all(followers.map(({ ended }) => ended));
progress.finish();

const rows = new Map<string, string>();
for (const [kind, name] of [
  ['users', 'user'],
  ['posts', 'post'],
] as const) {
  for (let after = 0; ; ) {
    const page: readonly { id: number }[] = await store.exportRows(kind, after, 1_000);
    for (const row of page) rows.set(`${name} ${row.id}`, rowText({ ...row }));
    if (page.length < 1_000) break;
    after = page.at(-1)?.id ?? after;
  }
}
const violations = new Set(followers.flatMap(({ followed }) => [...followed.violations]));
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
const ms = (number: number) => `${number.toFixed(1)} ms`;
const result = {
  changes: newest(),
  acknowledged: deliveries.acknowledged,
  followers: replicas.length,
  connections: sum(followers.map(({ followed }) => followed.connections)),
  missing: sum(replicas.map(({ faults }) => faults.missing)) + changes.missing + deliveries.undelivered,
  doubled: sum(replicas.map(({ faults }) => faults.doubled)),
  outOfOrder: sum(replicas.map(({ faults }) => faults.outOfOrder)),
  'texts that differ between followers': sum(replicas.map(({ faults }) => faults.different)),
  'followers that differ from the database': replicas.filter((one) => one.differences(rows) > 0).length,
  'latency p50, quiet': ms(deliveries.quiet.quantile(0.5)),
  'latency p99, quiet': ms(deliveries.quiet.quantile(0.99)),
  'latency p50, all': ms(deliveries.all.quantile(0.5)),
  'latency p99, all': ms(deliveries.all.quantile(0.99)),
  ...Object.fromEntries(killed),
};
for (const [what, value] of Object.entries(result)) console.log(`| ${what} | ${value} |`);
if (violations.size > 0) console.log(`violations: ${[...violations].join('; ')}`);
const bad =
  result.missing +
  result.doubled +
  result.outOfOrder +
  result['followers that differ from the database'] +
  result['texts that differ between followers'] +
  violations.size;
const least = Number.isFinite(values.minutes) ? 1 : wanted;
if (bad > 0 || newest() < least) process.exitCode = 1;
