// @ts-check
import { apiUrl } from './connection.js';
import { createRecordCalls } from './record-calls.js';

/** @import { Fields, Kind } from '../edit/save.js' */
/** @import { Send } from './client.js' */
/** @import { RecordCalls, Tagged } from './record-calls.js' */

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

/** @typedef {{ id: number, userId: number, title: string, body: string }} Post */

/** The number of posts that are read at once, except to replace a longer list. */
export const postsOnPage = 10;

/**
 * The requests about the posts of a user.
 * @param {Send} send
 */
export function createPostsApi(send) {
  /** @type {RecordCalls<{ userId: number, id: number }, Post>} */
  const calls = createRecordCalls(send, ({ userId, id }) => `users/${userId}/posts/${id}`);
  return {
    ...calls,

    /**
     * @param {number} userId
     * @param {number} shown posts that the page replaces
     */
    firstPage(userId, shown) {
      // Always read pages, because without a limit the API returns all posts.
      return apiUrl(`users/${userId}/posts?sort=-id&limit=${Math.min(Math.max(postsOnPage, shown), 100)}`);
    },
  };
}

/** @typedef {ReturnType<typeof createPostsApi>} PostsApi */

/** @param {{ userId: number, id: number }} post */
export function postDraftName({ userId, id }) {
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
    draftName: postDraftName,
    nameOf: ({ title }) => title,
    fieldsOf: ({ title, body }) => ({ title, body }),
    parse: ({ title = '', body = '' }) => ({ title, body }),
    toPatch: changedFields,
  };
}

/**
 * The fields of the second that differ from the first.
 * @param {Fields} base
 * @param {Fields} wanted
 */
export function changedFields(base, wanted) {
  return Object.fromEntries(Object.entries(wanted).filter(([name, text]) => text !== base[name]));
}
