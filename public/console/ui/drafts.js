// @ts-check

import { session } from './memory.js';
import { randomKey } from './random-key.js';

/**
 * What was typed and not yet saved, by form. It outlives the form's being closed and the page's being
 * reloaded, together with what a safe retry needs.
 * @typedef {object} Draft
 * @property {Record<string, string>} fields
 * @property {string} [etag] of the version the edit began from
 * @property {Record<string, string>} [base] that version's fields
 * @property {{ key: string, body: string }} [sent] the last try to create, and its Idempotency-Key
 */

/**
 * @param {string} name
 * @returns {Draft | undefined}
 */
export function readDraft(name) {
  const text = session.read(`draft.${name}`);
  return text === undefined ? undefined : JSON.parse(text);
}

/**
 * @param {string} name
 * @param {Draft | undefined} draft `undefined` forgets
 */
export function writeDraft(name, draft) {
  session.write(`draft.${name}`, draft === undefined ? undefined : JSON.stringify(draft));
}

/** Whether anything is typed that was not saved. */
export function hasDrafts() {
  return session.names().some((name) => name.startsWith('draft.'));
}

/**
 * The Idempotency-Key for creating what a form holds. The same text keeps its key until it is
 * created, so that a second try after a lost answer cannot create it twice; other text is another key.
 * @param {string} name
 * @param {object} body
 * @returns {string}
 */
export function creationKey(name, body) {
  const draft = readDraft(name) ?? { fields: {} };
  const text = JSON.stringify(body);
  if (draft.sent?.body === text) return draft.sent.key;
  const key = randomKey();
  writeDraft(name, { ...draft, sent: { key, body: text } });
  return key;
}
