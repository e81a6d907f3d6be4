import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { offer } from '../../harness/offer.ts';
import { shuffle } from '../../harness/statistics.ts';
import { dataFile, spreadIds } from '../data.ts';
import { type PeerName, peerOver, serviceOver } from '../peers.ts';
import { report } from '../progress.ts';
import type { Case, CaseResult } from '../result.ts';
import { peakOf, type Runner, withRunners } from '../turns.ts';

const users = 100_000;
const peers: readonly PeerName[] = ['Fastify', 'Hono', 'Express', 'Go'];
const writesPerSecond = 200;
const turnMs = 1_500;
// By then all connections are open, and the load's own code is compiled.
const warmUpMs = 750;
// Enough for all requests that fall due during a pause of some 20 ms. Later ones are counted as unsent.
const connections = 256;

// The share of the peak of each server, so that a slower server gets less load.
const plans = [
  { name: 'latency-half', title: 'half of the peak', share: 0.5, writes: false },
  { name: 'latency-most', title: 'nine tenths of the peak', share: 0.9, writes: false },
  { name: 'latency-half-writes', title: 'half of the peak', share: 0.5, writes: true },
  { name: 'latency-most-writes', title: 'nine tenths of the peak', share: 0.9, writes: true },
];

/**
 * The time from when a request is due to its response, at a fixed rate that does not wait for responses. A
 * pause of the server therefore delays all requests that are due during it.
 */
export const latency: Case = {
  name: 'latency',
  title: 'latency of GET /users/{id}',
  async run(context) {
    const data = await dataFile(context.dataFolder, users);
    const over = (who: string) => {
      const file = join(context.folder, `latency-${who}.db`);
      cpSync(data, file);
      return file;
    };
    const contestants = [
      serviceOver(over('service')),
      ...peers.flatMap((name) => peerOver(name, over(name), context.folder)),
    ];
    return await withRunners(contestants, context.folder, async (runners) => {
      const load = { connections: 32, paths: spreadIds(users, 1_000).map((id) => `/users/${id}`) };
      const places = [];
      for (const { name, subject } of runners) {
        report(`latency: the peak of ${name}`);
        places.push({ name, subject, peak: await peakOf(subject, load) });
      }
      const results: CaseResult[] = [];
      for (const plan of plans) results.push(await measureLatency(plan, places, context.rounds));
      return results;
    });
  },
};

async function measureLatency(
  { name, title, share, writes }: (typeof plans)[number],
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
    title: `${latency.title} at ${title}${writes ? `, beside ${writesPerSecond} writes a second` : ''}`,
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
