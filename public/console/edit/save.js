// @ts-check
import { hasStatus } from '../api/client.js';
import { versionOf } from '../api/record-calls.js';
import { changedFields } from '../api/resources.js';

/** @import { RecordCalls, Tagged } from '../api/record-calls.js' */

/**
 * The functions that the edit form needs for a kind of record.
 * @template T
 * @typedef {object} Kind
 * @property {Pick<RecordCalls<T, T>, 'get' | 'update' | 'noteSaved'>} calls
 * @property {(record: T) => string} draftName
 * @property {(record: T) => string} nameOf the name of the record in messages
 * @property {(record: T) => Fields} fieldsOf
 * @property {(typed: Fields) => Fields} parse the fields for the typed text
 * @property {(base: Fields, wanted: Fields) => object} toPatch the merge patch from one to the other
 */

/**
 * @template T
 * @typedef {object} Saved
 * @property {Tagged<T>} tagged the current record
 * @property {string[]} theirs fields that another person changed during the edit
 * @property {boolean} discarded whether the edit was discarded completely
 * @property {boolean} [isReported] whether the save was already reported, because it arrived by the feed of changes
 */

/**
 * Asks which value to keep for each conflicting field of the record with this name. Resolves to `undefined` if the
 * dialog is cancelled.
 * @typedef {(name: string, base: Fields, mine: Merge, theirs: Fields) => Promise<Fields | undefined>} Choose
 */

/**
 * Saves an edit over the version that it started from. If that version is outdated, both changes are merged
 * field by field, and the merge is saved over the newer version.
 * @template T
 * @param {Kind<T>} kind
 * @param {Choose} choose
 * @param {{ record: T, etag: string, base: Fields, tried: readonly Fields[] }} from
 * @param {Fields} wanted
 * @param {AbortSignal} signal
 * @returns {Promise<Saved<T> | undefined>} `undefined` when the edit continues
 */
export async function save(kind, choose, { record, etag, base, tried }, wanted, signal) {
  /** @type {Set<string>} */
  const theirs = new Set();
  for (;;) {
    let rejection;
    try {
      const tagged = await kind.calls.update(record, etag, kind.toPatch(base, wanted), signal);
      return { tagged, theirs: [...theirs], discarded: false };
    } catch (error) {
      if (!hasStatus(error, 412)) throw error;
      rejection = error;
    }
    const latest = await kind.calls.get(record, signal);
    // Another attempt with the same version would fail again.
    if (latest.etag === etag) throw rejection;
    const fields = kind.fieldsOf(latest.record);
    const merge = mergeFields(base, wanted, fields, tried);
    for (const name of merge.theirs) theirs.add(name);
    const asked = merge.conflicts.length > 0;
    const chosen = asked ? await choose(kind.nameOf(record), base, merge, fields) : merge.fields;
    if (chosen === undefined) return undefined;
    // No change is left to send. The edit was discarded, or an earlier attempt succeeded but its response was
    // lost.
    if (sameFields(chosen, fields)) {
      const isReported = !asked && !kind.calls.noteSaved(record, versionOf(latest));
      return { tagged: latest, theirs: [...theirs], discarded: asked, isReported };
    }
    ({ etag } = latest);
    base = fields;
    wanted = chosen;
  }
}

/**
 * The texts of the fields of a form, by name.
 * @typedef {Readonly<Record<string, string>>} Fields
 */

/**
 * The label of a field on the page.
 * @param {string} name
 */
export function labelOf(name) {
  return name === 'body' ? 'text' : name;
}

/**
 * @param {Fields} a
 * @param {Fields} b
 */
export function sameFields(a, b) {
  return Object.keys(changedFields(a, b)).length === 0;
}

/**
 * The merge of two changes of the same version.
 * @typedef {object} Merge
 * @property {Fields} fields both changes together, with my value where they conflict
 * @property {string[]} conflicts fields that both changed, to different values
 * @property {string[]} theirs fields that only the other person changed
 */

/**
 * @param {Fields} base
 * @param {Fields} mine
 * @param {Fields} theirs
 * @param {readonly Fields[]} tried the fields of earlier saves of mine that may have succeeded without a response
 * @returns {Merge}
 */
export function mergeFields(base, mine, theirs, tried = []) {
  /** @type {Record<string, string>} */
  const fields = { ...mine };
  /** @type {Merge} */
  const merge = { fields, conflicts: [], theirs: [] };
  for (const [name, text] of Object.entries(theirs)) {
    if ([base, mine, ...tried].some((own) => own[name] === text)) continue;
    if (mine[name] === base[name]) {
      fields[name] = text;
      merge.theirs.push(name);
    } else merge.conflicts.push(name);
  }
  return merge;
}
