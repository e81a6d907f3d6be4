// @ts-check
import { isOwnRequest } from './client.js';
import { apiUrl, receive, wait } from './connection.js';

/** @import { ApiKey } from '../ui/api-key.js' */

/**
 * A change of a user or a post, as an event of CloudEvents 1.0.
 * @typedef {object} Change
 * @property {string} type
 * @property {number} version
 * @property {string} [requestid]
 * @property {any} data the user or post
 */

/** @typedef {'live' | 'reconnecting' | 'off'} ChangesState */

const longestPauseMs = 10_000;
const firstPauseMs = 500;
// The service sends something every 15 s, so a connection that is silent for longer is lost.
const longestSilenceMs = 45_000;

/**
 * Follows the changes of the service while the page is visible. It reads the stream with `fetch`, because an
 * `EventSource` cannot send an API key.
 * Events: `state`; `change`, with the change of another client in `detail`; and `gone` when changes were
 * missed, so that everything must be read again.
 */
export class Changes extends EventTarget {
  #apiKey;
  /** @type {ChangesState} */
  #state = 'off';
  /** @type {string | undefined} */
  #position;
  #isRunning = false;
  #pauseMs = firstPauseMs;
  #connection = new AbortController();

  /** @param {ApiKey} apiKey */
  constructor(apiKey) {
    super();
    this.#apiKey = apiKey;
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.#connection.abort();
      else void this.#run();
    });
    apiKey.addEventListener('change', () => this.reconnect());
  }

  get state() {
    return this.#state;
  }

  /**
   * Starts after a list that was just read. Has no effect if it already follows.
   * @param {string | undefined} link the `monitor` link of the list, or none if the service keeps no changes
   */
  begin(link) {
    if (link === undefined || this.#position !== undefined) return;
    this.#position = apiUrl(link).searchParams.get('after') ?? '0';
    void this.#run();
  }

  /** Connects again at once, with the present key. */
  reconnect() {
    this.#connection.abort();
    void this.#run();
  }

  async #run() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (this.#position !== undefined && !document.hidden) {
      this.#connection = new AbortController();
      const { signal } = this.#connection;
      try {
        if (!(await this.#follow(this.#position, signal))) break;
      } catch {
        // The loop retries.
      }
      if (signal.aborted) continue;
      this.#show('reconnecting');
      await wait(this.#pauseMs * (1 + Math.random()), signal).catch(() => undefined);
      this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
    }
    this.#isRunning = false;
  }

  /**
   * @param {string} position
   * @param {AbortSignal} signal
   * @returns {Promise<boolean>} whether to connect again
   */
  #follow(position, signal) {
    const key = this.#apiKey.value;
    const headers = {
      accept: 'text/event-stream',
      'last-event-id': position,
      ...(key !== undefined && { 'x-api-key': key }),
    };
    return receive(apiUrl('changes'), { headers, signal }, longestSilenceMs, async (response, parts) => {
      const { status } = response;
      if (status === 410) {
        this.#lose();
        return true;
      }
      // Other client errors last until the page or its key changes. A proxy may send 429.
      if (status >= 400 && status < 500 && ![408, 429].includes(status)) {
        this.#show('off');
        return false;
      }
      if (!response.ok) throw new Error(`the stream failed with ${status}`);
      this.#show('live');
      this.#pauseMs = firstPauseMs;
      let rest = '';
      for await (const part of parts) {
        const blocks = (rest + part).split('\n\n');
        rest = blocks.pop() ?? '';
        for (const block of blocks) await this.#take(block);
      }
      return true;
    });
  }

  /** @param {string} block the lines of one event */
  async #take(block) {
    // Not a pattern with the flag `m`, for which U+2028 in a text ends a line.
    const { id, event, data } = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s, 2)));
    if (id !== undefined) this.#position = id;
    if (event === 'gone') return this.#lose();
    if (data === undefined) return;
    /** @type {Change} */
    const change = JSON.parse(data);
    // The page shows the outcome of its own request before later changes.
    if (await isOwnRequest(change.requestid)) return await wait(0);
    this.dispatchEvent(new CustomEvent('change', { detail: change }));
  }

  #lose() {
    this.#position = undefined;
    this.dispatchEvent(new Event('gone'));
  }

  /** @param {ChangesState} state */
  #show(state) {
    this.#state = state;
    this.dispatchEvent(new Event('state'));
  }
}
