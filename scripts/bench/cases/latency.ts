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
// Enough for all requests that fall due during a pause of about 20 ms. Later ones are counted as unsent.
const connections = 256;

interface Plan {
  readonly name: string;
  readonly title: string;
  /** The share of the peak of each server, so that a slower server gets less load. */
  readonly share: number;
  readonly writes: boolean;
}

const beside = `beside ${writesPerSecond} writes a second`;
const halfWithWrites = { title: `half of the peak, ${beside}`, share: 0.5, writes: true };

export const latency = latencyCase(
  'latency',
  ['Fastify', 'Hono', 'Express', 'Go'],
  [
    { name: 'latency-half', title: 'half of the peak', share: 0.5, writes: false },
    { name: 'latency-most', title: 'nine tenths of the peak', share: 0.9, writes: false },
    { name: 'latency-half-writes', ...halfWithWrites },
    { name: 'latency-most-writes', title: `nine tenths of the peak, ${beside}`, share: 0.9, writes: true },
  ],
);

export const latencyOnSlowDisk = latencyCase(
  'latency-slow',
  ['Fastify', 'Go'],
  [
    {
      name: 'latency-slow',
      ...halfWithWrites,
      title: `${halfWithWrites.title} where a sync takes 2 ms longer`,
    },
  ],
  2,
);

/**
 * The time from when a request is due to its response, at a fixed rate that does not wait for responses. A
 * pause of the server therefore delays all requests that are due during it.
 */
function latencyCase(name: string, peers: readonly PeerName[], plans: readonly Plan[], syncMs = 0): Case {
  const title = 'latency of GET /users/{id}';
  return {
    name,
    title: syncMs > 0 ? `${title} where a sync takes ${syncMs} ms longer` : title,
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
        const places = [];
        for (const runner of runners) {
          report(`${name}: the peak of ${runner.name}`);
          places.push({ ...runner, peak: await peakOf(runner.subject, load) });
        }
        const results: CaseResult[] = [];
        for (const plan of plans) results.push(await measureLatency(title, plan, places, context.rounds));
        return results;
      });
    },
  };
}

async function measureLatency(
  measured: string,
  { name, title, share, writes }: Plan,
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
    title: `${measured} at ${title}`,
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
    bars: writes && share === 0.5 ? [{ theirs: 'Fastify', metric: 'p99 ms', atMost: 0.15 }] : [],
  };
}
