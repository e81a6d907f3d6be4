// @ts-check
import { session } from '../ui/memory.js';

const name = 'api-key';
const sendable = /^[\x21-\x7e]+$/;

/**
 * The key this tab sends, and how it asks for one. Kept no longer than the tab.
 * Events: `change`, and `ask` when a server has asked for a key.
 */
export class ApiKey extends EventTarget {
  #askPerson;
  /** @type {Promise<boolean> | undefined} */
  #asking;

  /** @param {(reason: string) => Promise<boolean>} askPerson resolves to whether a key was given */
  constructor(askPerson) {
    super();
    this.#askPerson = askPerson;
  }

  get value() {
    return session.read(name);
  }

  /** @param {string | undefined} value `undefined` forgets the key */
  set value(value) {
    session.write(name, value);
    this.dispatchEvent(new Event('change'));
  }

  /**
   * Asks once, however many requests were refused at the same time.
   * @param {string} reason
   * @returns {Promise<boolean>}
   */
  ask(reason) {
    this.dispatchEvent(new Event('ask'));
    this.#asking ??= this.#askPerson(reason).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }
}

/**
 * Why a text cannot be sent as a key, if it cannot: a header takes visible ASCII only.
 * @param {string} value
 * @returns {string | undefined}
 */
export function keyProblem(value) {
  return sendable.test(value) ? undefined : 'a key has visible ASCII characters only, and no spaces';
}
