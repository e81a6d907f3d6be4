// @ts-check
import { hasStatus } from '../api/api-error.js';
import { mergeFields, sameFields } from './fields.js';

/** @import { RecordCalls, Tagged } from '../api/record-calls.js' */
/** @import { Fields, Merge } from './fields.js' */

/**
 * What editing needs to know of a kind of record.
 * @template T
 * @typedef {object} Kind
 * @property {Pick<RecordCalls<T, T>, 'get' | 'update'>} calls
 * @property {(record: T) => string} draftName
 * @property {(record: T) => string} nameOf what messages call the record
 * @property {(record: T) => Fields} fieldsOf
 * @property {(typed: Fields) => Fields} parse the fields that typed text stands for
 * @property {(base: Fields, wanted: Fields) => object} toPatch the merge patch from one to the other
 */

/**
 * @template T
 * @typedef {object} Saved
 * @property {Tagged<T>} tagged the record as it is now
 * @property {string[]} theirs fields that another person changed meanwhile
 * @property {boolean} discarded whether nothing of the edit was kept
 */

/**
 * Asks for each conflicting field which value to keep. Resolves to `undefined` when that is put off.
 * @typedef {(base: Fields, mine: Merge, theirs: Fields) => Promise<Fields | undefined>} Choose
 */

/**
 * Saves an edit over the version it began from. When that version is out of date, both changes are
 * merged from it, field by field, and the merge is saved over the newer version.
 * @template T
 * @param {Kind<T>} kind
 * @param {Choose} choose
 * @param {{ record: T, etag: string, base: Fields }} from
 * @param {Fields} wanted
 * @returns {Promise<Saved<T> | undefined>} nothing when there is more to edit
 */
export async function save(kind, choose, { record, etag, base }, wanted) {
  /** @type {Set<string>} */
  const theirs = new Set();
  for (;;) {
    try {
      const tagged = await kind.calls.update(record, etag, kind.toPatch(base, wanted));
      return { tagged, theirs: [...theirs], discarded: false };
    } catch (error) {
      if (!hasStatus(error, 412)) throw error;
    }
    const latest = await kind.calls.get(record);
    const fields = kind.fieldsOf(latest.record);
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
