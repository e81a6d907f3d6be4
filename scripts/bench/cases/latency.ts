import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { offer } from '../../harness/offer.ts';
import { slowSyncs } from '../../harness/slow-syncs.ts';
import { commandExists } from '../cores.ts';
import { dataFile, spreadIds } from '../data.ts';
import { type PeerName, peerOver, serviceOver } from '../peers.ts';
import { report } from '../progress.ts';
import type { Bar, Case, CaseResult } from '../result.ts';
import { shuffle } from '../statistics.ts';
import { behind } from '../subject.ts';
import { peakOf, type Runner, withRunners } from '../turns.ts';

const users = 100_000;
const peers: readonly PeerName[] = ['Fastify', 'Hono', 'Express', 'Go'];
const writesPerSecond = 200;
const turnMs = 1_500;
// By then all connections are open, and the load's own code is compiled.
const warmUpMs = 750;
// Enough for all requests that fall due during a pause of some 20 ms. Later ones are counted as unsent.
const connections = 256;

interface Plan {
  readonly name: string;
  readonly title: string;
  /** The share of the peak of each server, so that a slower server gets less load. */
  readonly share: number;
  readonly writes: boolean;
  readonly bars?: readonly Bar[];
}

/**
 * The time from when a request is due to its response, at a fixed rate that does not wait for responses. A
 * pause of the server therefore delays all requests that are due during it. Each sync takes `syncMs` longer.
 */
function latencyCase(name: string, plans: readonly Plan[], syncMs: number): Case {
  const title = `latency of GET /users/{id}${syncMs > 0 ? ` where a sync takes ${syncMs} ms longer` : ''}`;
  return {
    name,
    title,
    async run(context) {
      if (syncMs > 0 && !commandExists('strace')) {
        return [{ name, title, series: [], compare: [], notes: ['not run: strace is missing'] }];
      }
      const data = await dataFile(context.dataFolder, users);
      const over = (who: string) => {
        const file = join(context.folder, `${name}-${who}.db`);
        cpSync(data, file);
        return file;
      };
      const contestants = [
        serviceOver(over('service')),
        ...peers.flatMap((who) => peerOver(who, over(who), context.folder)),
      ].map((one) => ({ ...one, program: behind(slowSyncs(syncMs), one.program) }));
      return await withRunners(contestants, context.folder, async (runners) => {
        const load = { connections: 32, paths: spreadIds(users, 1_000).map((id) => `/users/${id}`) };
        const places = [];
        for (const { name: who, subject } of runners) {
          report(`${name}: the peak of ${who}`);
          places.push({ name: who, subject, peak: await peakOf(subject, load) });
        }
        const results: CaseResult[] = [];
        for (const plan of plans) results.push(await measureLatency(plan, places, context.rounds));
        return results;
      });
    },
  };
}

const half = 'latency of GET /users/{id} at half of the peak';
const most = 'latency of GET /users/{id} at nine tenths of the peak';
const beside = `beside ${writesPerSecond} writes a second`;
const bars: Plan['bars'] = [{ theirs: 'Fastify', metric: 'p99 ms', atMost: 0.15 }];

export const latency = latencyCase(
  'latency',
  [
    { name: 'latency-half', title: half, share: 0.5, writes: false },
    { name: 'latency-most', title: most, share: 0.9, writes: false },
    { name: 'latency-half-writes', title: `${half}, ${beside}`, share: 0.5, writes: true, bars },
    { name: 'latency-most-writes', title: `${most}, ${beside}`, share: 0.9, writes: true },
  ],
  0,
);

// Where a sync costs next to nothing, a server that waits for it in its event loop hardly delays its reads.
export const latencyOnSlowDisk = latencyCase(
  'latency-slow',
  [
    {
      name: 'latency-half-writes-slow',
      title: `${half}, ${beside} whose syncs take 2 ms longer`,
      share: 0.5,
      writes: true,
      bars,
    },
  ],
  2,
);

async function measureLatency(
  { name, title, share, writes, bars = [] }: Plan,
  places: readonly (Runner & { readonly peak: number })[],
  rounds: number,
): Promise<CaseResult> {
  const all = places.map((place) => ({ ...place, reports: [] as Awaited<ReturnType<typeof offer>>[] }));
  for (let round = 0; round < rounds; round += 1) {
    report(`${name}: round ${round + 1} of ${rounds}`);
    for (const { subject, peak, reports } of shuffle(all)) {
      const job = {
        port: Number(new URL(subject.http).port),
        pid: subject.pid,
        connections,
        warmUpMs,
        measureMs: turnMs,
        users,
      };
      const rate = Math.round(peak * share);
      const writesBeside = writes ? writesPerSecond : 0;
      const reads = await offer({ ...job, rate, writesInTen: 0, writesBeside });
      subject.emptyLog();
      if (reads.failed > 0) throw new Error(`${name}: ${reads.failed} requests a second failed`);
      reports.push(reads);
    }
  }
  return {
    name,
    title,
    compare: ['p99 ms'],
    series: all.map(({ name: who, reports }) => ({
      name: who,
      values: {
        'p50 ms': reports.map(({ p50 }) => p50),
        'p99 ms': reports.map(({ p99 }) => p99),
        'p999 ms': reports.map(({ p999 }) => p999),
        'offered/s': reports.map(({ offered }) => offered),
        'late ms': reports.map(({ lateMs }) => lateMs),
        'unsent/s': reports.map(({ unsent }) => unsent),
      },
    })),
    bars,
  };
}
