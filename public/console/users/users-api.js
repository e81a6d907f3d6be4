// @ts-check
import { apiUrl } from '../api/base.js';
import { parseLinks } from '../api/link-header.js';

/** @import { Answer, Send } from '../api/client.js' */

/**
 * @typedef {{ id: number, name: string, role?: string }} User
 * @typedef {{ user: User, etag: string }} TaggedUser a user and the version it was seen in
 * @typedef {{ name: string, role?: string }} UserDraft
 * @typedef {{ name?: string, role?: string | null }} UserPatch
 */

/**
 * A page of a collection, and where the others are.
 * @template T
 * @typedef {{ items: T[], links: Partial<Record<string, string>> }} Page
 */

/**
 * The calls on users, a function each.
 * @param {Send} send
 */
export function createUsersApi(send) {
  const json = { 'content-type': 'application/json' };

  /**
   * @param {number} id
   * @param {AbortSignal} [signal]
   */
  async function get(id, signal) {
    return tagged(await send({ method: 'GET', url: apiUrl(`users/${id}`), ...(signal && { signal }) }));
  }

  return {
    get,

    /**
     * @param {URL} url
     * @param {AbortSignal} signal
     * @returns {Promise<Page<User>>}
     */
    async list(url, signal) {
      const { data, headers } = await send({ method: 'GET', url, signal });
      return { items: /** @type {User[]} */ (data), links: parseLinks(headers.get('link')) };
    },

    /**
     * How many users a list has on all its pages. HEAD: the rows themselves are not wanted.
     * @param {URL} url
     * @returns {Promise<number>}
     */
    async count(url) {
      const { headers } = await send({ method: 'HEAD', url, headers: { prefer: 'count=exact' } });
      return Number(headers.get('x-total-count'));
    },

    /**
     * @param {UserDraft} draft
     * @param {string} key
     * @param {AbortSignal} signal
     */
    async create(draft, key, signal) {
      const headers = { ...json, 'idempotency-key': key };
      return tagged(
        await send({ method: 'POST', url: apiUrl('users'), headers, body: JSON.stringify(draft), signal }),
      );
    },

    /**
     * @param {number} id
     * @param {string} etag
     * @param {UserPatch} patch
     */
    async update(id, etag, patch) {
      const headers = { 'content-type': 'application/merge-patch+json', 'if-match': etag };
      const body = JSON.stringify(patch);
      return tagged(await send({ method: 'PATCH', url: apiUrl(`users/${id}`), headers, body }));
    },

    /**
     * @param {number} id
     * @param {string} etag
     */
    async remove(id, etag) {
      await send({ method: 'DELETE', url: apiUrl(`users/${id}`), headers: { 'if-match': etag } });
    },
  };
}

/** @typedef {ReturnType<typeof createUsersApi>} UsersApi */

/**
 * @param {Answer} answer
 * @returns {TaggedUser}
 */
function tagged({ data, headers }) {
  return { user: /** @type {User} */ (data), etag: headers.get('etag') ?? '*' };
}
