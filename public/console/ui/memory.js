// @ts-check

const prefix = 'users-service.';

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
