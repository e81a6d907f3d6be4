import type { Worker } from 'node:cluster';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { coalesced } from '../domain/promises.ts';
import type { Addresses, Observe } from '../telemetry/events.ts';
import { countersOf, type MetricsSnapshot, startTime, sumSnapshots } from '../telemetry/metrics.ts';
import { forkWorker, sendTo, type ToPrimary } from './worker-link.ts';

export interface WorkerPoolOptions {
  readonly count: number;
  readonly observe: Observe;
  /** How long a worker may take to stop, in ms; then it is killed. */
  readonly stopTimeoutMs: number;
  /** Those of the primary itself. */
  readonly metrics: () => MetricsSnapshot;
}

interface Child {
  readonly worker: Worker;
  readonly exited: Promise<void>;
  /** When it began to serve, by `performance.now()`. */
  readyAt?: number;
  stopping: boolean;
}

// A worker that keeps exiting is restarted after increasing pauses.
const firstPauseMs = 100;
const longestPauseMs = 10_000;
// After this time of service, the pauses begin again at the shortest.
const stableAfterMs = 10_000;
// A scrape must not fail because one worker hangs.
const reportTimeoutMs = 500;
const notReloaded = 'SIGHUP: workers that were not replaced keep their certificate and keys; send it again';
const oneFailure: MetricsSnapshot = { users_service_failures_total: 1 };

