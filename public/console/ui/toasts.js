// @ts-check
import { byId, el } from './dom.js';

const shownMs = 5_000;

/**
 * Reports on the screen and to screen readers what was done.
 * @param {(Node | string)[]} parts
 */
export function say(...parts) {
  const toast = el('div', { class: 'toast' }, el('span', { class: 'text' }, ...parts));
  byId('toasts', HTMLElement).replaceChildren(toast);
  setTimeout(() => toast.remove(), shownMs);
}

/**
 * A name in a sentence: in its own direction, whatever the sentence's is.
 * @param {string} name
 */
export function nameText(name) {
  return el('bdi', {}, name);
}
