// Offers the service more requests than it can answer, at a fixed rate that does not wait for responses, and
// prints how many succeed, and how late:
//
//   npm run try:overload -- [--connections 2000] [--seconds 4] [--only read,write,mix] [--svg FILE]
//     [--factors 0.5,1,2,3,5] [--max-in-flight 1000] [--folder DIR]
//
// The folder is for the database; on a memory disk the processor is the limit rather than the disk.
// The service and the load each have a core. Capacity is the rate of 64 connections that wait for each response;
// the load is then 0.5 to 5 times that. A separate process sends probes of /health meanwhile; those of the first 1.5 s,
// while the load opens its connections, are counted apart. The exit code is 1 if a request fails or none succeeds.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endWith, readArguments } from './harness/arguments.ts';
import { chartHeight, chartWidth, drawChart, drawSvg, place } from './harness/chart.ts';
import { fail } from './harness/fail.ts';
import { makeDatabase, offer, probe, startServer } from './harness/offer.ts';
import type { LoadReport } from './harness/open-loop.ts';
import type { ProbeReport } from './harness/probe.ts';

/** The result of one offered load. */
interface Point {
  /** Successful responses per second. */
  readonly accepted: number;
  /** Of those, in milliseconds. */
  readonly p99: number;
}

interface Curve {
  readonly name: string;
  /** One for each factor. */
  readonly points: readonly Point[];
}

const values = readArguments({
  connections: 2_000,
  seconds: 4,
  only: 'read,write,mix',
  factors: [0.5, 1, 2, 3, 5],
  folder: tmpdir(),
  svg: '',
  // Passed on to the service.
  'max-in-flight': 1_000,
});
const { connections, factors } = values;
const capacityConnections = 64;
const users = 10_000;
const workloads = { read: 0, write: 10, mix: 2 };
const only = values.only.split(',');
const unknown = only.filter((name) => !Object.hasOwn(workloads, name));
if (unknown.length > 0)
  endWith(`--only names no ${unknown.join(', ')}, but ${Object.keys(workloads).join(', ')}`);

async function measure(name: string, writesInTen: number, folder: string): Promise<Curve> {
  const database = join(folder, `${name}.db`);
  await makeDatabase(database, users);
  const limits = ['--max-in-flight', String(values['max-in-flight'])];
  const server = await startServer(['--database', `sqlite:${database}`, ...limits]);
  try {
    const { port, pid } = server;
    const job = { port, pid, users, writesInTen, warmUpMs: 1_500, measureMs: values.seconds * 1000 };
    const closed = { ...job, connections: capacityConnections };
    // Once to warm up.
    await offer(closed);
    const capacity = (await offer(closed)).accepted;
    console.log(`\n${name}: capacity ${capacity.toLocaleString('en')} requests/s`);
    console.log(
      'offered       | accepted |  % | refused | unsent | failed |   p50 ms |   p99 ms | refused p99 | late ms | CPU % | per CPU s | probe p99 kept |   new | opening kept |   new',
    );
    const points: Point[] = [];
    for (const factor of factors) {
      const rate = Math.round(capacity * factor);
      const [report, probes] = await Promise.all([
        offer({ ...job, rate, connections }),
        probe({ port, seconds: (job.warmUpMs + job.measureMs) / 1000, openingSeconds: job.warmUpMs / 1000 }),
      ]);
      if (report.failed > 0) fail(`${name} ${factor} x: ${report.failed} requests a second failed`);
      if (report.accepted === 0) fail(`${name} ${factor} x: no request succeeded`);
      points.push({ accepted: report.accepted, p99: report.p99 });
      printRow(factor, report, probes, Math.max(...points.map((point) => point.accepted)));
      // So that requests of this load do not count for the next.
      await sleep(500);
    }
    return { name, points };
  } finally {
    await server.end();
  }
}

function printRow(factor: number, report: LoadReport, probes: ProbeReport, peak: number): void {
  const { offered, accepted, refused, unsent, failed, p50, p99, refusedP99, lateMs, cpuShare } = report;
  const share = Math.round((100 * accepted) / peak);
  const columns: readonly [number | string, number][] = [
    [`${factor} x ${offered}`.padEnd(13), 13],
    [accepted, 8],
    [share, 2],
    [refused, 7],
    [unsent, 6],
    [failed, 6],
    [p50, 8],
    [p99, 8],
    [refusedP99, 11],
    [lateMs, 7],
    [Math.round(100 * cpuShare), 5],
    [Math.round(accepted / cpuShare), 9],
    [probes.kept.p99 ?? 'none', 14],
    [probes.fresh.p99 ?? 'none', 5],
    [probes.opening.kept.p99 ?? 'none', 12],
    [probes.opening.fresh.p99 ?? 'none', 5],
  ];
  console.log(columns.map(([value, width]) => String(value).padStart(width)).join(' | '));
}

/** The share of the peak that succeeds, and its latency, over the offered load. */
function draw(curves: readonly Curve[]): string {
  const x = factors.map((factor) => `${factor}×`);
  const lines = (value: (point: Point, peak: number) => number) =>
    curves.map(({ name, points }) => {
      const peak = Math.max(...points.map(({ accepted }) => accepted));
      return { line: name, x, y: points.map((point) => value(point, peak)) };
    });
  const shares = drawChart(
    'Answered, % of the peak, over the offered load',
    lines(({ accepted }, peak) => (100 * accepted) / peak),
  );
  const delays = drawChart(
    'p99 of those answered, ms',
    lines(({ p99 }) => p99),
  );
  const title = `Requests answered and their p99 at up to ${Math.max(...factors)} times the capacity`;
  const parts = [place(0, 0, shares), place(chartWidth, 0, delays)];
  return drawSvg(title, 2 * chartWidth, chartHeight, parts);
}

const folder = await mkdtemp(join(values.folder, 'overload-'));
try {
  const curves: Curve[] = [];
  for (const [name, writesInTen] of Object.entries(workloads)) {
    if (only.includes(name)) curves.push(await measure(name, writesInTen, folder));
  }
  if (values.svg !== '') await writeFile(values.svg, draw(curves));
} finally {
  await rm(folder, { recursive: true });
}
