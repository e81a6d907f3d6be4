// @ts-check
import { orAborted } from './wait.js';

const delaysMs = [250, 500, 1_000, 2_000, 3_000];

/**
 * Whether the server can be reached. While it cannot, it is probed until it can.
 * Events: `away` and `back`.
 */
export class Connection extends EventTarget {
  #probe;
  /** @type {PromiseWithResolvers<void> | undefined} */
  #outage;
  #skipPause = () => {};

  /** @param {() => Promise<boolean>} probe whether the server answers now; it never fails */
  constructor(probe) {
    super();
    this.#probe = probe;
  }

  get isAway() {
    return this.#outage !== undefined;
  }

  /** Tells that a request got no answer. */
  lost() {
    if (this.#outage !== undefined) return;
    this.#outage = Promise.withResolvers();
    void this.#watch(this.#outage);
  }

  /**
   * Resolves when the server answers.
   * @param {AbortSignal} [signal]
   * @returns {Promise<void>}
   */
  answering(signal) {
    return this.#outage === undefined ? Promise.resolve() : orAborted(this.#outage.promise, signal);
  }

  /** Probes now instead of at the end of the pause. */
  tryNow() {
    this.#skipPause();
  }

  /** @param {PromiseWithResolvers<void>} outage */
  async #watch(outage) {
    let told = false;
    for (let tries = 0; !(await this.#probe()); tries += 1) {
      // A connection lost by chance is there again at the first probe: nobody needs to hear of it.
      if (!told) this.dispatchEvent(new Event('away'));
      told = true;
      await this.#pause(delaysMs[Math.min(tries, delaysMs.length - 1)] ?? 0);
    }
    this.#outage = undefined;
    outage.resolve();
    if (told) this.dispatchEvent(new Event('back'));
  }

  /** @param {number} ms */
  async #pause(ms) {
    const { promise, resolve } = Promise.withResolvers();
    const timer = setTimeout(resolve, ms);
    this.#skipPause = () => resolve(undefined);
    await promise;
    clearTimeout(timer);
    this.#skipPause = () => {};
  }
}
