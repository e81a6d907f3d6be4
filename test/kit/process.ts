import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** The environment of processes that run `src/main.ts`. All processes of a test run share compiled modules. */
export function environment(): NodeJS.ProcessEnv {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { PATH, ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }) };
}

/** The environment of a process that cannot write files, so that Node.js does not measure its coverage in one. */
export function withoutCoverage(): NodeJS.ProcessEnv {
  return { ...environment(), NODE_V8_COVERAGE: '' };
}

export interface ServiceProcess {
  readonly child: ChildProcess;
  readonly http: string;
  /** `host:port`, or empty if the gRPC API is off. */
  readonly grpc: string;
  /** The printed JSON lines so far. */
  readonly lines: readonly Record<string, unknown>[];
  /** Sends the signal and resolves to the exit code, or to null if the signal ended the process. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Without the gRPC API, a process starts with less than half of the processor time. */
export const withoutGrpc = ['--grpc-port', 'off'] as const;

/** Starts `src/main.ts` as a child process, on free ports without a `--port`, and resolves when it listens. */
export async function startProcess(
  t: { after(close: () => Promise<void>): void },
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const free = ['--port', '--grpc-port'].filter((flag) => !args.includes(flag));
  const ports = free.flatMap((flag) => [flag, '0']);
  const child = spawn(process.execPath, [main, ...ports, '--log', 'json', ...args], {
    env: { ...environment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  // After the exit, printed lines may still be on their way.
  const closed = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const lines: Record<string, unknown>[] = [];
  const errors: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const listening = Promise.withResolvers<Record<string, unknown>>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    // After a kill, the last line may be incomplete.
    if (child.killed && !line.endsWith('}')) return;
    const event: Record<string, unknown> = JSON.parse(line);
    lines.push(event);
    if (event['event'] === 'listening') listening.resolve(event);
  });
  exited.then(([code]) => listening.reject(new Error(`exited with ${code}: ${Buffer.concat(errors)}`)));
  const { http, grpc } = await listening.promise;
  return {
    child,
    http: String(http),
    grpc: String(grpc ?? ''),
    lines,
    async end(signal = 'SIGTERM') {
      child.kill(signal);
      const [code] = await closed;
      return code;
    },
  };
}

/** Resolves when a process has printed this number of lines of an event. */
export async function printed(
  { lines }: Pick<ServiceProcess, 'lines'>,
  event: string,
  count = 1,
): Promise<void> {
  const isPrinted = () => lines.filter((line) => line['event'] === event).length >= count;
  await until(isPrinted, `the process has printed ${event}`, 100_000);
}

/** The number of lines of the log that a service could not print. */
export async function lostLines(http: string): Promise<number> {
  const metrics = await (await fetch(`${http}/metrics`)).text();
  return Number(/^users_service_log_lines_dropped_total (\d+)$/m.exec(metrics)?.[1]);
}

export interface FinishedProcess {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `src/main.ts` until it exits. */
export async function runMain(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string>>; input?: string; cwd?: string } = {},
): Promise<FinishedProcess> {
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...environment(), ...options.env },
    cwd: options.cwd,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined).end(options.input ?? '');
  const output = [child.stdout.toArray(), child.stderr.toArray()] as const;
  const [stdout, stderr, [code]] = await Promise.all([...output, once(child, 'close')]);
  return { code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
}
