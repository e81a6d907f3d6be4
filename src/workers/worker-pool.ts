import type { Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Addresses } from '../service.ts';
import type { Observe } from '../telemetry/events.ts';
import { PoolMetrics } from './pool-metrics.ts';
import { forkWorker, type Ports, sendTo, type ToPrimary } from './worker-link.ts';

export interface WorkerPoolOptions {
  readonly count: number;
  readonly port: number;
  readonly grpcPort: number | false;
  readonly observe: Observe;
  /** How long a worker may take to stop, in ms; then it is killed. */
  readonly stopTimeoutMs: number;
}

interface Child {
  readonly worker: Worker;
  readonly ready: Promise<Addresses>;
  /** Resolves to the signal or exit code. */
  readonly exited: Promise<string>;
  stopping: boolean;
}

// A worker that keeps dying is restarted after longer and longer pauses.
const firstPauseMs = 100;
const longestPauseMs = 10_000;
const soundAfterMs = 10_000;

/**
 * Several processes of this program on the same ports. The primary holds the ports (`node:cluster`, round
 * robin), so no connection is rejected when a worker stops: the primary passes it to the next worker.
 */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #children = new Set<Child>();
  readonly #metrics = new PoolMetrics();
  /** What workers listen on. For port 0, `node:cluster` gives all of them the same free port. */
  #ports: Ports;
  #bound: Addresses | undefined;
  #stopping = false;
  #pauseMs = firstPauseMs;
  #restarting: Promise<void> | undefined;
  #restartAgain = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#ports = [options.port, options.grpcPort];
  }

  /** Resolves when all are listening. Rejects when one cannot; that worker has printed the reason. */
  async start(): Promise<Addresses> {
    try {
      // Start one first: an error of all workers is then printed once.
      const addresses = await (await this.#launch()).ready;
      this.#bound = addresses;
      await Promise.all(Array.from({ length: this.#options.count - 1 }, () => this.#launch()));
      return addresses;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Replaces all workers one by one; each new one listens before the old one stops. */
  restart(): Promise<void> {
    if (this.#restarting !== undefined) this.#restartAgain = true;
    this.#restarting ??= this.#replaceAll().finally(() => {
      this.#restarting = undefined;
    });
    return this.#restarting;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all([...this.#children].map((child) => this.#stop(child)));
  }

  async #replaceAll(): Promise<void> {
    do {
      this.#restartAgain = false;
      for (const old of [...this.#children]) {
        if (this.#stopping) return;
        // It has exited, and its replacement is new already.
        if (!this.#children.has(old)) continue;
        await this.#launch();
        await this.#stop(old);
      }
    } while (this.#restartAgain);
    this.#options.observe({ type: 'reloaded' });
  }

  async #stop(child: Child): Promise<void> {
    child.stopping = true;
    sendTo(child.worker, 'stop');
    const killTimer = setTimeout(() => child.worker.process.kill('SIGKILL'), this.#options.stopTimeoutMs);
    await child.exited;
    clearTimeout(killTimer);
  }

  async #launch(): Promise<Child> {
    // The primary closes its ports with the last worker: open the same ones again, not other free ones.
    if (this.#children.size === 0 && this.#bound !== undefined) {
      const { port, grpcPort } = this.#options;
      const { http, grpc = '' } = this.#bound;
      this.#ports = [port || portOf(http), grpcPort === 0 ? portOf(grpc) : grpcPort];
    }
    const child = launch(this.#ports, this.#metrics);
    this.#children.add(child);
    const readyAt = child.ready.then(() => performance.now());
    child.exited.then(async (how) => {
      this.#children.delete(child);
      // The caller of `#launch` handles a failed start.
      const since = await readyAt.catch(() => undefined);
      if (since !== undefined && !child.stopping) await this.#replace(how, performance.now() - since);
    });
    const addresses = await child.ready;
    if (this.#bound !== undefined && addresses.http !== this.#bound.http) {
      // The others exited while it started, and their free port was lost.
      await this.#stop(child);
      throw new WorkerError('a worker could not have the ports of the others');
    }
    if (this.#stopping) sendTo(child.worker, 'stop');
    return child;
  }

  async #replace(how: string, livedMs: number): Promise<void> {
    this.#reportFailure(`a worker has ended: ${how}`);
    if (livedMs > soundAfterMs) this.#pauseMs = firstPauseMs;
    while (!this.#stopping && this.#children.size < this.#options.count) {
      await sleep(this.#pauseMs);
      this.#pauseMs = Math.min(2 * this.#pauseMs, longestPauseMs);
      if (this.#stopping || this.#children.size >= this.#options.count) return;
      await this.#launch().catch((error: Error) => this.#reportFailure(error.message));
    }
  }

  #reportFailure(cause: string): void {
    this.#options.observe({ type: 'failure', where: 'process', cause });
  }
}

/** A worker could not start, and has printed why. */
class WorkerError extends Error {
  override readonly name = 'WorkerError';
}

function launch(ports: Ports, metrics: PoolMetrics): Child {
  const worker = forkWorker(ports);
  const { promise: ready, resolve, reject } = Promise.withResolvers<Addresses>();
  const { promise: exited, resolve: exit } = Promise.withResolvers<string>();
  worker.on('message', (message: ToPrimary) => {
    if (message === 'gather') metrics.gather().then((gathered) => sendTo(worker, { gathered }));
    else if ('metrics' in message) metrics.receive(worker, message.metrics);
    else {
      metrics.receive(worker, {});
      resolve(message.ready);
    }
  });
  // Follows the last message; `exit` may precede it.
  worker.once('disconnect', () => metrics.remove(worker));
  worker.on('error', () => undefined);
  worker.once('exit', (code, signal) => {
    const how = signal ?? `exit code ${code}`;
    reject(new WorkerError(`a worker could not start: ${how}`));
    exit(how);
  });
  ready.catch(() => undefined);
  return { worker, ready, exited, stopping: false };
}

function portOf(address: string): number {
  return Number(/\d+$/.exec(address)?.[0]);
}
