// Removes the leader of a Patroni cluster that three copies of the service use, under load on both APIs:
//
//   npm run try:failover -- [--rounds 10] [--clients 5] [--svg FILE]
//
// Each round kills the leader's node (SIGKILL), switches over, and stops the leader's node (SIGSTOP) until
// another one leads. The copies name all nodes in their URL; there is no proxy. It fails if an acknowledged
// write is lost or doubled, if a client sees anything but success or "unavailable", or if the first write is
// accepted more than a second after a plain session has committed a write on Patroni's new leader. The last
// line is a summary in JSON.
// `--svg` draws the requests that succeed around each kind of outage, and over all rounds.
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { usersClient } from '../test/kit/grpc.ts';
import { allUsers } from '../test/kit/ledger.ts';
import { OutageLoad, type OutageReport, untilReady } from '../test/kit/outage-load.ts';
import { startProcess } from '../test/kit/process.ts';
import { readArguments } from './harness/arguments.ts';
import { chartHeight, chartWidth, drawChart, drawSvg, place } from './harness/chart.ts';
import { PatroniCluster } from './harness/patroni.ts';
import { findTools } from './harness/patroni-tools.ts';
import { median } from './harness/statistics.ts';

const { rounds, clients, svg } = readArguments({ rounds: 10, clients: 5, svg: '' });
const copies = 3;
const pauseMs = 100;
const steadyMs = 5_000;
const firstWriteLimitMs = 1_000;
// The time line of the picture, in seconds around the outage.
const [firstSecond, lastSecond] = [-5, 35];
const binMs = 3_000;

const tools = await findTools();
if (typeof tools === 'string') {
  console.log(`skipped: ${tools}`);
  process.exit();
}
console.log(tools.versions.join(', '));

await using cleanups = new AsyncDisposableStack();
const owner = { after: (end: () => unknown) => cleanups.defer(async () => void (await end())) };
const cluster = await PatroniCluster.start(tools);
owner.after(() => cluster.close());

/** A copy of the service, with the times of its successful requests. */
interface Copy {
  readonly http: string;
  readonly load: OutageLoad;
  readonly writes: number[];
  readonly successes: number[];
}

async function startCopy(): Promise<Copy> {
  const { child, http, grpc } = await startProcess(owner, ['--database', cluster.url('postgres')]);
  await untilReady(http, true);
  const headers = { 'content-type': 'application/json' };
  await fetch(`${http}/users`, { method: 'POST', headers, body: '{"name":"the first"}' });
  const [writes, successes]: [number[], number[]] = [[], []];
  const onAnswer = (what: string, isSuccess: boolean) => {
    if (!isSuccess || what.startsWith('GET /health')) return;
    successes.push(performance.now());
    if (what === 'POST /users') writes.push(performance.now());
  };
  const client = usersClient(owner, grpc);
  const load = new OutageLoad({ child, http, client, clients, pauseMs, onAnswer });
  owner.after(() => load.abandon());
  return { http, load, writes, successes };
}

/** Each function removes the leader, and resolves to a function that restores its node. */
const outages = {
  async killed(leader: string) {
    await cluster.kill(leader);
    return () => cluster.restart(leader);
  },
  async 'switched over'(leader: string) {
    await cluster.switchOver(leader);
    return () => {};
  },
  async stopped(leader: string) {
    cluster.freeze(leader);
    return () => cluster.thaw(leader);
  },
};

/** All times are in milliseconds. */
interface Outage {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly withoutLeader: number;
  readonly withoutWrites: number;
  /** From the new leader's key to the end of its promotion, before which PostgreSQL accepts no writes. */
  readonly promotion: number;
  /** From there until a plain session has committed a write. */
  readonly commit: number;
  /** From there to the first write on any copy, and until every copy has accepted a write. */
  readonly firstWrite: number;
  readonly allWrite: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly slowest: number;
}

/** The longest time between two successes. */
function longestGap(times: readonly number[], from: number): { readonly ms: number; readonly end: number } {
  let [longest, previous] = [{ ms: 0, end: from }, from];
  for (const time of times.toSorted((a, b) => a - b)) {
    if (time < from) continue;
    if (time - previous > longest.ms) longest = { ms: time - previous, end: time };
    previous = time;
  }
  return longest;
}

function merged(reports: readonly OutageReport[]): Pick<Outage, 'answers' | 'slowest'> {
  const answers: Record<string, number> = {};
  for (const [answer, n] of reports.flatMap((report) => Object.entries(report.answers))) {
    answers[answer] = (answers[answer] ?? 0) + n;
  }
  return { answers, slowest: Math.max(...reports.flatMap(({ slowestMs }) => Object.values(slowestMs))) };
}

async function meet(takeAway: (leader: string) => Promise<() => void>): Promise<Outage> {
  const leader = await cluster.untilHealthy();
  await sleep(steadyMs);
  for (const { load } of all) load.report();
  const startedAt = performance.now();
  const leading = cluster.untilLedByAnother(leader);
  const bringBack = await takeAway(leader);
  const { ledAt, promotedAt, writtenAt } = await leading;
  await Promise.all(all.map(({ http }) => untilReady(http, true)));
  await sleep(steadyMs);
  const report = merged(all.map(({ load }) => load.report()));
  const ends = all.map(({ writes }) => longestGap(writes, startedAt).end);
  const writes = all.flatMap((copy) => copy.writes);
  const withoutWrites = longestGap(writes, startedAt).ms;
  bringBack();
  await cluster.untilHealthy();
  return {
    startedAt,
    endedAt: performance.now(),
    withoutLeader: ledAt - startedAt,
    withoutWrites,
    promotion: promotedAt - ledAt,
    commit: writtenAt - promotedAt,
    firstWrite: Math.max(0, Math.min(...ends) - writtenAt),
    allWrite: Math.max(0, Math.max(...ends) - writtenAt),
    ...report,
  };
}

