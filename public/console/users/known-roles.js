// @ts-check
import { byId, el } from '../ui/dom.js';

/** @import { User } from './users-api.js' */

// The API has no list of roles. Browsers get slow with long lists of suggestions.
const maxRoles = 200;
/** @type {Set<string>} */
const known = new Set();

/**
 * Suggests the roles seen so far in every role field.
 * @param {readonly User[]} users
 */
export function learnRoles(users) {
  const before = known.size;
  for (const { role } of users) {
    if (role !== undefined && known.size < maxRoles) known.add(role);
  }
  if (known.size === before) return;
  const options = [...known].sort().map((value) => el('option', { value }));
  byId('known-roles', HTMLDataListElement).replaceChildren(...options);
}
