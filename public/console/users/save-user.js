// @ts-check
import { hasStatus } from '../api/api-error.js';
import { fieldsOf, mergeFields, sameFields, toPatch } from './user-fields.js';

/** @import { TaggedUser, UsersApi } from './users-api.js' */
/** @import { Merge, UserFields } from './user-fields.js' */

/**
 * @typedef {object} Saved
 * @property {TaggedUser} tagged the user as it is now
 * @property {(keyof UserFields)[]} theirs fields that another person changed meanwhile
 * @property {boolean} discarded whether nothing of the edit was kept
 */

/**
 * Asks for each conflicting field which value to keep. Resolves to `undefined` when that is put off.
 * @typedef {(base: UserFields, mine: Merge, theirs: UserFields) => Promise<UserFields | undefined>} Choose
 */

/**
 * Saves an edit over the version it began from. When that version is out of date, both changes are
 * merged from it, field by field, and the merge is saved over the newer version.
 * @param {UsersApi} users
 * @param {Choose} choose
 * @param {{ id: number, etag: string, base: UserFields }} from
 * @param {UserFields} wanted
 * @returns {Promise<Saved | undefined>} nothing when there is more to edit
 */
export async function saveUser(users, choose, { id, etag, base }, wanted) {
  /** @type {Set<keyof UserFields>} */
  const theirs = new Set();
  for (;;) {
    try {
      const tagged = await users.update(id, etag, toPatch(base, wanted));
      return { tagged, theirs: [...theirs], discarded: false };
    } catch (error) {
      if (!hasStatus(error, 412)) throw error;
    }
    const latest = await users.get(id);
    const fields = fieldsOf(latest.user);
    const merge = mergeFields(base, wanted, fields);
    for (const name of merge.theirs) theirs.add(name);
    const asked = merge.conflicts.length > 0;
    const chosen = asked ? await choose(base, merge, fields) : merge.fields;
    if (chosen === undefined) return undefined;
    // Nothing is left to send: the edit was given up, or it is there already because the response to
    // an earlier attempt was lost.
    if (sameFields(chosen, fields)) return { tagged: latest, theirs: [...theirs], discarded: asked };
    ({ etag } = latest);
    base = fields;
    wanted = chosen;
  }
}
