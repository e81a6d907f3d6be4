// Sends friendly and hostile traffic to both APIs for an hour, and shows whether the service grows:
//
//   npm run try:soak -- [--minutes 60] [--picture scripts/soak.svg]
//
// A third of the clients are hostile: they open a connection for each request, abort bodies and calls, read slowly,
// or follow the changes and leave. The rate is adjusted so that the event loop is busy half of the time.
// Each minute prints a line. The exit code is 1 if the heap grew in the last two thirds of the time, if the service
// ended, failed inside, or did not respond.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Random } from '../src/conformance/random.ts';
import { createService } from '../src/service/service.ts';
import { getUser, usersClient } from '../test/kit/grpc.ts';
import { endWith, readArguments } from './harness/arguments.ts';
import { chartHeight, chartWidth, drawChart, drawSvg, place } from './harness/chart.ts';
import { fail } from './harness/fail.ts';
import { percentile } from './harness/statistics.ts';

const given = readArguments({ minutes: 60, picture: '', serve: '' });
// A line through fewer points has no interval.
if (given.minutes < 4) endWith('--minutes must be at least 4');
const samplesPerMinute = 6;
const busyShare = 0.5;
const mostAtOnce = 500;
const mostUsers = 1_000;
// Longer than any request of the clients.
const patienceMs = 30_000;
/** Outcomes that no client should get. */
const failures = /^(?:HTTP 500|gRPC (?:2|13))$/;
const mib = 2 ** 20;
const measures = ['heap', 'rss', 'descriptors', 'handles', 'busy', 'p99'] as const;
type Sample = Record<(typeof measures)[number], number>;

/** Runs the service as a child process, which responds to each message with a sample. */
async function serve(database: string): Promise<void> {
  const service = createService({ database, port: 0, grpcPort: 0, changesKept: 10_000 });
  process.send?.(await service.listen());
  let last = performance.eventLoopUtilization();
  process.on('message', () => {
    const busy = performance.eventLoopUtilization(last).utilization;
    globalThis.gc?.();
    const { heapUsed, rss } = process.memoryUsage();
    const descriptors = readdirSync('/proc/self/fd').length;
    const handles = process.getActiveResourcesInfo().length;
    last = performance.eventLoopUtilization();
    process.send?.({ heap: heapUsed / mib, rss: rss / mib, descriptors, handles, busy });
  });
  process.on('disconnect', () => service.close());
}

