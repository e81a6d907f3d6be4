// @ts-check
import { ApiError } from '../api/api-error.js';
import { el } from './dom.js';

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
 * A panel that could not be filled: the server's words, the id to find them in its log, a new try.
 * @param {HTMLElement} place
 * @param {string} title
 * @param {unknown} error
 * @param {() => void} retry
 */
export function showFailure(place, title, error, retry) {
  showState(place, title, messageOf(error), { label: 'Try again', act: retry });
  place.firstElementChild?.setAttribute('role', 'alert');
  const id = requestIdOf(error);
  if (id !== undefined) place.querySelector('p')?.after(el('p', { class: 'request-id' }, `request ${id}`));
}

/**
 * Shows below a form why its request failed; `undefined` takes it away.
 * @param {HTMLElement} place
 * @param {unknown} error
 */
export function showFormError(place, error) {
  if (error === undefined) return place.replaceChildren();
  const id = requestIdOf(error);
  const lines = id === undefined ? [] : [el('span', { class: 'request-id' }, `request ${id}`)];
  place.replaceChildren(el('div', { class: 'form-error' }, messageOf(error), ...lines));
}

/** @param {unknown} error */
function messageOf(error) {
  if (error instanceof ApiError) {
    return error.status === 0 ? error.message : `${error.message} (${error.status})`;
  }
  return error instanceof Error ? error.message : String(error);
}

/** @param {unknown} error */
function requestIdOf(error) {
  return error instanceof ApiError ? error.requestId : undefined;
}
