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
  // If the browser denies storage, keep the texts in memory.
  /** @type {Map<string, string>} */
  const instead = new Map();
  return {
    read(name) {
      try {
        return storage().getItem(prefix + name) ?? undefined;
      } catch {
        return instead.get(name);
      }
    },
    names() {
      try {
        return Object.keys(storage())
          .filter((name) => name.startsWith(prefix))
          .map((name) => name.slice(prefix.length));
      } catch {
        return [...instead.keys()];
      }
    },
    write(name, value) {
      try {
        if (value === undefined) storage().removeItem(prefix + name);
        else storage().setItem(prefix + name, value);
      } catch {
        if (value === undefined) instead.delete(name);
        else instead.set(name, value);
      }
    },
  };
}
