// @ts-check
import { changedFields } from '../edit/fields.js';

/** @import { Kind } from '../edit/save.js' */
/** @import { Post, PostsApi } from './posts-api.js' */

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
