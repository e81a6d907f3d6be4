import { countersOf, type MetricsSnapshot, sumSnapshots } from '../telemetry/metrics.ts';

/** The metrics of all workers, the latest of each. `Key` stands for a worker. */
export class PoolMetrics<Key> {
  readonly #latest = new Map<Key, MetricsSnapshot>();
  readonly #ask: (worker: Key) => void;
  readonly #timeoutMs: number;
  /** The counters of workers that have exited: a sum must not fall when a worker is replaced. */
  #exited: MetricsSnapshot = {};
  #pending = new Set<Key>();
  #onComplete: () => void = () => undefined;
  #gathering: Promise<MetricsSnapshot> | undefined;

  /** `ask` requests a report from a worker, which has `timeoutMs` for it. */
  constructor(ask: (worker: Key) => void, timeoutMs: number) {
    this.#ask = ask;
    this.#timeoutMs = timeoutMs;
  }

  add(worker: Key): void {
    this.#latest.set(worker, {});
  }

  /** Takes a worker's report, requested or not. */
  receive(worker: Key, metrics: MetricsSnapshot): void {
    if (!this.#latest.has(worker)) return;
    this.#latest.set(worker, metrics);
    this.#settle(worker);
  }

  /** Removes a worker that will send nothing more. */
  remove(worker: Key): void {
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

  #settle(worker: Key): void {
    this.#pending.delete(worker);
    if (this.#pending.size === 0) this.#onComplete();
  }

  async #gather(): Promise<MetricsSnapshot> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onComplete = resolve;
    this.#pending = new Set(this.#latest.keys());
    if (this.#pending.size === 0) resolve();
    for (const worker of this.#pending) this.#ask(worker);
    const timer = setTimeout(resolve, this.#timeoutMs);
    await promise;
    clearTimeout(timer);
    const workers = {
      'users_service_workers{numbers="current"}': this.#latest.size - this.#pending.size,
      // A worker that did not report in time counts with its last report.
      'users_service_workers{numbers="earlier"}': this.#pending.size,
    };
    return sumSnapshots([...this.#latest.values(), this.#exited, { users_service_workers: workers }]);
  }
}
