// @ts-check
import { byId, el } from '../ui/dom.js';

/** @import { User } from './users-api.js' */

// The API has no list of roles; a browser gets slow on long lists of proposals.
const maxRoles = 200;
/** @type {Set<string>} */
const known = new Set();

/**
 * Proposes the roles seen so far wherever a role is typed.
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
