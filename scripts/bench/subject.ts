import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { cpuSecondsOf } from '../harness/cpu.ts';
import { type Cores, pin } from './cores.ts';

/** A server under measurement: a process of its own, pinned to the server's core. */
export interface Subject {
  /** `http://127.0.0.1:PORT`, when it has that face. */
  readonly http: string;
  /** `127.0.0.1:PORT`, when it has that face. */
  readonly grpc: string;
  readonly pid: number;
  /** From the spawn to the line that says where it listens, in milliseconds. */
  readonly listeningAfterMs: number;
  /** CPU time so far, of the process and its children, in seconds. */
  cpuSeconds(): number;
  /** Resident memory, in bytes. */
  residentBytes(): number;
  stop(): Promise<void>;
}

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** Where it listens, for a program that does not say so itself. */
  readonly http?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const startTimeoutMs = 20_000;

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** The service as it is run: every feature on, its log going to a file. */
export function service(args: readonly string[]): Program {
  const own = ['--port', '0', '--grpc-port', '0', '--log', 'json', ...args];
  return { command: process.execPath, args: [main, ...own] };
}

/** The service as the package has it, compiled into a folder. */
export function builtService(folder: string, args: readonly string[]): Program {
  const { command, args: all } = service(args);
  return { command, args: [join(folder, 'dist', 'main.js'), ...all.slice(1)] };
}

/** The simplest server there is, which answers everything with this text. */
export function bareServer(body: string): Program {
  const file = fileURLToPath(new URL('./peers/bare.js', import.meta.url));
  return { command: process.execPath, args: [file, body] };
}

/** A server of `peers/`. */
export function peer(name: string, ...args: readonly string[]): Program {
  const file = fileURLToPath(new URL(`./peers/${name}.ts`, import.meta.url));
  return { command: process.execPath, args: [file, ...args], env: { NODE_ENV: 'production' } };
}

/** A program run by another command, such as strace; by none when that is empty. */
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
  const startedAt = performance.now();
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
  const listeningAfterMs = performance.now() - startedAt;
  // What was logged so far would only fill the disk; opened to append, it goes on from nothing.
  truncateSync(outputPath);
  return {
    ...found,
    pid,
    listeningAfterMs,
    cpuSeconds: () => sum(family(pid).map(cpuSecondsOf)),
    residentBytes: () => sum(family(pid).map(residentBytesOf)),
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
    if (program.http !== undefined) {
      const answered = await fetch(program.http).catch(() => undefined);
      await answered?.arrayBuffer();
      if (answered !== undefined) return { http: program.http, grpc: '' };
    }
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

/** A process and all below it. */
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

function residentBytesOf(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib ?? 0) * 1024;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
