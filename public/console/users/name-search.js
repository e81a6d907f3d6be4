// @ts-check
import { byId } from '../ui/dom.js';
import { wireFilterBox } from './filter-box.js';

/**
 * The box that searches for names. Escape clears it, and the key `/` focuses it.
 * @param {() => void} search
 * @returns {HTMLInputElement}
 */
export function createNameSearch(search) {
  const input = byId('name-filter', HTMLInputElement);
  wireFilterBox(input, search);
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.isComposing || input.value === '') return;
    event.preventDefault();
    input.value = '';
    input.dispatchEvent(new Event('input'));
  });
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
    // Do not intercept a slash that is typed into a field.
    const isTyping = event.target instanceof Element && event.target.matches('input, select, textarea');
    if (isTyping || document.querySelector('dialog[open]') !== null || !input.checkVisibility()) return;
    event.preventDefault();
    input.focus();
  });
  return input;
}
