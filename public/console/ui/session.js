// @ts-check

// A browser may refuse storage to a page; then this tab's memory has to do.
/** @type {Map<string, string>} */
const memory = new Map();
const prefix = 'users-service.';

/**
 * What this tab remembers under a name, also over a reload.
 * @param {string} name
 * @returns {string | undefined}
 */
export function readSession(name) {
  try {
    return sessionStorage.getItem(prefix + name) ?? undefined;
  } catch {
    return memory.get(name);
  }
}

/**
 * @param {string} name
 * @param {string | undefined} value `undefined` forgets
 */
export function writeSession(name, value) {
  try {
    if (value === undefined) sessionStorage.removeItem(prefix + name);
    else sessionStorage.setItem(prefix + name, value);
  } catch {
    if (value === undefined) memory.delete(name);
    else memory.set(name, value);
  }
}
