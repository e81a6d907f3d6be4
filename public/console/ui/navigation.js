// @ts-check
import { formatView, listReference, parseView } from './view.js';

/** @import { View } from './view.js' */

/**
 * The view in the address of the page and in its step of the browser's history. Event: `change`, for every kind
 * of change.
 */
export class Navigation extends EventTarget {
  /** @type {View} */
  #view = { ...parseView(location.hash), visited: history.state?.visited ?? [] };

  constructor() {
    super();
    // Links and typed addresses cause this event, too.
    addEventListener('popstate', () => this.#arrive());
  }

  get view() {
    return this.#view;
  }

  /**
   * Opens another user or another page of the list. This adds a step to the history of the browser.
   * @param {Partial<Pick<View, 'userId' | 'page' | 'visited'>>} changes
   */
  go(changes) {
    const next = { ...this.#view, ...changes };
    const address = formatView(next);
    if (address === formatView(this.#view)) history.replaceState(stateOf(next), '', address);
    else history.pushState(stateOf(next), '', address);
    this.#arrive();
  }

  /**
   * Lists other users or another order, from the first page. This adds no step, because a search would add many.
   * @param {Partial<Pick<View, 'name' | 'role' | 'sort' | 'limit'>>} changes
   */
  list(changes) {
    const next = { ...this.#view, ...changes, page: 1, visited: [] };
    history.replaceState(stateOf(next), '', formatView(next));
    this.#arrive();
  }

  #arrive() {
    const view = parseView(location.hash);
    // The step that a link adds has no state yet. A link to a user keeps the page of the list.
    const isSamePage = listReference(view) === listReference(this.#view);
    const visited = history.state?.visited ?? (isSamePage ? this.#view.visited : []);
    this.#view = { ...view, visited };
    if (history.state === null) history.replaceState(stateOf(this.#view), '');
    this.dispatchEvent(new Event('change'));
  }
}

/** @param {View} view */
function stateOf({ visited }) {
  return { visited };
}
