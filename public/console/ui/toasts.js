// @ts-check
import { byId, el } from './dom.js';

const shownMs = 5_000;

/**
 * Reports a completed action on the screen and to screen readers.
 * @param {(Node | string)[]} parts
 */
export function announce(...parts) {
  const toast = el('div', { class: 'toast' }, el('span', { class: 'text' }, ...parts));
  byId('toasts', HTMLElement).replaceChildren(toast);
  setTimeout(() => toast.remove(), shownMs);
}

/**
 * A name within a sentence, in its own writing direction.
 * @param {string} name
 */
export function nameText(name) {
  return el('bdi', {}, name);
}
