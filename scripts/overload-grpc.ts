// Offers the gRPC API more calls than it can answer, by h2load, and prints how many succeed, and how late:
//
//   npm run try:overload-grpc -- [--connections 40] [--seconds 4] [--factors 1,2,3,5] [--max-in-flight 1000]
//
// Capacity is the rate of 8 connections with 16 calls each that wait for their responses. A connection has as many
// calls under way as the service allows; further calls wait in the client, as with any client. h2load does not
// read the gRPC status: the counts of calls by status come from the metrics of the service. The exit code is 1 if a
// call fails or none succeeds.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type ServiceProcess, startProcess } from '../test/kit/process.ts';
import { pin } from './bench/cores.ts';
import { readArguments } from './harness/arguments.ts';
import { fail, failIfEnded } from './harness/fail.ts';
import { post } from './harness/post.ts';
import { cpuSecondsOf } from './harness/proc.ts';
import { percentile } from './harness/statistics.ts';

const values = readArguments({ connections: 40, seconds: 4, factors: [1, 2, 3, 5], 'max-in-flight': 1_000 });
const { connections, seconds } = values;
const run = promisify(execFile);
const ends: (() => unknown)[] = [];
const after = (end: () => unknown) => ends.unshift(end);

const folder = await mkdtemp(join(tmpdir(), 'overload-'));
after(() => rm(folder, { recursive: true }));
const [body, logFile] = [join(folder, 'body'), join(folder, 'log')];
// GetUserRequest with id 1, framed.
await writeFile(body, Buffer.from([0, 0, 0, 0, 2, 8, 1]));

/** Calls answered, refused and failed so far. */
async function counts(http: string): Promise<{ accepted: number; refused: number; failed: number }> {
  const text = await (await fetch(`${http}/metrics`)).text();
  const found = { accepted: 0, refused: 0, failed: 0 };
  for (const [, status, count] of text.matchAll(/_total\{face="grpc",.*,status="(\d+)"\} (\d+)/g)) {
    // h2load cancels (1) the calls that are under way when its time is over.
    if (status === '1') continue;
    found[status === '0' ? 'accepted' : status === '8' ? 'refused' : 'failed'] += Number(count);
  }
  return found;
}

interface Offer {
  readonly connections: number;
  readonly streams: number;
  /** Calls a second of all connections; without it, as many as are answered. */
  readonly rate?: number;
}

async function offer({ http, grpc, child }: ServiceProcess, offered: Offer) {
  const { connections, streams, rate } = offered;
  await rm(logFile, { force: true });
  const before = await counts(http);
  const cpuBefore = cpuSecondsOf(child.pid);
  const load = ['-c', String(connections), '-m', String(streams), '-D', String(seconds), '-d', body];
  const rated = rate === undefined ? [] : ['--rps', String(Math.max(1, Math.round(rate / connections)))];
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers'];
  const { command, args } = pin('load', 'h2load', [
    ...[...load, ...rated, ...headers, '--log-file', logFile],
    `http://${grpc}/Users/GetUser`,
  ]);
  await run(command, args);
  const cpu = cpuSecondsOf(child.pid) - cpuBefore;
  const afterwards = await counts(http);
  // When it began, the status, how long it took in microseconds.
  const log = (await readFile(logFile, 'utf8')).trim().split('\n');
  const times = log.map((line) => Number(line.split('\t')[2]) / 1000);
  const perSecond = (count: number) => Math.round(count / seconds);
  return {
    accepted: perSecond(afterwards.accepted - before.accepted),
    refused: perSecond(afterwards.refused - before.refused),
    failed: afterwards.failed - before.failed + log.filter((line) => line.split('\t')[1] !== '200').length,
    // Others on the machine take some of the processors.
    cpuShare: cpu / seconds,
    perCpuSecond: (afterwards.accepted - before.accepted) / cpu,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
  };
}

try {
  const limits = ['--max-in-flight', String(values['max-in-flight'])];
  const service = await startProcess({ after }, ['--database', `sqlite:${folder}/users.db`, ...limits]);
  await post(`${service.http}/users`, { name: 'Ada' });
  const closed = { connections: 8, streams: 16 };
  // Once to warm up.
  await offer(service, closed);
  const capacity = (await offer(service, closed)).accepted;
  console.log(`capacity ${capacity} calls/s`);
  console.log('offered       | accepted |   % | refused | failed |   p50 ms |   p99 ms | CPU % | per CPU s');
  let peak = capacity;
  for (const factor of values.factors) {
    const rate = capacity * factor;
    const report = await offer(service, { connections, streams: 250, rate });
    const { accepted, refused, failed, p50, p99, cpuShare, perCpuSecond } = report;
    if (failed > 0) fail(`${factor} x: ${failed} calls failed`);
    if (accepted === 0) fail(`${factor} x: no call succeeded`);
    peak = Math.max(peak, accepted);
    const columns: readonly [number | string, number][] = [
      [`${factor} x ${Math.round(rate)}`.padEnd(13), 13],
      [accepted, 8],
      [Math.round((100 * accepted) / peak), 3],
      [refused, 7],
      [failed, 6],
      [p50.toFixed(1), 8],
      [p99.toFixed(1), 8],
      [Math.round(100 * cpuShare), 5],
      [Math.round(perCpuSecond), 9],
    ];
    console.log(columns.map(([value, width]) => String(value).padStart(width)).join(' | '));
  }
  failIfEnded('the service', service.child);
} finally {
  for (const end of ends) await end();
}
