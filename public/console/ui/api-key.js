// @ts-check
import { byId, el, showDialog } from './dom.js';
import { clearFieldProblem, showFieldProblem } from './forms.js';
import { session } from './memory.js';

const storedAs = 'api-key';
// A header accepts only visible ASCII.
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
    return session.read(storedAs);
  }

  /** @param {string} value */
  set value(value) {
    session.write(storedAs, value);
    this.isRejected = false;
    this.dispatchEvent(new Event('change'));
  }

  /**
   * Records that the service requires a key. Another key, or `accept`, ends a rejection.
   * @param {boolean} rejected whether the service has rejected the present key
   */
  need(rejected) {
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
 * The key of this tab, with its dialog and its button.
 * @returns {ApiKey}
 */
export function createApiKey() {
  /** @type {ApiKey} */
  const apiKey = new ApiKey((rejected) => dialog.ask(rejected));
  const dialog = createKeyDialog(apiKey);
  createKeyButton(apiKey);
  reloadAfterChange(apiKey);
  return apiKey;
}

/**
 * Reads everything again when Back restores this page, as it was left, and the other page has changed the key meanwhile.
 * If it has forgotten the key, loads this page again, because nothing must stay.
 * @param {ApiKey} apiKey
 */
function reloadAfterChange(apiKey) {
  /** @type {string | undefined} */
  let left;
  addEventListener('pagehide', () => {
    left = apiKey.value;
  });
  addEventListener('pageshow', ({ persisted }) => {
    const { value } = apiKey;
    if (!persisted || value === left) return;
    if (value === undefined) location.reload();
    else apiKey.value = value;
  });
}

/**
 * The dialog that asks for an API key.
 * @param {ApiKey} apiKey
 */
function createKeyDialog(apiKey) {
  const { dialog, form, input, forget, hint } = buildDialog();
  let given = false;

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key === '') return showFieldProblem(input, 'Enter a key');
    if (!sendable.test(key))
      return showFieldProblem(input, 'A key has visible ASCII characters only, and no spaces');
    apiKey.value = key;
    given = true;
    dialog.close();
  });
  forget.addEventListener('click', () => {
    // On a shared computer, nothing must stay that the key has read or that was typed with it.
    for (const name of session.names()) session.write(name, undefined);
    location.reload();
  });

  return {
    /**
     * @param {boolean} rejected whether the service has rejected the present key
     * @returns {Promise<boolean>} whether a key was given
     */
    async ask(rejected) {
      given = false;
      forget.hidden = apiKey.value === undefined;
      hint.hidden = forget.hidden;
      clearFieldProblem(input);
      const closed = showDialog(dialog);
      if (rejected) showFieldProblem(input, 'The service does not accept this key');
      await closed;
      // Remove the key from the page.
      input.value = '';
      return given;
    },
  };
}

/** Adds the dialog to the page. It is built here because several pages use it. */
function buildDialog() {
  const input = el('input', {
    ...{ class: 'input mono', id: 'key-input', type: 'password' },
    ...{ required: '', autocomplete: 'off', spellcheck: 'false', autofocus: '' },
    'aria-describedby': 'key-input-problem',
  });
  const forget = el(
    'button',
    { class: 'button button-quiet', type: 'button', 'aria-describedby': 'forget-hint' },
    'Forget key',
  );
  const hint = el(
    'p',
    { class: 'hint', id: 'forget-hint' },
    'Forgetting the key also removes unsaved text from this tab.',
  );
  const form = el(
    'form',
    { novalidate: '' },
    el('h2', { id: 'key-heading' }, 'API key'),
    el(
      'p',
      { id: 'key-text' },
      'This service asks for an API key. The key stays in this tab and is sent as ',
      el('code', {}, 'x-api-key'),
      '.',
    ),
    el('div', { class: 'field' }, el('label', { for: 'key-input' }, 'Key'), input),
    hint,
    el(
      'div',
      { class: 'actions' },
      forget,
      el('button', { class: 'button push', type: 'button', 'data-close': '' }, 'Cancel'),
      el('button', { class: 'button button-primary', type: 'submit' }, 'Use key'),
    ),
  );
  const labels = { 'aria-labelledby': 'key-heading', 'aria-describedby': 'key-text' };
  const dialog = el('dialog', { id: 'key-dialog', ...labels }, form);
  document.body.append(dialog);
  return { dialog, form, input, forget, hint };
}

/**
 * The button to add, change or remove the key. It is shown after the service has required one.
 * @param {ApiKey} apiKey
 */
function createKeyButton(apiKey) {
  const button = byId('key-button', HTMLButtonElement);

  function render() {
    const has = apiKey.value !== undefined;
    button.hidden = !has && !apiKey.isNeeded;
    const label = apiKey.isRejected ? 'API key: rejected' : has ? 'API key: set' : 'Add API key';
    byId('key-button-label', HTMLElement).textContent = label;
  }

  button.addEventListener('click', () => void apiKey.ask(apiKey.isRejected));
  apiKey.addEventListener('change', render);
  apiKey.addEventListener('need', render);
  render();
}
