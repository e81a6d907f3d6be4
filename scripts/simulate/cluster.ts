import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Forwarder, openForwarder } from '../../test/kit/forwarder.ts';
import { freePorts } from '../../test/kit/free-ports.ts';
import { usersClient } from '../../test/kit/grpc.ts';
import { missingPgBouncer, startPgBouncer } from '../../test/kit/pgbouncer.ts';
import { startPostgres } from '../../test/kit/postgres.ts';
import type { PostgresServer } from '../../test/kit/postgres-server.ts';
import { until } from '../../test/kit/postgres-session.ts';
import type { Address } from './client.ts';
import type { StorePlan } from './plan.ts';

export const run = promisify(execFile);
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const planted = fileURLToPath(new URL('server.ts', import.meta.url));
// Long, since a machine that does something else must not look like a service that does not start.
const startLimitMs = 600_000;

/** A process of the service that keeps its ports through kill and start. */
export class ServiceProcess {
  readonly #command: readonly string[];
  readonly #path: string;
  readonly #log: number;
  readonly #env: NodeJS.ProcessEnv;
  readonly port: number;
  readonly grpcPort: number;
  #child: ChildProcess | undefined;

  constructor(
    command: readonly string[],
    ports: readonly [number, number],
    log: string,
    env: NodeJS.ProcessEnv,
  ) {
    this.#command = command;
    [this.port, this.grpcPort] = ports;
    this.#path = log;
    this.#log = openSync(log, 'a');
    this.#env = env;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts it, again while its database is not there yet; resolves when it answers. */
  async start(): Promise<void> {
    const ports = ['--port', String(this.port), '--grpc-port', String(this.grpcPort)];
    const url = `http://127.0.0.1:${this.port}/health`;
    const deadline = performance.now() + startLimitMs;
    while (performance.now() < deadline) {
      const child = spawn(process.execPath, [...this.#command, ...ports], {
        env: { ...process.env, ...this.#env },
        stdio: ['ignore', this.#log, this.#log],
      });
      this.#child = child;
      while (child.exitCode === null && child.signalCode === null && performance.now() < deadline) {
        if (await fetch(url).then(drain, () => false)) return;
        await sleep(20);
      }
    }
    const log = readFileSync(this.#path, 'utf8').trim().split('\n').slice(-3).join('\n');
    throw new Error(`the process on port ${this.port} did not start:\n${log}`);
  }

  /** Sends a signal, and waits for the end where it is one that ends. */
  async signal(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await exited;
  }

  /** The processes it has started, such as its workers. */
  children(): number[] {
    const file = `/proc/${this.pid}/task/${this.pid}/children`;
    return readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number);
  }
}

async function drain(response: Response): Promise<boolean> {
  await response.arrayBuffer();
  return response.ok;
}

/** The processes of a run, their database, and the network between them all. */
export interface Cluster {
  readonly folder: string;
  readonly processes: readonly ServiceProcess[];
  readonly addresses: readonly Address[];
  /** Between the clients and each process. */
  readonly clientSide: readonly Forwarder[];
  /** The file of SQLite. */
  readonly file?: string;
  readonly postgres?: PostgresControl;
  /** The file that libfaketime reads the clock's offset from. */
  readonly clock?: string;
}

export interface PostgresControl {
  readonly primary: PostgresServer;
  /** Between the processes and the primary. */
  readonly network: Forwarder;
  readonly database: string;
  readonly standby?: PostgresServer;
}

export interface ClusterOptions {
  readonly plan: StorePlan;
  readonly seed: number;
  /** The planted defect, which runs in another program than the service's own. */
  readonly defect?: string | undefined;
  /** What to close when the run has ended. */
  readonly stack: AsyncDisposableStack;
}

/** Starts everything that a plan names. */
export async function startCluster({ plan, seed, defect, stack }: ClusterOptions): Promise<Cluster> {
  const folder = await mkdtemp(join(tmpdir(), `simulate-${seed}-`));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const postgres = plan.kind === 'postgres' ? await openPostgres(plan, stack) : undefined;
  const data = join(folder, 'data');
  await mkdir(data);
  if (plan.smallDisk && process.getuid?.() === 0) {
    await run('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'simulate', data]);
    stack.defer(async () => void (await run('umount', ['-l', data])));
  }
  const file = join(data, 'users.db');
  const database = postgres?.url ?? (plan.kind === 'sqlite' ? `sqlite:${file}` : 'memory:');
  const workers = plan.workers > 1 ? ['--workers', String(plan.workers)] : [];
  const program =
    defect === undefined ? [main, ...workers] : [planted, '--defect', defect, '--seed', String(seed)];
  const reads = postgres?.reads === undefined ? [] : ['--read-database', postgres.reads];
  const command = [...program, '--database', database, ...reads];
  const clock = fakeClock(folder);
  const ports = await freePorts(plan.processes * 2);
  const processes = Array.from({ length: plan.processes }, (_, i) => {
    const own = [ports[2 * i] ?? 0, ports[2 * i + 1] ?? 0] as const;
    return new ServiceProcess(command, own, join(folder, `process-${i}.log`), clock?.env ?? {});
  });
  stack.defer(async () => {
    for (const one of processes) {
      await one.signal('SIGCONT');
      await one.signal('SIGKILL');
    }
  });
  await Promise.all(processes.map((one) => one.start()));
  const owner = { after: (end: () => unknown) => stack.defer(async () => void (await end())) };
  const clientSide: Forwarder[] = [];
  const addresses: Address[] = [];
  for (const { port, grpcPort } of processes) {
    const forwarder = await openForwarder(port);
    stack.defer(() => forwarder.close());
    clientSide.push(forwarder);
    const grpc = usersClient(owner, `127.0.0.1:${grpcPort}`, { 'grpc.max_reconnect_backoff_ms': 500 });
    addresses.push({ http: `http://127.0.0.1:${forwarder.port}`, grpc });
  }
  return {
    folder,
    processes,
    addresses,
    clientSide,
    ...(plan.kind === 'sqlite' && { file }),
    ...(postgres && { postgres: postgres.control }),
    ...(clock && { clock: clock.file }),
  };
}

async function openPostgres(
  plan: StorePlan,
  stack: AsyncDisposableStack,
): Promise<{ url: string; reads?: string; control: PostgresControl }> {
  const postgres = await startPostgres();
  stack.defer(() => postgres.close());
  const { server: primary } = postgres;
  const database = new URL(await postgres.createDatabase()).pathname.slice(1);
  const network = await openForwarder(primary.port);
  stack.defer(() => network.close());
  const standby = plan.standby === 'none' ? undefined : await postgres.createStandby();
  if (standby !== undefined) {
    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await primary.query('SELECT pg_reload_conf()');
    const synchronous = `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`;
    await until(
      async () => (await primary.query(synchronous)).length === 1,
      'the standby is synchronous',
      startLimitMs,
    );
  }
  let url = primary.url(database, network.port);
  if (plan.pooler && (await missingPgBouncer()) === false) {
    url = (await startPgBouncer((end) => stack.defer(end), url)).through(url);
  } else if (plan.standby === 'hosts') {
    url = url.replace(`:${network.port}/`, `:${network.port},127.0.0.1:${standby?.port}/`);
  }
  const reads = plan.standbyReads ? standby?.url(database) : undefined;
  return {
    url,
    ...(reads !== undefined && { reads }),
    control: { primary, network, database, ...(standby && { standby }) },
  };
}

const clockLibraries = ['x86_64-linux-gnu', 'aarch64-linux-gnu', ''].map(
  (folder) => `/usr/lib/${folder}/faketime/libfaketimeMT.so.1`,
);

/** The clock of the processes, which a file sets, where libfaketime is installed. */
function fakeClock(folder: string): { file: string; env: NodeJS.ProcessEnv } | undefined {
  const library = clockLibraries.find((path) => existsSync(path));
  if (library === undefined) return undefined;
  const file = join(folder, 'clock');
  writeFileSync(file, '+0s\n');
  const options = { FAKETIME_NO_CACHE: '1', DONT_FAKE_MONOTONIC: '1', FAKETIME_TIMESTAMP_FILE: file };
  return { file, env: { LD_PRELOAD: library, ...options } };
}
