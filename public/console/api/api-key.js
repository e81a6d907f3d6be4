// @ts-check
import { session } from '../ui/memory.js';

const name = 'api-key';
const sendable = /^[\x21-\x7e]+$/;

/**
 * The key that this tab sends, and the dialog that asks for it. The key is forgotten when the tab closes.
 * Events: `change`, and `need` when the service requires a key, or another one.
 */
export class ApiKey extends EventTarget {
  #askPerson;
  /** Whether the service requires a key for at least some requests. */
  isNeeded = false;
  /** Whether the service has rejected the present key. */
  isRejected = false;
  /** @type {Promise<boolean> | undefined} */
  #asking;

  /** @param {(rejected: boolean) => Promise<boolean>} askPerson resolves to whether a key was given */
  constructor(askPerson) {
    super();
    this.#askPerson = askPerson;
  }

  /** @returns {string | undefined} */
  get value() {
    return session.read(name);
  }

  /** @param {string} value */
  set value(value) {
    session.write(name, value);
    this.isRejected = false;
    this.dispatchEvent(new Event('change'));
  }

  /**
   * Records that the service requires a key. Another key, or `accept`, ends a rejection.
   * @param {boolean} rejected whether the service has rejected the present key
   */
  need(rejected = false) {
    if (this.isNeeded && (this.isRejected || !rejected)) return;
    this.isNeeded = true;
    this.isRejected = rejected;
    this.dispatchEvent(new Event('need'));
  }

  /** Ends a rejection of the present key, such as by a copy of the service that had not read it yet. */
  accept() {
    if (!this.isRejected) return;
    this.isRejected = false;
    this.dispatchEvent(new Event('change'));
  }

  /**
   * Asks once, even if several requests were rejected at the same time.
   * @param {boolean} rejected whether the service has rejected the present key
   * @returns {Promise<boolean>}
   */
  ask(rejected) {
    this.need(rejected);
    this.#asking ??= this.#askPerson(rejected).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /**
   * Asks for a key before a request, if the service requires one and none is set.
   * @returns {Promise<boolean>} whether to continue
   */
  async ready() {
    return !this.isNeeded || this.value !== undefined || (await this.ask(false));
  }
}

/**
 * The reason why a text cannot be sent as a key. A header accepts only visible ASCII.
 * @param {string} value
 * @returns {string | undefined}
 */
export function keyProblem(value) {
  return sendable.test(value) ? undefined : 'A key has visible ASCII characters only, and no spaces';
}
