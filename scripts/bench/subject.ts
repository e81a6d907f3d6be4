import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { memoryOf } from '../harness/proc.ts';
import { type Cores, commandExists, pin } from './cores.ts';

/** A server under measurement, in a separate process that is pinned to the core of the server. */
export interface Subject {
  /** `http://127.0.0.1:PORT`, if it has that API. */
  readonly http: string;
  /** `127.0.0.1:PORT`, if it has that API. */
  readonly grpc: string;
  readonly pid: number;
  /** The CPU time so far of all threads of the process and its children. */
  cpuTime(): CpuTime;
  /** Resident memory, in bytes. */
  residentBytes(): number;
  /** Empties the log, so that it does not fill the disk. */
  emptyLog(): void;
  stop(): Promise<void>;
}

/** In seconds. */
export interface CpuTime {
  readonly computed: number;
  /** The time of waiting for the core while another program used it. */
  readonly waited: number;
}

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const startTimeoutMs = 20_000;

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** The service of a checkout, with all features and its log in a file. */
export function service(args: readonly string[], checkout = root): Program {
  const own = ['--port', '0', '--grpc-port', '0', '--log', 'json', ...args];
  return { command: process.execPath, args: [join(checkout, 'src', 'main.ts'), ...own] };
}

/** A file of `peers/`. */
export function peer(file: string, ...args: readonly string[]): Program {
  const path = join(root, 'scripts', 'bench', 'peers', file);
  return { command: process.execPath, args: [path, ...args], env: { NODE_ENV: 'production' } };
}

/** The compiled peer in Go, or `undefined` if Go or a C compiler is missing. */
export function goPeer(folder: string, ...args: readonly string[]): Program | undefined {
  const go = ['go', '/usr/local/go/bin/go'].find((command) => commandExists(command, 'version'));
  if (go === undefined) return undefined;
  const program = join(folder, 'go-peer');
  const built = spawnSync(go, ['build', '-o', program, '.'], {
    cwd: join(root, 'scripts', 'bench', 'peers', 'go'),
    env: { ...process.env, CGO_ENABLED: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return built.status === 0 ? { command: program, args } : undefined;
}

/** A program that another command such as strace runs, unless that command is empty. */
export function behind([command, ...args]: readonly string[], program: Program): Program {
  return command === undefined
    ? program
    : { ...program, command, args: [...args, program.command, ...program.args] };
}

/** Starts a program in `folder` and resolves when it listens. Its output goes to a file there. */
export async function start(program: Program, folder: string, cores: Cores = 'server'): Promise<Subject> {
  const place = mkdtempSync(join(folder, 'subject-'));
  const outputPath = join(place, 'output');
  const output = openSync(outputPath, 'a');
  const { command, args } = pin(cores, program.command, program.args);
  const child = spawn(command, args, {
    cwd: place,
    env: { PATH: process.env['PATH'], ...program.env },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${command} did not start`);
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
    await exited;
    clearTimeout(timer);
    rmSync(place, { recursive: true, force: true });
  };
  const found = await listening(program, child, outputPath);
  // The file is opened to append, so the process continues at its new end.
  const emptyLog = () => truncateSync(outputPath);
  emptyLog();
  return {
    ...found,
    pid,
    cpuTime: () => cpuTimeOf(family(pid)),
    residentBytes: () => sum(family(pid).map((one) => memoryOf(one, 'VmRSS'))),
    emptyLog,
    stop,
  };
}

async function listening(
  program: Program,
  child: ChildProcess,
  outputPath: string,
): Promise<{ http: string; grpc: string }> {
  const deadline = performance.now() + startTimeoutMs;
  while (performance.now() < deadline) {
    const output = readFileSync(outputPath, 'utf8');
    if (child.exitCode !== null) throw new Error(`${program.args.join(' ')} ended:\n${output}`);
    const line = output.split('\n').find((text) => text.includes('"listening"'));
    if (line !== undefined && output.includes('\n')) {
      const { http = '', grpc = '' } = JSON.parse(line);
      return { http, grpc };
    }
    await sleep(5);
  }
  child.kill('SIGKILL');
  throw new Error(`${program.args.join(' ')} does not listen:\n${readFileSync(outputPath, 'utf8')}`);
}

/** A process with all its descendants. */
function family(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return [
    pid,
    ...children
      .split(' ')
      .filter(Boolean)
      .flatMap((child) => family(Number(child))),
  ];
}

/** Reads `schedstat`, which counts nanoseconds, while `stat` counts hundredths of a second. */
export function cpuTimeOf(pids: readonly number[]): CpuTime {
  const threads = pids.flatMap((pid) => {
    return readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}/schedstat`);
  });
  const times = threads.map((path) => readFileSync(path, 'utf8').split(' ').map(Number));
  return {
    computed: sum(times.map(([computed = 0]) => computed)) / 1e9,
    waited: sum(times.map(([, waited = 0]) => waited)) / 1e9,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
