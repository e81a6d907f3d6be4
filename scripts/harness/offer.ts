import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openSqliteStore } from '../../src/storage/sqlite/store.ts';
import { freePorts } from '../../test/kit/free-ports.ts';
import { pin } from '../bench/cores.ts';
import { failIfEnded } from './fail.ts';
import type { LoadJob, LoadReport } from './open-loop.ts';
import type { Delays, ProbeJob, ProbeReport } from './probe.ts';
import { isOk } from './process.ts';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** A SQLite file with users whose ids start at 1. */
export async function makeDatabase(file: string, users: number): Promise<void> {
  await (await openSqliteStore(file)).close();
  const db = new DatabaseSync(file);
  db.exec(`
    INSERT INTO users (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${users})
    SELECT printf('Ada %d', i) FROM n`);
  db.close();
}

export interface LoadedServer {
  readonly port: number;
  readonly pid: number;
  isAlive(): boolean;
  /** Ends it. The script fails if it had ended by itself. */
  end(signal?: NodeJS.Signals): Promise<void>;
}

/** A service on a separate core. If set, the command `wrapper` runs it. */
export async function startServer(
  args: readonly string[],
  wrapper: readonly string[] = [],
  grpcPort: number | 'off' = 'off',
): Promise<LoadedServer> {
  const [port = 0] = await freePorts(1);
  const ports = ['--port', String(port), '--grpc-port', String(grpcPort), '--log', 'json'];
  const [program = '', ...rest] = [
    ...wrapper,
    process.execPath,
    path('../../src/main.ts'),
    ...ports,
    ...args,
  ];
  const { command, args: pinned } = pin('server', program, rest);
  // The service writes its log, but no process reads it.
  const child = spawn(command, pinned, { stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  const isAlive = () => child.exitCode === null && child.signalCode === null;
  while (!(await isOk(`http://127.0.0.1:${port}/health`))) {
    if (!isAlive()) throw new Error(`the service exited with ${child.exitCode ?? child.signalCode}`);
    await sleep(50);
  }
  return {
    port,
    pid: child.pid ?? 0,
    isAlive,
    async end(signal = 'SIGTERM') {
      failIfEnded('the service', child);
      child.kill(signal);
      await exited;
    },
  };
}

/** Runs a load in a separate process, on another core than the service. */
export async function offer(job: LoadJob): Promise<LoadReport> {
  const { command, args } = pin('load', process.execPath, [path('open-loop.ts'), JSON.stringify(job)]);
  const [program = '', ...rest] = [...early, command, ...args];
  const { stdout } = await promisify(execFile)(program, rest);
  return JSON.parse(stdout);
}

// Gives the load some priority, if allowed. Not FIFO: the load never sleeps, so the kernel would stop it for a part of
// each second. Not -20: on a busy machine, the kernel's thread that delivers packets on this core would starve.
const early = spawnSync('nice', ['-n', '-5', 'true']).status === 0 ? ['nice', '-n', '-5'] : [];

// If allowed, use the scheduling class FIFO, which has priority over ordinary programs.
const first = spawnSync('chrt', ['-f', '1', 'true']).status === 0 ? ['chrt', '-f', '1'] : [];

/** Probes a service from a process that has priority over the load on its core. */
export async function probe(job: ProbeJob): Promise<ProbeReport> {
  // With this class, a main thread that polls for V8's other threads would keep them from running, and use its whole core.
  const flags = ['--single-threaded'];
  const { command, args } = pin('load', process.execPath, [...flags, path('probe.ts'), JSON.stringify(job)]);
  const [program = '', ...rest] = [...first, command, ...args];
  const { stdout } = await promisify(execFile)(program, rest);
  return JSON.parse(stdout);
}

export function shownProbes({ kept, fresh }: ProbeReport): string {
  const shown = ({ p50, p99, max, failed }: Delays) =>
    `p50 ${p50 ?? 'none'}, p99 ${p99 ?? 'none'}, max ${max ?? 'none'} ms, ${failed} failed`;
  return `kept connection: ${shown(kept)}; new connections: ${shown(fresh)}`;
}
