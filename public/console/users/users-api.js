// @ts-check
import { createRecordCalls } from '../api/record-calls.js';

/** @import { Send } from '../api/client.js' */
/** @import { RecordCalls, Tagged } from '../api/record-calls.js' */

/**
 * @typedef {{ id: number, name: string, role?: string }} User
 * @typedef {Tagged<User>} TaggedUser
 * @typedef {{ name: string, role?: string }} UserDraft
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
     * @returns {Promise<number>}
     */
    async count(url) {
      const { headers } = await send({ method: 'HEAD', url, headers: { prefer: 'count=exact' } });
      return Number(headers.get('x-total-count'));
    },
  };
}

/** @typedef {ReturnType<typeof createUsersApi>} UsersApi */
