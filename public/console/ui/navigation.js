// @ts-check
import { formatView, parseView } from './view.js';

/** @import { View } from './view.js' */

/**
 * The view that the address tells of. Event: `change`, however it came about.
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
   * Another user is a step to go back from; another order of the list is not.
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
