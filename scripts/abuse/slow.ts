import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, percentile } from '../harness/statistics.ts';
import { startVictim, type Victim } from './service.ts';

const attackers = 200;
// In turns, so that other work on the machine affects both.
const rounds = 3;
const quietSeconds = 6;
const attackSeconds = 8;
// Until all attackers are there, and until they have gone.
const marginSeconds = 3;
const perSecond = 200;

interface Attack {
  readonly what: string;
  readonly path: string;
  readonly flags: readonly string[];
}

const attacks: readonly Attack[] = [
  { what: 'slow heads (-H)', path: '/users/1', flags: ['-H', '-i', '1', '-x', '24'] },
  {
    what: 'slow bodies (-B)',
    path: '/users',
    flags: ['-B', '-i', '1', '-s', '8192', '-x', '10', '-t', 'POST', '-f', 'application/json'],
  },
  { what: 'ranges (-R)', path: '/long.bin', flags: ['-R', '-a', '10', '-b', '3000', '-t', 'GET'] },
  {
    what: 'slow reads (-X)',
    path: '/long.bin',
    flags: ['-X', '-w', '512', '-y', '1024', '-n', '5', '-z', '32', '-k', '3'],
  },
];

/** Runs slowhttptest against a service, and reports the latency of other clients. */
export async function* measureSlow(): AsyncGenerator<string> {
  const victim = await startVictim();
  try {
    if ((await run(['-h']).catch(() => undefined)) === undefined) {
      yield 'skipped: slowhttptest is not installed';
      return;
    }
    await traffic(victim, 3);
    for (const { what, path, flags } of attacks) {
      const quiet: Latencies[] = [];
      const during: Latencies[] = [];
      for (let round = 0; round < rounds; round += 1) {
        quiet.push(await traffic(victim, quietSeconds));
        const seconds = String(marginSeconds + attackSeconds + marginSeconds);
        const size = ['-c', String(attackers), '-r', '100', '-l', seconds, '-p', '3'];
        const exited = once(start([...flags, ...size, '-u', `${victim.url}${path}`]), 'exit');
        await sleep(marginSeconds * 1_000);
        during.push(await traffic(victim, attackSeconds));
        await exited;
      }
      const times = median(during.map(({ p99 }, round) => p99 / (quiet[round]?.p99 ?? Number.NaN)));
      yield `${what}: ${victim.isAlive() ? 'alive' : 'DEAD'}`;
      yield `  quiet  ${shown(medians(quiet))}`;
      yield `  during ${shown(medians(during))}: p99 ${times.toFixed(2)} times the quiet one`;
    }
  } finally {
    await victim.end();
  }
}

function start(args: readonly string[]): ChildProcess {
  return spawn('slowhttptest', args, { stdio: 'ignore' });
}

async function run(args: readonly string[]): Promise<unknown> {
  return await once(start(args), 'exit');
}

interface Latencies {
  readonly count: number;
  readonly failed: number;
  /** The median of the percentiles of each second, so that one bad second does not decide. */
  readonly p50: number;
  readonly p99: number;
  /** The share of a core that the service took. */
  readonly cpu: number;
}

/** Reads one user at a steady rate, without waiting for responses. Latency counts from when a request was due. */
async function traffic({ url, cpuSeconds }: Victim, forSeconds: number): Promise<Latencies> {
  const agent = new Agent({ keepAlive: true, maxSockets: 20 });
  const windows: number[][] = Array.from({ length: forSeconds }, () => []);
  const under: Promise<void>[] = [];
  let failed = 0;
  const cpuBefore = cpuSeconds();
  const startedAt = performance.now();
  for (let i = 0; i < forSeconds * perSecond; i += 1) {
    const dueAt = startedAt + (i * 1_000) / perSecond;
    const wait = dueAt - performance.now();
    if (wait > 0) await sleep(wait);
    // A timer may be early by a fraction of a millisecond.
    const from = Math.min(dueAt, performance.now());
    const answered = read(`${url}/users/1`, agent).then((ok) => {
      windows[Math.floor(i / perSecond)]?.push(performance.now() - from);
      if (!ok) failed += 1;
    });
    under.push(answered);
  }
  await Promise.all(under);
  agent.destroy();
  const cpu = cpuSeconds() - cpuBefore;
  const typical = (share: number) => median(windows.map((times) => percentile(times, share)));
  return { count: under.length, failed, p50: typical(0.5), p99: typical(0.99), cpu: cpu / forSeconds };
}

/** Of several rounds: the sums of the counts, the medians of the rest. */
function medians(all: readonly Latencies[]): Latencies {
  const of = (name: keyof Latencies) => all.map((one) => one[name]);
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  const [p50, p99, cpu] = [median(of('p50')), median(of('p99')), median(of('cpu'))];
  return { count: sum(of('count')), failed: sum(of('failed')), p50, p99, cpu };
}

function read(url: string, agent: Agent): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(url, { agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode === 200));
    });
    request.on('error', () => resolve(false));
  });
}

function shown({ count, failed, p50, p99, cpu }: Latencies): string {
  const times = `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
  return `${count} requests, ${failed} failed, ${times}, service ${(cpu * 100).toFixed()} % of a core`;
}
