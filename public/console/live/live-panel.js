// @ts-check
import { probe } from '../api/connection.js';
import { byId, clone, part, setText } from '../ui/dom.js';
import { announce } from '../ui/messages.js';
import { createFigures } from './figures.js';
import { parseMetrics, takeSnapshot } from './metrics.js';

/** @import { Changes } from '../api/changes.js' */
/** @import { Connection } from '../api/connection.js' */
/** @import { ApiKey } from '../ui/api-key.js' */

const pauseMs = 2_000;
// A key that /metrics has refused is unlikely to be accepted soon.
const refusedPauseMs = 30_000;

/**
 * Health, readiness and the figures from /metrics, polled while the page is visible.
 * @param {{ connection: Connection, apiKey: ApiKey }} parts
 */
export function createLivePanel({ connection, apiKey }) {
  const panel = byId('live', HTMLElement);
  const note = byId('live-note', HTMLElement);
  const figures = createFigures();
  /** @type {Date | undefined} */
  let shownAt;
  /** @type {{ key: string | undefined, untilMs: number } | undefined} */
  let refused;

  async function poll() {
    if (connection.isAway) return;
    const key = apiKey.value;
    const isRefused = refused !== undefined && refused.key === key && performance.now() < refused.untilMs;
    const [health, ready, metrics] = await Promise.all(
      ['health', 'health/ready', ...(isRefused ? [] : ['metrics'])].map((path) => probe(path, key)),
    );
    showCheck('live-health', health?.status, 'Healthy', 'Failing');
    showCheck('live-ready', ready?.status, 'Ready', 'Not ready');
    if (health === undefined) return connection.lost();
    if (!isRefused) takeMetrics(metrics ?? { status: 0, text: '' }, key);
  }

  /**
   * @param {{ status: number, text: string }} metrics with the status 0 if there was no response
   * @param {string | undefined} key the key of the request
   */
  function takeMetrics({ status, text }, key) {
    // The first poll shows whether the service has keys, before the user sends a request. A later one shows that the
    // key has expired. It may have been replaced during the poll.
    if (status === 401) apiKey.need(key !== undefined && key === apiKey.value);
    refused =
      status === 401 || status === 403 ? { key, untilMs: performance.now() + refusedPauseMs } : undefined;
    if (status !== 200) return showStale(reasonFor(status, apiKey.isRejected));
    if (key === apiKey.value) apiKey.accept();
    delete panel.dataset['stale'];
    shownAt = new Date();
    note.textContent = 'The charts show the last two minutes, and begin again after a pause.';
    // Not performance.now(), which stands still on some systems while the computer sleeps.
    figures.add(takeSnapshot(parseMetrics(text), Date.now()));
  }

  /** @param {string} reason */
  function showStale(reason) {
    note.textContent = reason;
    if (shownAt === undefined) return;
    panel.dataset['stale'] = '';
    note.textContent += ` Not updated since ${shownAt.toLocaleTimeString('en-GB')}.`;
  }

  connection.addEventListener('away', () => {
    showCheck('live-health', undefined, '', '');
    showCheck('live-ready', undefined, '', '');
    showStale('');
  });
  const askAgain = () => {
    refused = undefined;
  };
  connection.addEventListener('back', askAgain);
  document.addEventListener('visibilitychange', askAgain);
  const pollNow = pollWhileVisible(poll, pauseMs);
  connection.addEventListener('back', pollNow);
  apiKey.addEventListener('change', pollNow);
}

/**
 * @param {number} status
 * @param {boolean} rejected whether the service has rejected the API key
 */
function reasonFor(status, rejected) {
  if (status === 401 && rejected) return 'The service does not accept the API key.';
  if (status === 401) return 'The figures need an API key.';
  if (status === 403) return 'Your API key does not cover the figures.';
  return `No figures: /metrics ${status === 0 ? 'did not respond' : `responded ${status}`}.`;
}

/**
 * @param {string} id
 * @param {number | undefined} status
 * @param {string} good
 * @param {string} bad
 */
function showCheck(id, status, good, bad) {
  const place = byId(id, HTMLElement);
  place.dataset['state'] = status === 200 ? 'good' : 'bad';
  setText(place, status === undefined ? 'No response' : status === 200 ? good : bad);
}

/**
 * Runs a task repeatedly while the page is visible, with a pause after each run.
 * @param {() => Promise<void>} task must never reject
 * @param {number} pauseMs
 * @returns {() => Promise<void>} runs the task now, unless it is running or the page is hidden
 */
function pollWhileVisible(task, pauseMs) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let running = false;

  async function run() {
    if (running || document.hidden) return;
    running = true;
    clearTimeout(timer);
    await task();
    running = false;
    timer = setTimeout(run, pauseMs);
  }

  document.addEventListener('visibilitychange', run);
  void run();
  return run;
}

const texts = { live: 'Live', reconnecting: 'Reconnecting…', off: 'Not live' };

/**
 * Shows whether the page follows the changes of other clients, and how many new users its list
 * shows when it is read again.
 * @param {Changes} changes
 */
export function createFeedState(changes) {
  const state = byId('feed-state', HTMLElement);
  /** @type {Set<number>} */
  const added = new Set();

  function show() {
    state.dataset['state'] = changes.state;
    state.textContent = texts[changes.state] + (added.size === 0 ? '' : ` · ${added.size} new`);
  }

  changes.addEventListener('state', show);
  show();
  return {
    /**
     * Counts a user that another person has added.
     * @param {number} id
     */
    add(id) {
      added.add(id);
      show();
    },

    /**
     * No longer counts a user that was deleted.
     * @param {number} id
     */
    remove(id) {
      added.delete(id);
      show();
    },

    /** Resets the count after the list was read. A user that was added during the read may be missed. */
    reset() {
      added.clear();
      show();
    },
  };
}

/**
 * Reports that the service does not respond, and that it responds again.
 * @param {Connection} connection
 * @param {() => void} focusLost moves the focus away from the removed button
 */
export function createBanner(connection, focusLost) {
  const region = byId('banner-region', HTMLElement);
  connection.addEventListener('away', () => {
    const banner = clone('banner');
    part(banner, 'retry', HTMLButtonElement).addEventListener('click', () => connection.tryNow());
    region.replaceChildren(banner);
  });
  connection.addEventListener('back', () => {
    const hadFocus = region.contains(document.activeElement);
    region.replaceChildren();
    if (hadFocus) focusLost();
    announce('The service is responding again');
  });
}
