import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Addresses } from '../service.ts';
import { openPort } from '../start-error.ts';
import type { Observe } from '../telemetry/events.ts';
import { portsVariable, type ToPrimary, type ToWorker } from './messages.ts';
import { PoolMetrics } from './pool-metrics.ts';

export interface WorkerPoolOptions {
  readonly count: number;
  readonly host: string;
  readonly port: number;
  readonly grpcPort: number | false;
  readonly observe: Observe;
  /** How long a worker that was told to stop may take, in ms; then it is killed. */
  readonly stopTimeoutMs: number;
}

interface Child {
  readonly worker: Worker;
  readonly ready: Promise<Addresses>;
  readonly exited: Promise<string>;
  /** Told to stop: its end is no surprise. */
  leaving: boolean;
}

// A worker that dies at once and again waits longer each time, so that its failing is not all we do.
const firstPauseMs = 100;
const longestPauseMs = 10_000;
const soundAfterMs = 10_000;
// Who scrapes waits for seconds: a worker that is stuck must not cost them all the others' numbers.
const reportTimeoutMs = 500;

/**
 * Several processes of this program on the same ports. The ports are the primary's (`node:cluster`,
 * round robin), so that workers come and go without a connection being refused: one that is handed to
 * a worker which has just stopped listening comes back and goes to the next.
 */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #children = new Set<Child>();
  readonly #metrics = new PoolMetrics<Worker>((worker) => send(worker, 'report'), reportTimeoutMs);
  #ports = '';
  #stopping = false;
  #pauseMs = firstPauseMs;
  #restarting: Promise<void> | undefined;
  #restartAgain = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** Resolves when all are listening. Rejects when one cannot, which has told why on stderr itself. */
  async start(): Promise<Addresses> {
    this.#ports = await fixPorts(this.#options);
    try {
      // The first alone: what is wrong for one is wrong for all, and is told once.
      const first = await this.#launch();
      await Promise.all(Array.from({ length: this.#options.count - 1 }, () => this.#launch()));
      return await first.ready;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Replaces all, one by one; each new one listens before its predecessor stops. */
  restart(): Promise<void> {
    if (this.#restarting !== undefined) this.#restartAgain = true;
    this.#restarting ??= this.#replaceAll().finally(() => {
      this.#restarting = undefined;
    });
    return this.#restarting;
  }

  async #replaceAll(): Promise<void> {
    do {
      this.#restartAgain = false;
      for (const old of [...this.#children]) {
        if (this.#stopping) return;
        // It has died meanwhile: its successor is as new as any.
        if (!this.#children.has(old)) continue;
        await this.#launch();
        await this.#stop(old);
      }
    } while (this.#restartAgain);
    this.#options.observe({ type: 'reloaded' });
  }

  /** Drains all of them. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all([...this.#children].map((child) => this.#stop(child)));
  }

  async #stop(child: Child): Promise<void> {
    child.leaving = true;
    send(child.worker, 'stop');
    const killer = setTimeout(() => child.worker.process.kill('SIGKILL'), this.#options.stopTimeoutMs);
    await child.exited;
    clearTimeout(killer);
  }

  async #launch(): Promise<Child> {
    const child = fork(this.#ports, this.#metrics);
    this.#children.add(child);
    const readyAt = child.ready.then(() => performance.now());
    // A failed start is for whoever launched it.
    child.exited.then(async (how) => {
      this.#children.delete(child);
      const since = await readyAt.catch(() => undefined);
      if (since !== undefined && !child.leaving) await this.#replace(how, performance.now() - since);
    });
    await child.ready;
    // Nobody could be told before.
    if (this.#stopping) send(child.worker, 'stop');
    return child;
  }

  async #replace(how: string, livedMs: number): Promise<void> {
    this.#report(`a worker has ended: ${how}`);
    if (livedMs > soundAfterMs) this.#pauseMs = firstPauseMs;
    while (!this.#stopping && this.#children.size < this.#options.count) {
      await sleep(this.#pauseMs);
      this.#pauseMs = Math.min(2 * this.#pauseMs, longestPauseMs);
      // Another one may have come meanwhile, or the end.
      if (this.#stopping || this.#children.size >= this.#options.count) return;
      await this.#launch().catch((error: Error) => this.#report(error.message));
    }
  }

  #report(cause: string): void {
    this.#options.observe({ type: 'failure', where: 'process', cause });
  }
}

/** A worker could not start, and has told why on stderr. */
class WorkerError extends Error {
  override readonly name = 'WorkerError';
}

function fork(ports: string, metrics: PoolMetrics<Worker>): Child {
  const worker = cluster.fork({ [portsVariable]: ports });
  const { promise: ready, resolve, reject } = Promise.withResolvers<Addresses>();
  const { promise: exited, resolve: exit } = Promise.withResolvers<string>();
  worker.on('message', (message: ToPrimary) => {
    if (message === 'gather') {
      metrics.gather().then((gathered) => send(worker, { gathered }));
    } else if ('metrics' in message) {
      metrics.take(worker, message.metrics);
    } else {
      metrics.join(worker);
      resolve(message.ready);
    }
  });
  // Behind the last message, which an exit is not.
  worker.once('disconnect', () => metrics.leave(worker));
  worker.on('error', () => undefined);
  worker.once('exit', (code, signal) => {
    const how = signal ?? `exit code ${code}`;
    reject(new WorkerError(`a worker could not start: ${how}`));
    exit(how);
  });
  ready.catch(() => undefined);
  return { worker, ready, exited, leaving: false };
}

function send(worker: Worker, message: ToWorker): void {
  // It may be gone already, which is what it is told to be.
  if (worker.isConnected()) worker.send(message, () => undefined);
}

/** Chooses free ports where any would do: a worker that comes later must get the same as the first. */
async function fixPorts({ host, port, grpcPort }: WorkerPoolOptions): Promise<string> {
  const servers = [];
  const fixed: (number | false)[] = [];
  for (const [option, wanted] of Object.entries({ port, grpcPort } as const)) {
    if (wanted !== 0) {
      fixed.push(wanted);
      continue;
    }
    const server = createServer();
    servers.push(server);
    await openPort(option === 'port' ? 'port' : 'grpcPort', host, 0, async () => {
      server.listen({ host, port: 0, exclusive: true });
      await once(server, 'listening');
      const address = server.address();
      return fixed.push(typeof address === 'object' && address !== null ? address.port : 0);
    });
  }
  for (const server of servers) server.close();
  return JSON.stringify(fixed);
}