/** The clients of a service. `act` does one random thing of a friendly or a hostile client. */
function createClients(http: string, grpc: string) {
  const random = new Random(1);
  const kept = new Agent({ keepAlive: true });
  const noOwner = { after: () => undefined };
  const calls = usersClient(noOwner, grpc);
  const users: number[] = [];
  const outcomes = new Map<string, number>();
  const count = (outcome: string) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  const user = () => users[random.below(users.length)] ?? 1;
  const name = () => `user ${random.below(1_000)}`;

  const open = (method: string, path: string, agent: Agent | false, headers = {}) =>
    request(http + path, { method, agent, headers: { 'content-type': 'application/json', ...headers } });
  const send = async (method: string, path: string, body?: object, agent: Agent | false = kept) => {
    const sent = open(method, path, agent).end(body && JSON.stringify(body));
    const [response]: IncomingMessage[] = await once(sent, 'response');
    count(`HTTP ${response?.statusCode}`);
    return ((await response?.setEncoding('utf8').toArray()) ?? []).join('');
  };
  const call = async (client: typeof calls, patienceMs: number) => {
    const { code } = await getUser(client, user(), { deadline: Date.now() + patienceMs });
    count(`gRPC ${code}`);
  };
  const linger = async (path: string, accept: string, isReading: boolean) => {
    const sent = open('GET', path, false, { accept });
    sent.on('response', (response) => isReading && response.resume().on('error', () => undefined)).end();
    sent.on('error', () => undefined);
    await sleep(random.below(10_000));
    sent.destroy();
  };
  const friendly: readonly (() => Promise<unknown>)[] = [
    () => send('GET', `/users/${user()}`),
    () => send('GET', '/users?limit=20&sort=name'),
    () => send('PATCH', `/users/${user()}`, { name: name() }),
    () => call(calls, 10_000),
    async () => {
      users.push(JSON.parse(await send('POST', '/users', { name: name() })).id);
      // The first user keeps the long list for slow readers.
      if (users.length > mostUsers) await send('DELETE', `/users/${users.splice(1, 1)}`);
    },
  ];
  const hostile: typeof friendly = [
    () => send('GET', `/users/${user()}`, undefined, false),
    async () => {
      const sent = open('POST', '/users', false, { 'content-length': 1_000 });
      sent.on('error', () => undefined).write('{"name":"half');
      await sleep(random.below(50));
      sent.destroy();
    },
    () => call(calls, random.below(4)),
    async () => {
      const own = usersClient(noOwner, grpc);
      await promisify(own.waitForReady.bind(own))(Date.now() + 10_000);
      const ended = call(own, 10_000);
      if (random.below(2) === 0) await ended;
      own.close();
    },
    () => linger(`/users/${users[0]}/posts`, 'application/json', false),
    () => linger('/changes', 'text/event-stream', true),
  ];
  const fill = async () => {
    for (let i = 0; i < 100; i += 1) await friendly[4]?.();
    const post = { title: 'long', body: 'x'.repeat(10_000) };
    for (let i = 0; i < 500; i += 1) await send('POST', `/users/${users[0]}/posts`, post);
  };
  const act = async (latencies: number[]) => {
    // Long requests are rare, so that as many end as begin.
    if (random.below(3) === 0) return hostile[random.below(random.below(10) === 0 ? hostile.length : 4)]?.();
    const since = performance.now();
    await friendly[random.below(friendly.length)]?.();
    return latencies.push(performance.now() - since);
  };
  return { fill, act, count, outcomes };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The slope of a line through the values, for each step, and half of its 95 % interval. */
function slopeOf(y: readonly number[]): readonly [slope: number, margin: number] {
  const x = y.map((_, i) => i - (y.length - 1) / 2);
  const spread = mean(x.map((value) => value ** 2));
  const slope = mean(y.map((value, i) => value * (x[i] ?? 0))) / spread;
  const rest = mean(y.map((value, i) => (value - mean(y) - slope * (x[i] ?? 0)) ** 2));
  return [slope, 2.03 * Math.sqrt(rest / spread / (y.length - 2))];
}

function draw(all: readonly Sample[]): string {
  const x = all.map((_, i) => i + 1);
  const line = (what: keyof Sample, unit = 1) => ({ line: what, x, y: all.map((one) => one[what] * unit) });
  const charts = [
    drawChart('Memory in MiB, by minute', [line('heap'), line('rss')]),
    drawChart('Descriptors and handles', [line('descriptors'), line('handles')]),
    drawChart('99th percentile of latency in ms', [line('p99')]),
    drawChart('Event loop busy, in %', [line('busy', 100)]),
  ];
  const placed = charts.map((one, i) => place((i % 2) * chartWidth, Math.floor(i / 2) * chartHeight, one));
  return drawSvg('The service under hostile traffic', 2 * chartWidth, 2 * chartHeight, placed);
}

async function soak(minutes: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'soak-'));
  const args = ['--serve', `sqlite:${join(folder, 'users.db')}`];
  const child = fork(import.meta.filename, args, { execArgv: ['--expose-gc'] });
  const exited = once(child, 'exit');
  const ended = exited.then(([code, signal]) => {
    throw new Error(`the service ended by itself with ${code ?? signal}`);
  });
  const message = () => Promise.race([once(child, 'message'), ended]);
  const [{ http, grpc }] = await message();
  const { fill, act, count, outcomes } = createClients(http, grpc);
  await fill();
  let [rate, atOnce, owed] = [50, 0, 0];
  const history: Sample[] = [];
  for (let minute = 1; minute <= minutes; minute += 1) {
    const latencies: number[] = [];
    const samples: Sample[] = [];
    while (samples.length < samplesPerMinute) {
      const endsAt = performance.now() + 60_000 / samplesPerMinute;
      for (let last = performance.now(); last < endsAt; ) {
        await sleep(20);
        owed += ((performance.now() - last) * rate) / 1_000;
        last = performance.now();
        for (; owed >= 1; owed -= 1) {
          if (atOnce >= mostAtOnce) continue;
          atOnce += 1;
          const ended = act(latencies).catch((error) => count(error.code ?? error.message));
          ended.finally(() => (atOnce -= 1));
        }
      }
      child.send('sample');
      const [sample]: Sample[] = await message();
      if (sample === undefined) break;
      samples.push({ ...sample, p99: percentile(latencies, 0.99) || 0 });
      rate *= Math.min(Math.max(busyShare / sample.busy, 0.8), 1.25);
    }
    const means = measures.map((what) => [what, mean(samples.map((one) => one[what]))] as const);
    history.push({ ...(Object.fromEntries(means) as Sample), p99: samples.at(-1)?.p99 ?? 0 });
    const shown = measures.map((what) => `${what} ${history.at(-1)?.[what].toFixed(2)}`);
    console.log(`minute ${minute}: ${shown.join(', ')}, ${Math.round(rate)} requests/s`);
  }
  for (const end = performance.now() + patienceMs; atOnce > 0 && performance.now() < end; ) await sleep(100);
  if (atOnce > 0) fail(`${atOnce} requests had no response`);
  console.log([...outcomes].map(([outcome, n]) => `${outcome}: ${n}`).join(', '));
  for (const [outcome, n] of outcomes) if (failures.test(outcome)) fail(`${n} times ${outcome}`);
  for (const what of measures) {
    const [slope, margin] = slopeOf(history.slice(Math.floor(minutes / 3)).map((one) => one[what]));
    console.log(`${what}: ${slope.toFixed(4)} ± ${margin.toFixed(4)} a minute`);
    if (what === 'heap' && slope > margin) fail('the heap grew');
  }
  if (given.picture !== '') writeFileSync(given.picture, draw(history));
  child.disconnect();
  const [code, signal] = await exited;
  if (code !== 0) fail(`the service ended with ${code ?? signal}`);
  rmSync(folder, { recursive: true });
}

await (given.serve === '' ? soak(given.minutes) : serve(given.serve));
