// @ts-check
import { keyProblem } from '../api/api-key.js';
import { showDialog } from './dialog.js';
import { byId } from './dom.js';
import { showFormError } from './states.js';

/** @import { ApiKey } from '../api/api-key.js' */

/**
 * The question for an API key.
 * @param {ApiKey} apiKey
 */
export function createKeyDialog(apiKey) {
  const dialog = byId('key-dialog', HTMLDialogElement);
  const input = byId('key-input', HTMLInputElement);
  const problem = byId('key-error', HTMLElement);
  const forget = byId('key-forget', HTMLButtonElement);
  let given = false;

  byId('key-form', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    const key = input.value.trim();
    const wrong = keyProblem(key);
    if (wrong !== undefined) return showFormError(problem, new Error(wrong));
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
     * @param {string} [reason] the server's words
     * @returns {Promise<boolean>} whether a key was given
     */
    async ask(reason) {
      given = false;
      input.value = '';
      forget.hidden = apiKey.value === undefined;
      showFormError(problem, reason === undefined ? undefined : new Error(reason));
      await showDialog(dialog);
      // Nobody else's eyes in the meantime.
      input.value = '';
      return given;
    },
  };
}
