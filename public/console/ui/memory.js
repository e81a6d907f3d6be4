// @ts-check
import { randomKey } from '../api/client.js';
import { apiUrl } from '../api/connection.js';

// A service at another path of this host must not get or forget the texts and the key. A path contains no space.
const prefix = `users-service ${apiUrl('').pathname} `;

/**
 * Stores texts by name, also over a reload.
 * @typedef {object} Memory
 * @property {(name: string) => string | undefined} read
 * @property {(name: string, value: string | undefined) => void} write `undefined` forgets
 * @property {() => readonly string[]} names
 */

/** Texts that only this tab keeps. */
export const session = createMemory(() => sessionStorage);

/** Texts that this browser keeps for the service at this address. */
export const local = createMemory(() => localStorage);

/**
 * @param {() => Storage} storage
 * @returns {Memory}
 */
function createMemory(storage) {
  // The texts that the browser does not store, because it denies storage or has no space left.
  /** @type {Map<string, string>} */
  const instead = new Map();
  return {
    read(name) {
      try {
        return instead.get(name) ?? storage().getItem(prefix + name) ?? undefined;
      } catch {
        return undefined;
      }
    },
    names() {
      return [...new Set([...instead.keys(), ...storedNames(storage)])];
    },
    write(name, value) {
      instead.delete(name);
      try {
        if (value === undefined) storage().removeItem(prefix + name);
        else storage().setItem(prefix + name, value);
      } catch {
        if (value !== undefined) instead.set(name, value);
      }
    },
  };
}

/** @param {() => Storage} storage */
function storedNames(storage) {
  try {
    return Object.keys(storage())
      .filter((name) => name.startsWith(prefix))
      .map((name) => name.slice(prefix.length));
  } catch {
    return [];
  }
}

/**
 * The typed and unsaved text of a form, with the data for a safe retry. It survives closing the form and
 * reloading the page.
 * @typedef {object} Draft
 * @property {Record<string, string>} fields
 * @property {Record<string, string>} [base] the fields of the version at the start of the edit
 * @property {readonly Readonly<Record<string, string>>[]} [tried] the fields of saves over that version
 *   that have failed without a rejection
 * @property {{ key: string, body: string }} [sent] the last attempt to create, with its Idempotency-Key
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

/**
 * Stores the text typed into a form that creates a record.
 * @param {string} name
 * @param {Record<string, string>} fields
 * @returns {boolean} whether there is any
 */
export function writeTyped(name, fields) {
  const isTyped = Object.values(fields).some((text) => text !== '');
  writeDraft(name, isTyped ? { ...readDraft(name), fields } : undefined);
  return isTyped;
}

/**
 * The users with unsaved text that another person has deleted. The text can be copied, but not saved.
 * @type {Set<number>}
 */
export const deletedUsers = new Set();

/** @param {number} userId a user that another person has deleted */
export function markDeleted(userId) {
  if (hasDraftsOf(userId)) deletedUsers.add(userId);
}

/**
 * Whether there is unsaved text, except that of deleted users who are not open.
 * @param {number | undefined} openId
 */
export function hasDrafts(openId) {
  return session.names().some((name) => {
    const draft = /^draft\.(?:(?:user|post)\.(\d+))?/.exec(name);
    const userId = Number(draft?.[1]);
    return draft !== null && (userId === openId || !deletedUsers.has(userId));
  });
}

/**
 * Forgets the unsaved text about a user and the posts of this user.
 * @param {number} userId
 */
export function forgetDraftsOf(userId) {
  for (const name of draftsOf(userId)) session.write(name, undefined);
}

/** @param {number} userId */
export function hasDraftsOf(userId) {
  return draftsOf(userId).length > 0;
}

/** @param {number} userId */
function draftsOf(userId) {
  const pattern = new RegExp(`^draft\\.(user|post)\\.${userId}\\b`);
  return session.names().filter((name) => pattern.test(name));
}

/**
 * The Idempotency-Key for creating a record from a form. The same text keeps its key until it is created, so
 * that a retry after a lost response cannot create it twice. Other text gets a new key.
 * @param {string} name
 * @param {object} body
 * @returns {string}
 */
export function creationKey(name, body) {
  const draft = readDraft(name);
  const text = JSON.stringify(body);
  if (draft?.sent?.body === text) return draft.sent.key;
  const key = randomKey();
  if (draft !== undefined) writeDraft(name, { ...draft, sent: { key, body: text } });
  return key;
}
