// @ts-check
import { apiUrl } from '../api/base.js';
import { createRecordCalls } from '../api/record-calls.js';
import { changedFields } from '../edit/save.js';

/** @import { Send } from '../api/client.js' */
/** @import { RecordCalls } from '../api/record-calls.js' */
/** @import { Kind } from '../edit/save.js' */

/** @typedef {{ id: number, userId: number, title: string, body: string }} Post */

/**
 * The requests about the posts of a user.
 * @param {Send} send
 */
export function createPostsApi(send) {
  /** @type {RecordCalls<{ userId: number, id: number }, Post>} */
  const calls = createRecordCalls(send, ({ userId, id }) => `users/${userId}/posts/${id}`);
  return {
    ...calls,

    /** @param {number} userId */
    firstPage(userId) {
      // Always read pages, because without a limit the API returns all posts.
      return apiUrl(`users/${userId}/posts?sort=-id&limit=10`);
    },
  };
}

/** @typedef {ReturnType<typeof createPostsApi>} PostsApi */

/** @param {{ userId: number, id: number }} post */
export function draftName({ userId, id }) {
  return `post.${userId}.${id}`;
}

/**
 * The functions that the edit form needs for posts.
 * @param {PostsApi} calls
 * @returns {Kind<Post>}
 */
export function postKind(calls) {
  return {
    calls,
    draftName,
    nameOf: ({ title }) => title,
    fieldsOf: ({ title, body }) => ({ title, body }),
    parse: ({ title = '', body = '' }) => ({ title, body }),
    toPatch: changedFields,
  };
}
