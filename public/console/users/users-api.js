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
 * The calls on users.
 * @param {Send} send
 */
export function createUsersApi(send) {
  /** @type {RecordCalls<{ id: number }, User>} */
  const calls = createRecordCalls(send, ({ id }) => `users/${id}`);
  return {
    ...calls,

    /**
     * How many users a list has on all its pages. HEAD: the rows themselves are not wanted.
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
