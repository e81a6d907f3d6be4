// @ts-check
import { el } from './dom.js';
import { announce } from './messages.js';

/**
 * Copies a text and reports it.
 * @param {string} text
 */
export async function copyText(text) {
  announce((await copy(text)) ? 'Copied' : 'The browser did not allow copying. Select the line and copy it');
}

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure context or permission there is no navigator.clipboard, but execCommand still works.
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = document.activeElement;
  const area = el('textarea', { class: 'visually-hidden', 'aria-hidden': 'true' });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return copied;
}
