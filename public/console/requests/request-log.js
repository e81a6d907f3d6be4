// @ts-check

/** @import { Call } from '../api/client.js' */
/** @import { SentRequest } from './curl.js' */

/**
 * @typedef {SentRequest & { outcome: Outcome }} Entry
 * @typedef {{ state: 'pending' | 'cancelled' }
 *   | { state: 'ended', status: number, durationMs: number, requestId: string | undefined }} Outcome
 */

const keptEntries = 25;

/**
 * The latest requests, newest first. Polls of the panel are not included, because no user action caused them.
 * Event: `change`.
 */
export class RequestLog extends EventTarget {
  #isKeyed;
  /** @type {Entry[]} */
  #entries = [];

  /** @param {() => boolean} isKeyed whether requests carry an API key */
  constructor(isKeyed) {
    super();
    this.#isKeyed = isKeyed;
  }

  /** @returns {readonly Entry[]} */
  get entries() {
    return this.#entries;
  }

  /** @param {Call} call */
  start({ method, url, headers = {}, body }) {
    const startedAt = performance.now();
    /** @type {Entry} */
    const entry = {
      ...{ method, url: url.href, headers, body },
      keyed: this.#isKeyed(),
      outcome: { state: 'pending' },
    };
    this.#entries = [entry, ...this.#entries].slice(0, keptEntries);
    this.#changed();
    return {
      /**
       * @param {number} status
       * @param {string | undefined} requestId
       */
      end: (status, requestId) => {
        const durationMs = performance.now() - startedAt;
        // A key may have been entered in the meantime.
        entry.keyed = this.#isKeyed();
        entry.outcome = { state: 'ended', status, durationMs, requestId };
        this.#changed();
      },
      cancel: () => {
        entry.outcome = { state: 'cancelled' };
        this.#changed();
      },
    };
  }

  #changed() {
    this.dispatchEvent(new Event('change'));
  }
}
