import type { Worker } from 'node:cluster';
import { countersOf, type MetricsSnapshot, sumSnapshots } from '../telemetry/metrics.ts';
import { sendTo } from './worker-link.ts';

// A worker that hangs must not cost a scrape the numbers of the others.
const reportTimeoutMs = 500;

/** The metrics of all workers, the latest of each. */
export class PoolMetrics {
  readonly #latest = new Map<Worker, MetricsSnapshot>();
  /** The counters of workers that have exited: a sum must not fall when a worker is replaced. */
  #exited: MetricsSnapshot = {};
  readonly #late = new Set<Worker>();
  #onComplete: () => void = () => undefined;
  #gathering: Promise<MetricsSnapshot> | undefined;

  /** Takes a worker's report, requested or not. */
  receive(worker: Worker, metrics: MetricsSnapshot): void {
    this.#latest.set(worker, metrics);
    this.#settle(worker);
  }

  /** Removes a worker that will send nothing more. */
  remove(worker: Worker): void {
    this.#exited = sumSnapshots([this.#exited, countersOf(this.#latest.get(worker) ?? {})]);
    this.#latest.delete(worker);
    this.#settle(worker);
  }

  /** The sum over all workers, present and past. Calls at the same time share one round of reports. */
  gather(): Promise<MetricsSnapshot> {
    this.#gathering ??= this.#gather().finally(() => {
      this.#gathering = undefined;
    });
    return this.#gathering;
  }

  #settle(worker: Worker): void {
    if (this.#late.delete(worker) && this.#late.size === 0) this.#onComplete();
  }

  async #gather(): Promise<MetricsSnapshot> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onComplete = resolve;
    for (const worker of this.#latest.keys()) {
      this.#late.add(worker);
      sendTo(worker, 'report');
    }
    const timer = setTimeout(resolve, reportTimeoutMs);
    await promise;
    clearTimeout(timer);
    const workers = {
      'users_service_workers{numbers="current"}': this.#latest.size - this.#late.size,
      // A worker that did not report in time counts with its last report.
      'users_service_workers{numbers="earlier"}': this.#late.size,
    };
    this.#late.clear();
    return sumSnapshots([...this.#latest.values(), this.#exited, { users_service_workers: workers }]);
  }
}
