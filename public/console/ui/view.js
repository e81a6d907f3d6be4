// @ts-check

/**
 * What the address tells of the page: which users are listed, and which one is open. It makes a view
 * a thing to reload, to send to somebody, to go back to.
 * @typedef {object} View
 * @property {number | undefined} userId
 * @property {string} name what the names begin with; empty for any
 * @property {string} role empty for any
 * @property {string} sort a field, with `-` before it for descending
 * @property {number} limit rows on a page
 * @property {number} page where the walk starts
 */

/** @type {Readonly<View>} */
const home = { userId: undefined, name: '', role: '', sort: 'id', limit: 20, page: 1 };

const limits = [10, 20, 50, 100];
const sortPattern = /^-?(?:id|name|role)$/;
// As the API has it: no control characters, no lone surrogates.
const namePattern = /^[^\p{Cc}\p{Cs}]{1,200}$/u;
const rolePattern = /^[a-z][a-z0-9_-]{0,49}$/;

/**
 * Reads a fragment such as `#/users/12?role=admin&sort=-name`. People write these by hand: what makes
 * no sense counts as not written.
 * @param {string} fragment
 * @returns {View}
 */
export function parseView(fragment) {
  const [path = '', search = ''] = fragment.replace(/^#/, '').split('?', 2);
  const parameters = new URLSearchParams(search);
  const given = (/** @type {string} */ name) => parameters.get(name) ?? '';
  const id = /^\/users\/([1-9][0-9]{0,9})$/.exec(path)?.[1];
  return {
    userId: id === undefined ? undefined : Number(id),
    name: namePattern.test(given('name')) ? given('name') : home.name,
    role: rolePattern.test(given('role')) ? given('role') : home.role,
    sort: sortPattern.test(given('sort')) ? given('sort') : home.sort,
    limit: limits.includes(Number(given('limit'))) ? Number(given('limit')) : home.limit,
    page: /^[1-9][0-9]{0,5}$/.test(given('page')) ? Number(given('page')) : home.page,
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
 * The reference of the first page to ask the API for.
 * @param {View} view
 * @returns {string}
 */
export function listReference(view) {
  const parameters = parametersOf(view);
  parameters.set('limit', String(view.limit));
  return `users?${parameters}`;
}

/**
 * The parameters that choose users, wherever they stand in the list.
 * @param {Pick<View, 'name' | 'role'>} view
 */
export function filterOf({ name, role }) {
  const parameters = new URLSearchParams();
  if (name !== home.name) parameters.set('name', name);
  if (role !== home.role) parameters.set('role', role);
  return parameters;
}

/**
 * What the filter leaves, to follow "users"; empty without a filter.
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
