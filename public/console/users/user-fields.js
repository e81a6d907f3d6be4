// @ts-check

/** @import { User, UserDraft, UserPatch } from './users-api.js' */

/**
 * A user as a form has it: an empty role is none.
 * @typedef {{ name: string, role: string }} UserFields
 */

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
 * The whole user, for POST and PUT.
 * @param {UserFields} fields
 * @returns {UserDraft}
 */
export function toDraft({ name, role }) {
  return role === '' ? { name } : { name, role };
}

/**
 * What PATCH has to say to get from one to the other.
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
