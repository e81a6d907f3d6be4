// @ts-check
import { changedFields } from '../edit/fields.js';

/** @import { Fields } from '../edit/fields.js' */
/** @import { Kind } from '../edit/save.js' */
/** @import { User, UserDraft, UsersApi } from './users-api.js' */

/**
 * The fields of a user in a form, with an empty text for no role.
 * @param {Fields} fields
 */
export function userFields({ name = '', role = '' }) {
  return { name, role: role.trim() };
}

/**
 * The complete user, for POST.
 * @param {ReturnType<typeof userFields>} fields
 * @returns {UserDraft}
 */
export function toDraft({ name, role }) {
  return role === '' ? { name } : { name, role };
}

/**
 * The functions that the edit form needs for users.
 * @param {UsersApi} calls
 * @returns {Kind<User>}
 */
export function userKind(calls) {
  return {
    calls,
    draftName: ({ id }) => `user.${id}`,
    nameOf: ({ name }) => name,
    fieldsOf: ({ name, role = '' }) => ({ name, role }),
    parse: userFields,
    toPatch(base, wanted) {
      const changes = changedFields(base, wanted);
      return changes['role'] === '' ? { ...changes, role: null } : changes;
    },
  };
}
