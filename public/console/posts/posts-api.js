// @ts-check
import { apiUrl } from '../api/base.js';
import { parseLinks } from '../api/link-header.js';

/** @import { Send } from '../api/client.js' */
/** @import { Page } from '../users/users-api.js' */

/**
 * @typedef {{ id: number, userId: number, title: string, body: string }} Post
 * @typedef {{ title: string, body: string }} PostDraft
 */

/**
 * The calls on a user's posts.
 * @param {Send} send
 */
export function createPostsApi(send) {
  return {
    /** @param {number} userId */
    firstPage(userId) {
      // Always by pages: without a limit the API sends every post there is.
      return apiUrl(`users/${userId}/posts?sort=-id&limit=10`);
    },

    /**
     * @param {URL} url
     * @param {AbortSignal} signal
     * @returns {Promise<Page<Post>>}
     */
    async list(url, signal) {
      const { data, headers } = await send({ method: 'GET', url, signal });
      return { items: /** @type {Post[]} */ (data), links: parseLinks(headers.get('link')) };
    },

    /**
     * @param {number} userId
     * @param {PostDraft} draft
     * @param {string} key
     */
    async create(userId, draft, key) {
      const url = apiUrl(`users/${userId}/posts`);
      const headers = { 'content-type': 'application/json', 'idempotency-key': key };
      const { data } = await send({ method: 'POST', url, headers, body: JSON.stringify(draft) });
      return /** @type {Post} */ (data);
    },
  };
}

/** @typedef {ReturnType<typeof createPostsApi>} PostsApi */
