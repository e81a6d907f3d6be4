// @ts-check
import { apiUrl } from '../api/base.js';
import { createRecordCalls } from '../api/record-calls.js';

/** @import { Send } from '../api/client.js' */
/** @import { RecordCalls } from '../api/record-calls.js' */

/** @typedef {{ id: number, userId: number, title: string, body: string }} Post */

/**
 * The calls on a user's posts.
 * @param {Send} send
 */
export function createPostsApi(send) {
  /** @type {RecordCalls<{ userId: number, id: number }, Post>} */
  const calls = createRecordCalls(send, ({ userId, id }) => `users/${userId}/posts/${id}`);
  return {
    ...calls,

    /** @param {number} userId */
    firstPage(userId) {
      // Always by pages: without a limit the API sends every post there is.
      return apiUrl(`users/${userId}/posts?sort=-id&limit=10`);
    },
  };
}

/** @typedef {ReturnType<typeof createPostsApi>} PostsApi */
