// @ts-check
import { hasStatus } from '../api/api-error.js';
import { el } from './dom.js';
import { explain, requestIdLine } from './explain.js';

/**
 * @typedef {object} StateAction
 * @property {string} label
 * @property {() => void} act
 */

/**
 * Puts a state in place of a panel's content: empty, failed.
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
  place.replaceChildren(state);
  place.hidden = false;
}

/** @param {HTMLElement} place */
export function clearState(place) {
  place.replaceChildren();
  place.hidden = true;
}

/**
 * A panel that could not be filled: why, the id to find in the service's log, and a button to retry.
 * @param {HTMLElement} place
 * @param {string} title
 * @param {unknown} error
 * @param {() => void} retry the retry asks for a missing key again
 */
export function showFailure(place, title, error, retry) {
  if (hasStatus(error, 401)) {
    const action = { label: 'Add API key', act: retry };
    return showState(place, 'An API key is needed', 'This service shows its data to API keys only.', action);
  }
  showState(place, title, explain(error), { label: 'Try again', act: retry });
  place.firstElementChild?.setAttribute('role', 'alert');
  place.querySelector('p')?.after(...requestIdLine(error));
}
