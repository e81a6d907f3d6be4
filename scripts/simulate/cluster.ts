import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openForwarder } from '../../test/kit/forwarder.ts';
import { freePorts } from '../../test/kit/free-ports.ts';
import { usersClient } from '../../test/kit/grpc.ts';
import { noPgBouncer, startPgBouncer } from '../../test/kit/pgbouncer.ts';
import { startPostgres } from '../../test/kit/postgres.ts';
import { isOk, RestartableService } from '../harness/process.ts';
import type { Plan } from './plan.ts';

export const run = promisify(execFile);
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export type Cluster = Awaited<ReturnType<typeof startCluster>>;
/** A process, and where clients reach it. */
export type Node = Cluster['nodes'][number];

// libfaketime reads the offset of the clock from a file.
const [faketime] = globSync('/usr/lib/{*-linux-gnu/,}faketime/libfaketimeMT.so.1');

/** Starts what a plan names. The names of kept files begin with `kept`. The stack closes everything. */
export async function startCluster(plan: Plan, stack: AsyncDisposableStack, keep?: string, defect?: string) {
  const { store, seed } = plan;
  const folder = await mkdtemp(join(tmpdir(), `simulate-${seed}-`));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const kept = join(keep ?? folder, [seed, ...(defect?.split(' ') ?? [])].join('-'));
  const postgres = store.kind === 'postgres' ? await openPostgres(store, stack) : undefined;
  const data = join(folder, 'data');
  await mkdir(data);
  if (store.smallDisk && process.getuid?.() === 0) {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'simulate', data]);
    stack.defer(async () => void (await run('umount', ['-l', data])));
  }
  const clock = join(folder, 'clock');
  await writeFile(clock, '+0s\n');
  const fakeClock = { FAKETIME_NO_CACHE: '1', DONT_FAKE_MONOTONIC: '1', FAKETIME_TIMESTAMP_FILE: clock };
  const env = faketime ? { LD_PRELOAD: faketime, ...fakeClock } : {};
  const database = store.kind === 'sqlite' ? `sqlite:${join(data, 'users.db')}` : 'memory:';
  // Each worker would have a defect of its own.
  const workers = defect === undefined ? store.workers : 1;
  const command = [main, '--database', postgres?.url ?? database, '--workers', String(workers)];
  if (postgres?.reads !== undefined) command.push('--read-database', postgres.reads);
  if (defect !== undefined) {
    const query = new URLSearchParams({ name: defect, seed: String(seed) });
    command.unshift('--import', new URL(`defects.ts?${query}`, import.meta.url).href);
  }
  const owner = { after: (end: () => unknown) => stack.defer(async () => void (await end())) };
  const nodes = [];
  for (let i = 0; i < store.processes; i += 1) {
    const [port = 0, grpcPort = 0] = await freePorts(2);
    const log = `${kept}-process-${i}.log`;
    const service = new RestartableService(command, [port, grpcPort], log, env, (http) =>
      hasWorkers(http, workers),
    );
    stack.defer(() => service.signal('SIGKILL'));
    await service.start();
    // Between the clients and the process.
    const clients = await openForwarder(port);
    stack.defer(() => clients.close());
    const grpc = usersClient(owner, `127.0.0.1:${grpcPort}`, { 'grpc.max_reconnect_backoff_ms': 500 });
    nodes.push({ service, clients, grpc, http: `http://127.0.0.1:${clients.port}` });
  }
  return { kept, nodes, data, postgres, clock: faketime && clock };
}

/** Whether all workers are ready. The process ends if one exits, or cannot start, before they are for the first time. */
async function hasWorkers(http: string, count: number): Promise<boolean> {
  if (count === 1) return isOk(`${http}/health`);
  const text = await fetch(`${http}/metrics`)
    .then((response) => response.text())
    .catch(() => '');
  return text.includes(`\nusers_service_workers{numbers="current"} ${count}\n`);
}

async function openPostgres({ pooler, ...plan }: Plan['store'], stack: AsyncDisposableStack) {
  const postgres = await startPostgres();
  stack.defer(() => postgres.close());
  const { server: primary } = postgres;
  const database = new URL(await postgres.createDatabase()).pathname.slice(1);
  const network = await openForwarder(primary.port);
  stack.defer(() => network.close());
  const standby = plan.standby === 'none' ? undefined : await postgres.createStandby();
  if (standby !== undefined) await primary.commitOnStandby();
  let url = primary.url(database, network.port);
  if (pooler && noPgBouncer === false) {
    url = (await startPgBouncer((end) => stack.defer(end), url)).through(url);
  } else if (plan.standby === 'hosts') {
    url = url.replace(`:${network.port}/`, `:${network.port},127.0.0.1:${standby?.port}/`);
  }
  const reads = plan.standbyReads ? standby?.url(database) : undefined;
  // `network` is between the processes and the primary.
  return { database, url, reads, primary, network, standby };
}