/**
 * Several processes of this program on the same ports. The primary holds the ports (`node:cluster`, round
 * robin), so no connection is rejected when a worker stops: the primary passes it to the next worker. For port 0, all
 * workers get the same free port, and another one if all of them have exited.
 */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #children = new Set<Child>();
  readonly #metrics = new Map<Worker, MetricsSnapshot>();
  /** Our start, the counters of exited workers, and the failures of the pool. So no sum falls when one is replaced. */
  #pastMetrics: MetricsSnapshot = startTime;
  readonly #gather = coalesced(() => this.#askAll());
  readonly #ending = new AbortController();
  #pauseMs = firstPauseMs;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** Resolves when all workers are listening. */
  async start(): Promise<Addresses> {
    try {
      // Start one first: it prints an error that all workers would have.
      const [, addresses] = await this.#launch();
      await Promise.all(Array.from({ length: this.#options.count - 1 }, () => this.#launch()));
      this.#options.observe({ type: 'listening', ...addresses });
      return addresses;
    } catch (error) {
      await this.#stopAll();
      throw error;
    }
  }

  /** Replaces all workers one by one; each new one listens before the old one stops. Reports a failure. */
  async reload(): Promise<void> {
    try {
      await this.#replaceAll();
      if (!this.#isStopping) this.#options.observe({ type: 'reloaded' });
    } catch (error) {
      this.#reportFailedStart(error);
      if (!this.#isStopping) this.#options.observe({ type: 'warning', message: notReloaded });
    }
    // While a new worker ran beside the old ones, `#refill` did not notice if another one exited.
    void this.#refill();
  }

  async stop(): Promise<void> {
    this.#options.observe({ type: 'draining' });
    await this.#stopAll();
    this.#options.observe({ type: 'closed' });
  }

  /** Ends all workers at once. Without their primary, those that are starting would crash. */
  kill(): void {
    for (const { worker } of this.#children) worker.process.kill('SIGKILL');
  }

  async #stopAll(): Promise<void> {
    this.#ending.abort();
    await Promise.all([...this.#children].map((child) => this.#stop(child)));
  }

  async #replaceAll(): Promise<void> {
    const added: Child[] = [];
    const areAlive = () => added.every((child) => this.#children.has(child));
    for (const old of [...this.#children]) {
      if (this.#isStopping) return;
      // It has exited in the meantime, and `#refill` replaces it.
      if (!this.#children.has(old)) continue;
      // `#refill` replaces a new worker that has exited, before or during the start of the next one.
      if (areAlive()) added.push((await this.#launch())[0]);
      if (!areAlive()) throw new Error('a new worker exited, so the remaining old workers keep serving');
      const stopped = this.#stop(old);
      // Another one may have exited while the new one started, and the old one no longer counts.
      void this.#refill();
      await stopped;
    }
  }

  async #stop(child: Child): Promise<void> {
    child.stopping = true;
    sendTo(child.worker, 'stop');
    using _ = setTimeout(() => child.worker.process.kill('SIGKILL'), this.#options.stopTimeoutMs);
    await child.exited;
  }

  /** Starts a worker, and resolves when it listens. Fails if it exits before. */
  async #launch(): Promise<[Child, Addresses]> {
    const { promise: ready, resolve, reject } = Promise.withResolvers<Addresses>();
    const { promise: exited, resolve: exit } = Promise.withResolvers<void>();
    const worker = forkWorker();
    const child: Child = { worker, exited, stopping: false };
    this.#children.add(child);
    const onEnd = (error: Error): void => {
      this.#children.delete(child);
      exit();
      reject(error);
    };
    worker.on('error', (cause) => {
      // Only a process that could not be created emits no `exit`.
      if (worker.process.pid === undefined) onEnd(new Error('a worker could not be started', { cause }));
    });
    worker.on('message', (given: ToPrimary) => {
      // A worker with other code may also send a text.
      const message: ToPrimary = Object(given);
      if ('question' in message) {
        if (message.question === 'gather') this.#gather().then((gathered) => sendTo(worker, { gathered }));
        else if (message.question === 'turn') this.#acceptSome().then((turn) => sendTo(worker, { turn }));
      } else if ('metrics' in message) {
        this.#metrics.set(worker, message.metrics);
        worker.emit('report');
      } else if ('ready' in message) {
        this.#metrics.set(worker, {});
        child.readyAt = performance.now();
        // An earlier `stop` is lost, because the worker did not listen for messages yet.
        if (child.stopping) sendTo(worker, 'stop');
        resolve(message.ready);
      }
    });
    // Emitted after the last message, while `exit` may be emitted before it.
    worker.once('disconnect', () => {
      this.#pastMetrics = sumSnapshots([this.#pastMetrics, countersOf(this.#metrics.get(worker) ?? {})]);
      this.#metrics.delete(worker);
      worker.emit('report');
    });
    worker.once('exit', (code, signal) => {
      const reason = signal ?? `code ${code}`;
      // Without effect if the worker was ready before.
      onEnd(new Error(`a worker exited before it was ready: ${reason}`));
      if (child.readyAt === undefined || (child.stopping && code === 0)) return;
      this.reportFailure(`a worker ${child.stopping ? 'did not stop in order' : 'exited'}: ${reason}`);
      if (child.stopping) return;
      if (performance.now() - child.readyAt > stableAfterMs) this.#pauseMs = firstPauseMs;
      void this.#refill();
    });
    return [child, await ready];
  }

  /**
   * Accepts as many waiting connections as there are workers, which get them in turn, so each gets at least one.
   * Resolves to false for a worker that is replaced: it could get new ones until its deadline, but others serve them.
   */
  async #acceptSome(): Promise<boolean> {
    for (const _ of this.#children) await nextTurn();
    return this.#isStopping;
  }

  async #refill(): Promise<void> {
    const { signal } = this.#ending;
    // Workers that are stopping do not count, because a stop may take long.
    const isDone = () =>
      signal.aborted || [...this.#children].filter(({ stopping }) => !stopping).length >= this.#options.count;
    while (!isDone()) {
      // Workers that exit together lengthen the next pause once.
      const pauseMs = this.#pauseMs;
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      this.#pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      if (!isDone()) await this.#launch().catch((error) => this.#reportFailedStart(error));
    }
  }

  /** The sum of the metrics of all workers, present and past. */
  async #askAll(): Promise<MetricsSnapshot> {
    const signal = AbortSignal.timeout(reportTimeoutMs);
    const asked = [...this.#metrics.keys()].map((worker) => {
      sendTo(worker, 'report');
      // Our own event, which `#launch` emits for the answer, or when the worker is gone.
      return once(worker, 'report', { signal });
    });
    const late = (await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected').length;
    const workers = {
      'users_service_workers{numbers="current"}': this.#metrics.size - late,
      // A worker that did not report in time counts with its last report.
      'users_service_workers{numbers="earlier"}': late,
    };
    return sumSnapshots([...this.#metrics.values(), this.#pastMetrics, workers, this.#options.metrics()]);
  }

  get #isStopping(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Reports why a worker did not start, unless the pool stops, which also ends workers that are starting. */
  #reportFailedStart(error: unknown): void {
    if (!this.#isStopping) this.reportFailure(error);
  }

  reportFailure(cause: unknown): void {
    this.#pastMetrics = sumSnapshots([this.#pastMetrics, oneFailure]);
    this.#options.observe({ type: 'failure', where: 'process', cause });
  }
}
