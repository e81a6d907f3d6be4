// @ts-check
import { formatView, parseView } from './view.js';

/** @import { View } from './view.js' */

/**
 * The view in the address of the page. Event: `change`, for every kind of change.
 */
export class Navigation extends EventTarget {
  /** @type {View} */
  #view = parseView(location.hash);

  constructor() {
    super();
    addEventListener('hashchange', () => this.#arrive());
  }

  get view() {
    return this.#view;
  }

  /**
   * Opening another user adds a step to the history of the browser. Sorting the list does not.
   * @param {Partial<View>} changes
   */
  go(changes) {
    const next = { ...this.#view, ...changes };
    const address = formatView(next);
    if (next.userId === this.#view.userId) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    this.#arrive();
  }

  #arrive() {
    this.#view = parseView(location.hash);
    this.dispatchEvent(new Event('change'));
  }
}
