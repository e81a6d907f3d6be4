// @ts-check
import { keyProblem } from '../api/api-key.js';
import { showDialog } from './dialog.js';
import { byId } from './dom.js';
import { clearFieldProblem, showFieldProblem } from './form-problem.js';

/** @import { ApiKey } from '../api/api-key.js' */

/**
 * The question for an API key.
 * @param {ApiKey} apiKey
 */
export function createKeyDialog(apiKey) {
  const dialog = byId('key-dialog', HTMLDialogElement);
  const input = byId('key-input', HTMLInputElement);
  const form = byId('key-form', HTMLFormElement);
  const forget = byId('key-forget', HTMLButtonElement);
  let given = false;

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const key = input.value.trim();
    const wrong = key === '' ? 'Enter a key' : keyProblem(key);
    if (wrong !== undefined) return showFieldProblem(input, wrong);
    apiKey.value = key;
    given = true;
    dialog.close();
  });
  forget.addEventListener('click', () => {
    apiKey.value = undefined;
    dialog.close();
  });

  return {
    /**
     * @param {boolean} rejected whether the service has rejected the present key
     * @returns {Promise<boolean>} whether a key was given
     */
    async ask(rejected) {
      given = false;
      input.value = '';
      forget.hidden = apiKey.value === undefined;
      clearFieldProblem(input);
      const closed = showDialog(dialog);
      if (rejected) showFieldProblem(input, 'The service does not accept this key');
      await closed;
      // The key does not stay in the page.
      input.value = '';
      return given;
    },
  };
}