const all: Copy[] = [];
for (let copy = 0; copy < copies; copy += 1) all.push(await startCopy());
const met: Record<keyof typeof outages, Outage[]> = { killed: [], 'switched over': [], stopped: [] };
const violations = new Set<string>();
try {
  await runRounds();
} catch (error) {
  console.error(error);
  violations.add('the rounds did not end');
}
await Promise.all(all.map(({ http }) => untilReady(http, true)));
for (const { load } of all) {
  await load.stop();
  for (const violation of load.violations) violations.add(violation);
}
const totals = { acknowledged: 0, lost: 0, doubled: 0, reusedIds: 0 };
const users = await allUsers(all[0]?.http ?? '');
for (const { load } of all) {
  const report = load.ledger.compare(users);
  for (const figure of keysOf(totals)) totals[figure] += report[figure];
}
for (const figure of ['lost', 'doubled', 'reusedIds'] as const) {
  if (totals[figure] > 0) violations.add(`${totals[figure]} ${figure}`);
}
printTable();
if (svg !== '') await writeFile(svg, draw());
console.log(JSON.stringify({ rounds, ...totals, violations: [...violations] }));
if (violations.size > 0) process.exitCode = 1;

async function runRounds(): Promise<void> {
  for (let round = 1; round <= rounds; round += 1) {
    for (const [kind, takeAway] of entriesOf(outages)) {
      const outage = await meet(takeAway);
      met[kind].push(outage);
      const { startedAt: _, endedAt: __, answers, ...figures } = outage;
      const rounded = Object.entries(figures).map(([name, ms]) => `${name} ${Math.round(ms)} ms`);
      console.log(`${round} ${kind}: ${rounded.join(', ')}, ${JSON.stringify(answers)}`);
      if (outage.firstWrite > firstWriteLimitMs) {
        violations.add(`${kind}: first write ${Math.round(outage.firstWrite)} ms after the new leader`);
      }
    }
  }
}

/** A table in Markdown with the median and the longest of each time. */
function printTable(): void {
  const columns = {
    withoutLeader: 'No leader',
    withoutWrites: 'No write accepted',
    promotion: 'Promotion',
    commit: 'First commit after that',
    firstWrite: 'First write of a copy after that',
    allWrite: 'All copies write after',
    slowest: 'Slowest response',
  } as const;
  const row = (...cells: readonly string[]) => console.log(`| ${cells.join(' | ')} |`);
  row('Leader', ...Object.values(columns), 'Responses');
  row(...Array.from({ length: keysOf(columns).length + 2 }, () => '---'));
  for (const [kind, found] of entriesOf(met)) {
    const seconds = (ms: number) => (ms / 1000).toFixed(1);
    const figures = keysOf(columns).map((name) => {
      const times = found.map((outage) => outage[name]);
      return `${seconds(median(times))} s (${seconds(Math.max(...times))} s)`;
    });
    const { answers } = merged(found.map((one) => ({ answers: one.answers, slowestMs: {} })));
    const statuses = Object.entries(answers).filter(([answer]) => !answer.startsWith('GET /health'));
    row(kind, ...figures, statuses.map(([answer, n]) => `${answer}: ${n}`).join(', '));
  }
}

/** Charts of the successes per second: the mean of the rounds around each kind of outage, and over the whole run. */
function draw(): string {
  const successes = all.flatMap((copy) => copy.successes);
  const perSecond = (from: number, ms: number) =>
    (successes.filter((at) => at >= from && at < from + ms).length * 1000) / ms;
  const curves = entriesOf(met).map(([kind, found]) => {
    const [x, y]: [number[], number[]] = [[], []];
    for (let second = firstSecond; second < lastSecond; second += 1) {
      const lasting = found.filter(({ startedAt, endedAt }) => startedAt + (second + 1) * 1000 <= endedAt);
      if (lasting.length === 0) break;
      const rates = lasting.map(({ startedAt }) => perSecond(startedAt + second * 1000, 1000));
      x.push(second);
      y.push(rates.reduce((sum, rate) => sum + rate, 0) / rates.length);
    }
    return { line: `leader ${kind}`, x, y };
  });
  const longestFirst = curves.toSorted((a, b) => b.x.length - a.x.length);
  const outagesMet = Object.values(met).flat();
  const start = Math.min(...outagesMet.map(({ startedAt }) => startedAt)) - steadyMs;
  const end = Math.max(...outagesMet.map(({ endedAt }) => endedAt));
  const bins = Math.floor((end - start) / binMs);
  const x = Array.from({ length: bins }, (_, bin) => (bin * binMs) / 60_000);
  const y = x.map((_, bin) => perSecond(start + bin * binMs, binMs));
  const parts = [
    drawChart('Successes per second, by seconds from the outage', longestFirst),
    drawChart('Successes per second, by minutes of the run', [{ line: 'all requests', x, y }]),
  ];
  const placed = parts.map((part, i) => place(i * chartWidth, 0, part));
  return drawSvg('Failover with Patroni', 2 * chartWidth, chartHeight, placed);
}

function keysOf<T extends object>(record: T): (keyof T)[] {
  return Object.keys(record) as (keyof T)[];
}

function entriesOf<K extends string, V>(record: Readonly<Record<K, V>>): [K, V][] {
  return keysOf(record).map((key) => [key, record[key]]);
}
