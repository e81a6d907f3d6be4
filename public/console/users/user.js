// @ts-check
import { createRecordCalls } from '../api/record-calls.js';
import { changedFields } from '../edit/save.js';

/** @import { Send } from '../api/client.js' */
/** @import { RecordCalls, Tagged } from '../api/record-calls.js' */
/** @import { Fields, Kind } from '../edit/save.js' */

/**
 * @typedef {{ id: number, name: string, role?: string }} User
 * @typedef {Tagged<User>} TaggedUser
 * @typedef {Omit<User, 'id'>} UserDraft
 */

/**
 * The requests about users.
 * @param {Send} send
 */
export function createUsersApi(send) {
  /** @type {RecordCalls<{ id: number }, User>} */
  const calls = createRecordCalls(send, ({ id }) => `users/${id}`);
  return {
    ...calls,

    /**
     * The number of users on all pages of a list. It uses HEAD because it does not need the rows.
     * @param {URL} url
     * @param {AbortSignal} signal
     * @returns {Promise<number>}
     */
    async count(url, signal) {
      const { headers } = await send({ method: 'HEAD', url, headers: { prefer: 'count=exact' }, signal });
      return Number(headers.get('x-total-count'));
    },
  };
}

/** @typedef {ReturnType<typeof createUsersApi>} UsersApi */

/**
 * The fields of a user in forms, in the list and in its order, with an empty text for an absent one.
 * @param {Partial<UserDraft>} fields
 * @returns {Fields & { name: string }}
 */
export function userFields({ name = '', role = '' }) {
  return { name, role: role.trim() };
}

/**
 * The complete user, for POST.
 * @param {ReturnType<typeof userFields>} fields
 * @returns {UserDraft}
 */
export function toDraft({ name, ...optional }) {
  const given = Object.entries(optional).filter(([, text]) => text !== '');
  return { name, ...Object.fromEntries(given) };
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
    fieldsOf: userFields,
    parse: userFields,
    toPatch(base, wanted) {
      const changes = Object.entries(changedFields(base, wanted));
      // Only a name cannot be removed, and the API explains why an empty one is invalid.
      return Object.fromEntries(
        changes.map(([field, text]) => [field, text === '' && field !== 'name' ? null : text]),
      );
    },
  };
}
