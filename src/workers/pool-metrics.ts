import { countersOf, sumMetrics } from '../telemetry/sum-metrics.ts';

/** Of each worker, its metrics as it told them last. `Key` stands for the worker. */
export class PoolMetrics<Key> {
  readonly #told = new Map<Key, string>();
  readonly #ask: (worker: Key) => void;
  readonly #timeoutMs: number;
  /** What those that are gone had counted: sums must not fall when one is replaced. */
  #gone = '';
  #silent = new Set<Key>();
  #allTold: () => void = () => undefined;
  #gathering: Promise<string> | undefined;

  /** `ask` bids a worker tell its metrics, for which it has `timeoutMs`. */
  constructor(ask: (worker: Key) => void, timeoutMs: number) {
    this.#ask = ask;
    this.#timeoutMs = timeoutMs;
  }

  /** From now on a worker can be asked. */
  join(worker: Key): void {
    this.#told.set(worker, '');
  }

  /** A worker has told its metrics, asked or not. */
  take(worker: Key, text: string): void {
    if (!this.#told.has(worker)) return;
    this.#told.set(worker, text);
    this.#silent.delete(worker);
    if (this.#silent.size === 0) this.#allTold();
  }

  /** Nothing more will come of a worker. */
  leave(worker: Key): void {
    this.#gone = sumMetrics([this.#gone, countersOf(this.#told.get(worker) ?? '')]);
    this.#told.delete(worker);
    this.#silent.delete(worker);
    if (this.#silent.size === 0) this.#allTold();
  }

  /** The sum over all workers there are and have been. Those who ask at once share one round. */
  gather(): Promise<string> {
    this.#gathering ??= this.#gather().finally(() => {
      this.#gathering = undefined;
    });
    return this.#gathering;
  }

  async #gather(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#allTold = resolve;
    this.#silent = new Set(this.#told.keys());
    if (this.#silent.size === 0) resolve();
    for (const worker of this.#silent) this.#ask(worker);
    const timer = setTimeout(resolve, this.#timeoutMs);
    await promise;
    clearTimeout(timer);
    const silent = this.#silent.size;
    return sumMetrics([...this.#told.values(), this.#gone, workerCounts(this.#told.size - silent, silent)]);
  }
}

// One that is silent counts with what it told last.
function workerCounts(current: number, silent: number): string {
  const name = 'users_service_workers';
  return `# HELP ${name} Workers, by whether they told their numbers in time.
# TYPE ${name} gauge
${name}{numbers="current"} ${current}
${name}{numbers="earlier"} ${silent}
`;
}
