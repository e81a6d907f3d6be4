// @ts-check
import { ApiError, hasStatus } from '../api/client.js';
import { probe, wait } from '../api/connection.js';
import { byId, el } from './dom.js';

const toastMs = 5_000;
// Enough to read a short message.
const shortestToastMs = 1_500;
const readyPauseMs = 3_000;
const longestPauseMs = 30_000;

/** @type {Promise<void>} */
let isRead = Promise.resolve();

/**
 * Reports a completed action on the screen and to screen readers, after the message before it could be read.
 * @param {(Node | string)[]} parts
 */
export function announce(...parts) {
  const toast = el('div', { class: 'toast' }, el('span', { class: 'text' }, ...parts));
  isRead = isRead.then(() => {
    byId('toasts', HTMLElement).replaceChildren(toast);
    setTimeout(() => toast.remove(), toastMs);
    return wait(shortestToastMs);
  });
}

/**
 * A name within a sentence, in its own writing direction.
 * @param {string} name
 */
export function nameText(name) {
  return el('bdi', {}, name);
}

/** @type {Readonly<Record<number, string>>} */
const sentences = {
  0: 'The service did not respond. Try again.',
  401: 'This needs an API key that the service accepts.',
};

/**
 * The reason of a failure, as a sentence for the user.
 * @param {unknown} error
 * @returns {string}
 */
export function explain(error) {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  const { status, message } = error;
  if (status === 403) return `Your API key does not allow this: ${message}.`;
  if (status >= 500) return `The service reported an error: ${message} (${status}).`;
  return sentences[status] ?? `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/**
 * The request id of errors that have more details in the log of the service.
 * @param {unknown} error
 * @returns {HTMLElement[]}
 */
export function requestIdLine(error) {
  if (!(error instanceof ApiError) || error.status < 500 || error.requestId === undefined) return [];
  return [el('span', { class: 'request-id' }, `Request id: ${error.requestId}`)];
}

/**
 * @typedef {object} StateAction
 * @property {string} label
 * @property {() => void} act
 */

/**
 * Shows a state such as empty or failed instead of the content of a panel. Screen readers announce it if the place is
 * inside an element with the role `status`. They may miss such an element if it is added together with its text.
 * @param {HTMLElement} place
 * @param {string} title
 * @param {string} text
 * @param {StateAction} [action]
 */
export function showState(place, title, text, action) {
  const state = el('div', { class: 'state' }, el('h3', {}, title));
  if (text !== '') state.append(el('p', {}, text));
  if (action !== undefined) {
    const button = el('button', { class: 'button', type: 'button' }, action.label);
    button.addEventListener('click', action.act);
    state.append(button);
  }
  replaceState(place, state);
}

/** @param {HTMLElement} place */
export function clearState(place) {
  replaceState(place);
}

/**
 * Replaces a state. The focus of its button, or of content that a new state replaces, moves to the next button,
 * or else to the heading of the panel.
 * @param {HTMLElement} place
 * @param {HTMLElement[]} states
 */
function replaceState(place, ...states) {
  const active = document.activeElement;
  const isLost = states.length > 0 && active?.checkVisibility() === false;
  const hadFocus = place.contains(active) || isLost;
  place.replaceChildren(...states);
  place.hidden = states.length === 0;
  const target = place.querySelector('button') ?? place.closest('section')?.querySelector('[tabindex]');
  if (hadFocus && target instanceof HTMLElement) target.focus();
}

/**
 * Shows the reason of a failed read, the request id for the log of the service, and a button to retry. If the service is
 * not available, also retries when it is ready, after growing pauses.
 * @param {HTMLElement} place
 * @param {string} title
 * @param {unknown} error
 * @param {() => void} retry
 */
export function showFailure(place, title, error, retry) {
  if (hasStatus(error, 401)) {
    // With the key, all panels are read again.
    const action = { label: 'Add API key', act: () => byId('key-button', HTMLButtonElement).click() };
    return showState(place, 'An API key is needed', 'This service shows its data to API keys only.', action);
  }
  const lastPauseMs = Number(place.querySelector('p')?.dataset['pause'] ?? 0);
  showState(place, title, explain(error), { label: 'Try again', act: retry });
  // Inside a status, screen readers would read an alert twice.
  if (place.closest('[role="status"]') === null) place.firstElementChild?.setAttribute('role', 'alert');
  place.querySelector('p')?.after(...requestIdLine(error));
  const text = place.querySelector('p');
  const pauseMs = pauseAfter(error, lastPauseMs);
  if (pauseMs === undefined || text === null) return;
  const time = new Date(Date.now() + pauseMs).toLocaleTimeString('en-GB');
  text.dataset['pause'] = String(pauseMs);
  text.append(` The next attempt is at ${time}, if the service is ready then.`);
  void retryWhenReady(() => text.isConnected, retry, pauseMs);
}

/**
 * The pause before a failed read is tried again, or `undefined` if this error may last.
 * @param {unknown} error
 * @param {number} lastPauseMs before the failed read, or 0
 */
export function pauseAfter(error, lastPauseMs) {
  if (!hasStatus(error, 503)) return undefined;
  const growingMs = Math.min(lastPauseMs * 2 || readyPauseMs, longestPauseMs);
  return Math.max(growingMs, error.retryAfterMs || 0);
}

/**
 * @param {() => boolean} isWanted whether nothing else was shown or read in the meantime
 * @param {() => void} retry
 * @param {number} pauseMs before the first look at the readiness
 */
export async function retryWhenReady(isWanted, retry, pauseMs) {
  for (let nextMs = pauseMs; ; nextMs = readyPauseMs) {
    await wait(nextMs);
    if (!isWanted()) return;
    if ((await probe('health/ready', undefined))?.status === 200) return isWanted() && retry();
  }
}

/**
 * A number with only the meaningful digits.
 * @param {number} value
 */
export function formatNumber(value, maximumFractionDigits = value >= 100 ? 0 : value >= 10 ? 1 : 2) {
  return value.toLocaleString('en', { maximumFractionDigits });
}

/** @param {number} ms */
export function formatMs(ms) {
  return ms >= 1_000 ? `${formatNumber(ms / 1_000, 2)} s` : `${formatNumber(ms)} ms`;
}

/**
 * Copies a text and reports it.
 * @param {string} text
 */
export async function copyText(text) {
  announce((await copy(text)) ? 'Copied' : 'The browser did not allow copying. Select the line and copy it');
}

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure context or permission there is no navigator.clipboard, but execCommand still works.
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = document.activeElement;
  const area = el('textarea', { class: 'visually-hidden', 'aria-hidden': 'true' });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return copied;
}
