// @ts-check

/** @import { User, UserDraft, UserPatch } from './users-api.js' */

/**
 * A user as a form has it: an empty role is none.
 * @typedef {{ name: string, role: string }} UserFields
 */

/** @type {readonly (keyof UserFields)[]} */
const names = ['name', 'role'];

/**
 * @param {Readonly<Record<string, string>>} fields
 * @returns {UserFields}
 */
export function userFields({ name = '', role = '' }) {
  return { name, role: role.trim() };
}

/**
 * @param {User} user
 * @returns {UserFields}
 */
export function fieldsOf({ name, role = '' }) {
  return { name, role };
}

/**
 * The whole user, for POST.
 * @param {UserFields} fields
 * @returns {UserDraft}
 */
export function toDraft({ name, role }) {
  return role === '' ? { name } : { name, role };
}

/**
 * The merge patch that turns one into the other.
 * @param {UserFields} base
 * @param {UserFields} wanted
 * @returns {UserPatch}
 */
export function toPatch(base, wanted) {
  return {
    ...(wanted.name !== base.name && { name: wanted.name }),
    ...(wanted.role !== base.role && { role: wanted.role === '' ? null : wanted.role }),
  };
}

/**
 * @param {UserFields} a
 * @param {UserFields} b
 */
export function sameFields(a, b) {
  return a.name === b.name && a.role === b.role;
}

/**
 * Two changes that began from the same version.
 * @typedef {object} Merge
 * @property {UserFields} fields both changes together; where they conflict, mine
 * @property {(keyof UserFields)[]} conflicts fields that both changed, to different values
 * @property {(keyof UserFields)[]} theirs fields that only they changed
 */

/**
 * @param {UserFields} base
 * @param {UserFields} mine
 * @param {UserFields} theirs
 * @returns {Merge}
 */
export function mergeFields(base, mine, theirs) {
  const fields = { ...mine };
  /** @type {Merge} */
  const merge = { fields, conflicts: [], theirs: [] };
  for (const name of names) {
    if (theirs[name] === base[name] || theirs[name] === mine[name]) continue;
    if (mine[name] === base[name]) {
      fields[name] = theirs[name];
      merge.theirs.push(name);
    } else merge.conflicts.push(name);
  }
  return merge;
}
