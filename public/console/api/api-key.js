// @ts-check
import { session } from '../ui/memory.js';

const name = 'api-key';
const sendable = /^[\x21-\x7e]+$/;

/**
 * The key this tab sends, and how it is asked for. It is kept no longer than the tab.
 * Events: `change`, and `need` when the service asks for a key for the first time.
 */
export class ApiKey extends EventTarget {
  #askPerson;
  #isNeeded = false;
  /** @type {Promise<boolean> | undefined} */
  #asking;

  /** @param {(rejected: boolean) => Promise<boolean>} askPerson resolves to whether a key was given */
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

  /** Whether the service has asked for a key, for some of its requests at least. */
  get isNeeded() {
    return this.#isNeeded;
  }

  /** Notes that the service has asked for a key. */
  need() {
    if (this.#isNeeded) return;
    this.#isNeeded = true;
    this.dispatchEvent(new Event('need'));
  }

  /**
   * Asks once, however many requests were rejected at the same time.
   * @param {boolean} rejected whether the service has rejected the present key
   * @returns {Promise<boolean>}
   */
  ask(rejected) {
    this.need();
    this.#asking ??= this.#askPerson(rejected).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /**
   * Asks for a key before it is needed, unless there is one or the service has not asked for any.
   * @returns {Promise<boolean>} whether to go on
   */
  async ready() {
    return !this.#isNeeded || this.value !== undefined || (await this.ask(false));
  }
}

/**
 * Why a text cannot be sent as a key, if it cannot: a header takes visible ASCII only.
 * @param {string} value
 * @returns {string | undefined}
 */
export function keyProblem(value) {
  return sendable.test(value) ? undefined : 'A key has visible ASCII characters only, and no spaces';
}
