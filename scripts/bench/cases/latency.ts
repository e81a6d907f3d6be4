import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { offer } from '../../harness/offer.ts';
import { slowSyncs } from '../../harness/slow-syncs.ts';
import { shuffle } from '../../harness/statistics.ts';
import { commandExists } from '../cores.ts';
import { dataFile, spreadIds } from '../data.ts';
import { type PeerName, peerOver, serviceOver } from '../peers.ts';
import { report } from '../progress.ts';
import { type Case, type CaseResult, skipped } from '../result.ts';
import { behind } from '../subject.ts';
import { peakOf, type Runner, withRunners } from '../turns.ts';

const users = 100_000;
const writesPerSecond = 200;
const turnMs = 1_500;
// By then all connections are open, and the load's own code is compiled.
const warmUpMs = 750;
// Enough for all requests that fall due during a pause of about 20 ms. Later ones wait, and their time counts.
const connections = 256;

interface Plan {
  readonly name: string;
  /** The rate for all servers, as a share of the peak of the slowest one. */
  readonly share: 'half' | 'nine tenths';
  readonly writes: boolean;
}

const half = { name: 'latency-half', share: 'half', writes: false } as const;
const most = { name: 'latency-most', share: 'nine tenths', writes: false } as const;
const halfWithWrites = { name: 'latency-half-writes', share: 'half', writes: true } as const;
const mostWithWrites = { name: 'latency-most-writes', share: 'nine tenths', writes: true } as const;

export const latency = latencyCase(
  'latency',
  ['Fastify', 'Hono', 'Express', 'Go'],
  [half, most, halfWithWrites, mostWithWrites],
);

export const latencyOnSlowDisk = latencyCase(
  'latency-slow',
  ['Fastify', 'Hono'],
  [{ ...halfWithWrites, name: 'latency-slow' }],
  2,
);

/**
 * The time from when a request is due to its response, at a fixed rate that does not wait for responses. A
 * pause of the server therefore delays all requests that are due during it.
 */
function latencyCase(name: string, peers: readonly PeerName[], plans: readonly Plan[], syncMs = 0): Case {
  const slow = syncMs > 0 ? ` where a sync takes ${syncMs} ms longer` : '';
  const title = `latency of GET /users/{id}${slow}`;
  return {
    name,
    title,
    async run(context) {
      if (syncMs > 0 && !commandExists('strace')) return skipped(name, title, 'strace is missing');
      const data = await dataFile(context.dataFolder, users);
      const over = (who: string) => {
        const file = join(context.folder, `${name}-${who}.db`);
        cpSync(data, file);
        return file;
      };
      const contestants = [
        serviceOver(over('service')),
        ...peers.flatMap((peer) => peerOver(peer, over(peer), context.folder)),
      ].map((one) => ({ ...one, program: behind(slowSyncs(syncMs), one.program) }));
      return await withRunners(contestants, context.folder, async (runners) => {
        const load = { connections: 32, paths: spreadIds(users, 1_000).map((id) => `/users/${id}`) };
        const peaks: number[] = [];
        for (const { name: who, subject } of runners) {
          report(`${name}: the peak of ${who}`);
          peaks.push(await peakOf(subject, load));
        }
        const results: CaseResult[] = [];
        for (const plan of plans) {
          const rate = Math.round(Math.min(...peaks) * (plan.share === 'half' ? 0.5 : 0.9));
          results.push(await measureLatency(title, plan, rate, runners, context.rounds));
        }
        return results;
      });
    },
  };
}

async function measureLatency(
  measured: string,
  { name, share, writes }: Plan,
  rate: number,
  runners: readonly Runner[],
  rounds: number,
): Promise<CaseResult> {
  const all = runners.map((runner) => ({ ...runner, reports: [] as Awaited<ReturnType<typeof offer>>[] }));
  for (let round = 0; round < rounds; round += 1) {
    report(`${name}: round ${round + 1} of ${rounds}`);
    for (const { subject, reports } of shuffle(all)) {
      const job = {
        port: Number(new URL(subject.http).port),
        pid: subject.pid,
        connections,
        waits: true,
        warmUpMs,
        measureMs: turnMs,
        users,
      };
      const writesBeside = writes ? writesPerSecond : 0;
      const reads = await offer({ ...job, rate, writesInTen: 0, writesBeside });
      subject.emptyLog();
      if (reads.failed > 0) throw new Error(`${name}: ${reads.failed} requests a second failed`);
      reports.push(reads);
    }
  }
  return {
    name,
    title: `${measured}, at ${share} of the lowest peak${writes ? `, beside ${writesPerSecond} writes a second` : ''}`,
    compare: ['p99 ms'],
    series: all.map(({ name: who, reports }) => ({
      name: who,
      values: {
        'p50 ms': reports.map(({ p50 }) => p50),
        'p99 ms': reports.map(({ p99 }) => p99),
        'p999 ms': reports.map(({ p999 }) => p999),
        'offered/s': reports.map(({ offered }) => offered),
        'late ms': reports.map(({ lateMs }) => lateMs),
      },
    })),
    bars: writes && share === 'half' ? [{ theirs: 'Fastify', metric: 'p99 ms', atMost: 0.15 }] : [],
  };
}
