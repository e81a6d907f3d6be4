import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fail } from './fail.ts';

// Long, since a busy machine must not look like a service that does not start.
const startLimitMs = 600_000;

/**
 * A process of the service that keeps its ports when it is killed and started again. If it has started and then ends
 * without a signal from here, the script fails.
 */
export class RestartableService {
  readonly #command: readonly string[];
  readonly #path: string;
  readonly #log: number;
  readonly #env: NodeJS.ProcessEnv;
  readonly #hasStarted: (http: string) => Promise<boolean>;
  readonly port: number;
  readonly grpcPort: number;
  #child: ChildProcess | undefined;
  /** The process that was sent a signal to end it. */
  #ending: ChildProcess | undefined;

  constructor(
    command: readonly string[],
    ports: readonly [number, number],
    log: string,
    env: NodeJS.ProcessEnv,
    hasStarted = (http: string) => isOk(`${http}/health`),
  ) {
    this.#command = command;
    [this.port, this.grpcPort] = ports;
    this.#path = log;
    this.#log = openSync(log, 'a');
    this.#env = env;
    this.#hasStarted = hasStarted;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts it, again while its database is not there yet; resolves when it has started. */
  async start(): Promise<void> {
    const ports = ['--port', String(this.port), '--grpc-port', String(this.grpcPort)];
    const deadline = performance.now() + startLimitMs;
    while (performance.now() < deadline) {
      const child = spawn(process.execPath, [...this.#command, ...ports], {
        env: { ...process.env, ...this.#env },
        stdio: ['ignore', this.#log, this.#log],
      });
      this.#child = child;
      let hasStarted = false;
      child.once('exit', (code, signal) => {
        if (!hasStarted || this.#ending === child) return;
        fail(
          `the process on port ${this.port} ended by itself with ${code ?? signal}:\n${this.#lastLines()}`,
        );
      });
      while (isRunning(child) && performance.now() < deadline) {
        hasStarted = (await this.#hasStarted(`http://127.0.0.1:${this.port}`)) && isRunning(child);
        if (hasStarted) return;
        await sleep(20);
      }
    }
    throw new Error(`the process on port ${this.port} did not start:\n${this.#lastLines()}`);
  }

  /** The last lines of its log. */
  #lastLines(): string {
    return readFileSync(this.#path, 'utf8').trim().split('\n').slice(-3).join('\n');
  }

  /** Sends a signal; one that ends the process also waits for its end. */
  async signal(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined || !isRunning(child)) return;
    const ends = signal === 'SIGKILL' || signal === 'SIGTERM';
    if (ends) this.#ending = child;
    const exited = once(child, 'exit');
    child.kill(signal);
    if (ends) await exited;
  }
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

/** Whether a URL responds with a 2xx. */
export async function isOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
