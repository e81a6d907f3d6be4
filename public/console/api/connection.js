// @ts-check
import { orAborted, wait } from './wait.js';

const delaysMs = [250, 500, 1_000, 2_000, 3_000];

/**
 * Whether the server can be reached. During an outage it is probed until it responds.
 * Events: `away` and `back`.
 */
export class Connection extends EventTarget {
  #probe;
  /** @type {PromiseWithResolvers<void> | undefined} */
  #outage;
  #pause = new AbortController();

  /** @param {() => Promise<boolean>} probe whether the server responds now. It never rejects. */
  constructor(probe) {
    super();
    this.#probe = probe;
  }

  get isAway() {
    return this.#outage !== undefined;
  }

  /** Reports that a request got no response. */
  lost() {
    if (this.#outage !== undefined) return;
    this.#outage = Promise.withResolvers();
    void this.#watch(this.#outage);
  }

  /**
   * Resolves when the server responds.
   * @param {AbortSignal} [signal]
   * @returns {Promise<void>}
   */
  answering(signal) {
    return this.#outage === undefined ? Promise.resolve() : orAborted(this.#outage.promise, signal);
  }

  /** Probes now instead of after the pause. */
  tryNow() {
    this.#pause.abort();
  }

  /** @param {PromiseWithResolvers<void>} outage */
  async #watch(outage) {
    let isReported = false;
    for (let tries = 0; !(await this.#probe()); tries += 1) {
      // After a single lost connection the first probe succeeds, so no outage is reported.
      if (!isReported) this.dispatchEvent(new Event('away'));
      isReported = true;
      this.#pause = new AbortController();
      const delayMs = delaysMs[Math.min(tries, delaysMs.length - 1)] ?? 0;
      await wait(delayMs, this.#pause.signal).catch(() => undefined);
    }
    this.#outage = undefined;
    outage.resolve();
    if (isReported) this.dispatchEvent(new Event('back'));
  }
}
