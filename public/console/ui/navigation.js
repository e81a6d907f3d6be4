// @ts-check
import { userFields } from '../api/resources.js';

/** @import { User } from '../api/resources.js' */

/**
 * The state of the page: which users are listed, and which one is open. A view can be reloaded, shared and
 * revisited. Everything is in the address except `visited`.
 * @typedef {object} View
 * @property {number | undefined} userId
 * @property {string} name the start of the names, or empty for any
 * @property {string} role the role, or empty for any
 * @property {string} sort a field, with `-` before it for descending
 * @property {number} limit rows on a page
 * @property {number} page the number of the page
 * @property {readonly string[]} visited the cursor addresses up to this page; if empty, the page is requested by
 *   its number
 */

/** @type {Readonly<View>} */
const home = { userId: undefined, name: '', role: '', sort: 'id', limit: 20, page: 1, visited: [] };

const limits = [10, 20, 50, 100];
const sorts = ['id', ...Object.keys(userFields({}))].flatMap((field) => [field, `-${field}`]);
// The rule of the API: no control characters and no lone surrogates.
const namePattern = /^[^\p{Cc}\p{Cs}]{1,200}$/u;
const rolePattern = /^[a-z][a-z0-9_-]{0,49}$/;

/**
 * Parses a fragment such as `#/users/12?role=admin&sort=-name`. Invalid parts are ignored, because people may
 * type these addresses.
 * @param {string} fragment
 * @returns {View}
 */
function parseView(fragment) {
  const [, path = '', search = ''] = /^#?([^?]*)\??(.*)$/s.exec(fragment) ?? [];
  const parameters = new URLSearchParams(search);
  const given = (/** @type {string} */ name) => parameters.get(name) ?? '';
  const id = /^\/users\/([1-9][0-9]{0,9})$/.exec(path)?.[1];
  return {
    userId: id === undefined ? undefined : Number(id),
    name: namePattern.test(given('name')) ? given('name') : home.name,
    role: rolePattern.test(given('role')) ? given('role') : home.role,
    sort: sorts.includes(given('sort')) ? given('sort') : home.sort,
    limit: limits.includes(Number(given('limit'))) ? Number(given('limit')) : home.limit,
    page: /^[1-9][0-9]{0,5}$/.test(given('page')) ? Number(given('page')) : home.page,
    visited: home.visited,
  };
}

/**
 * @param {View} view
 * @returns {string}
 */
export function formatView(view) {
  const path = view.userId === undefined ? '#/' : `#/users/${view.userId}`;
  const parameters = parametersOf(view);
  if (view.limit !== home.limit) parameters.set('limit', String(view.limit));
  return parameters.size === 0 ? path : `${path}?${parameters}`;
}

/**
 * The reference of the page in the API, by its number.
 * @param {View} view
 * @returns {string}
 */
export function listReference(view) {
  const parameters = parametersOf(view);
  parameters.set('limit', String(view.limit));
  return `users?${parameters}`;
}

/**
 * The parameters that filter users, without paging.
 * @param {Pick<View, 'name' | 'role'>} view
 */
export function filterOf({ name, role }) {
  const parameters = new URLSearchParams();
  if (name !== home.name) parameters.set('name', name);
  if (role !== home.role) parameters.set('role', role);
  return parameters;
}

/**
 * Whether a user is among those that a view lists on its pages.
 * @param {Pick<View, 'name' | 'role'>} view
 * @param {User} user
 */
export function isListed({ name, role }, user) {
  return user.name.startsWith(name) && (role === home.role || user.role === role);
}

/**
 * Whether a view lists the first user before the second. Unlike the service, it compares UTF-16 units, whose order differs
 * only for characters beyond U+FFFF.
 * @param {Pick<View, 'sort'>} view
 * @param {User} first
 * @param {User} second
 */
export function isBefore({ sort }, first, second) {
  const textOf = (/** @type {User} */ user) => userFields(user)[sort.replace('-', '')] ?? '';
  const [low, high] = sort.startsWith('-') ? [second, first] : [first, second];
  return textOf(low) === textOf(high) ? low.id < high.id : textOf(low) < textOf(high);
}

/**
 * A description of the filter to follow "users", or empty without a filter.
 * @param {Pick<View, 'name' | 'role'>} view
 */
export function filterText({ name, role }) {
  const parts = [
    ...(role === home.role ? [] : [`with the role ${role}`]),
    ...(name === home.name ? [] : [`whose names begin with “${name}”`]),
  ];
  return parts.join(' ');
}

/** @param {View} view */
function parametersOf({ name, role, sort, page }) {
  const parameters = filterOf({ name, role });
  if (sort !== home.sort) parameters.set('sort', sort);
  if (page !== home.page) parameters.set('page', String(page));
  return parameters;
}

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
