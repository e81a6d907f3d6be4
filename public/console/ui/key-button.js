// @ts-check
import { byId } from './dom.js';

/** @import { ApiKey } from '../api/api-key.js' */

/**
 * The button to add, change or remove the key. It is shown after the service has required one.
 * @param {ApiKey} apiKey
 * @param {() => void} open
 */
export function createKeyButton(apiKey, open) {
  const button = byId('key-button', HTMLButtonElement);

  function render() {
    const has = apiKey.value !== undefined;
    button.hidden = !has && !apiKey.isNeeded;
    const label = apiKey.isRejected ? 'API key: rejected' : has ? 'API key: set' : 'Add API key';
    byId('key-button-label', HTMLElement).textContent = label;
  }

  button.addEventListener('click', open);
  apiKey.addEventListener('change', render);
  apiKey.addEventListener('need', render);
  render();
}
