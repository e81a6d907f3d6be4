import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { startVictim, type Victim } from './service.ts';

const attackers = 200;
const seconds = 20;
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

/** Sets slowhttptest on a service, and tells what its other clients notice of it. */
export async function* measureSlow(): AsyncGenerator<string> {
  const victim = await startVictim();
  try {
    if ((await run(['-h']).catch(() => undefined)) === undefined) {
      yield 'skipped: slowhttptest is not installed';
      return;
    }
    await traffic(victim, 3);
    for (const { what, path, flags } of attacks) {
      const quiet = await traffic(victim, seconds / 2);
      const size = ['-c', String(attackers), '-r', '100', '-l', String(seconds), '-p', '3'];
      const attacker = start([...flags, ...size, '-u', `${victim.url}${path}`]);
      const exited = once(attacker, 'exit');
      await sleep(3_000);
      const during = await traffic(victim, seconds - 5);
      await exited;
      yield `${what}: ${victim.isAlive() ? 'alive' : 'DEAD'}`;
      yield `  quiet  ${shown(quiet)}`;
      yield `  during ${shown(during)}: p99 ${(during.p99 / quiet.p99).toFixed(2)} times the quiet one`;
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
  /** Of each second the 50th and 99th percentile, and of those the median: one bad second is no verdict. */
  readonly p50: number;
  readonly p99: number;
  /** The share of a core that the service took. */
  readonly cpu: number;
}

/** Reads one user at a steady rate, from the moment each request is due, whatever became of the last. */
async function traffic({ url, cpuSeconds }: Victim, forSeconds: number): Promise<Latencies> {
  const agent = new Agent({ keepAlive: true, maxSockets: 20 });
  const windows: number[][] = Array.from({ length: forSeconds }, () => []);
  const under: Promise<void>[] = [];
  let failed = 0;
  const cpuBefore = await cpuSeconds();
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
  const cpu = (await cpuSeconds()) - cpuBefore;
  const median = (share: number) =>
    percentile(
      windows.map((times) => percentile(times, share)),
      0.5,
    );
  return { count: under.length, failed, p50: median(0.5), p99: median(0.99), cpu: cpu / forSeconds };
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
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
