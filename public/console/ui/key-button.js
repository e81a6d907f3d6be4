// @ts-check
import { byId } from './dom.js';

/** @import { ApiKey } from '../api/api-key.js' */

/**
 * The button to give, change or forget the key; there once a server has asked for one.
 * @param {ApiKey} apiKey
 * @param {() => void} open
 */
export function createKeyButton(apiKey, open) {
  const button = byId('key-button', HTMLButtonElement);
  const label = byId('key-button-label', HTMLElement);

  function render() {
    const has = apiKey.value !== undefined;
    if (has) button.hidden = false;
    label.textContent = has ? 'API key: set' : 'API key: none';
  }

  button.addEventListener('click', open);
  apiKey.addEventListener('change', render);
  apiKey.addEventListener('ask', () => {
    button.hidden = false;
  });
  render();
}
