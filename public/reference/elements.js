// @ts-check
import { el } from '../console/ui/dom.js';
import { copyText } from '../console/ui/messages.js';

/**
 * @param {string} content
 * @returns {HTMLElement}
 */
export function codeBlock(content) {
  return el('pre', {}, el('code', {}, ...withWholeOptions(content)));
}

/**
 * The parts of a code text. A browser would break a line after the dash of an option, as in `-o`.
 * @param {string} content
 * @returns {(Node | string)[]}
 */
export function withWholeOptions(content) {
  const parts = content.split(/(?<= )(-+[\w-]+)/);
  return parts.map((part, i) => (i % 2 === 1 ? el('span', { class: 'unbroken' }, part) : part));
}

/**
 * A button that copies what `read` returns when it is pressed.
 * @param {string} what the rest of the button's name, for screen readers
 * @param {() => string} read
 */
export function copyButton(what, read) {
  const hidden = el('span', { class: 'visually-hidden' }, ` ${what}`);
  const button = el('button', { class: 'button button-small', type: 'button' }, 'Copy', hidden);
  button.addEventListener('click', () => copyText(read()));
  return button;
}

/**
 * A part of an operation that stays folded until the reader opens it.
 * @param {string} title
 * @param {string} hint what is inside, in a few words
 * @param {(Node | string)[]} content
 */
export function fold(title, hint, ...content) {
  const summary = el('summary', {}, title, ' ', el('span', { class: 'muted' }, hint));
  return el('details', { class: 'fold' }, summary, ...content);
}

/**
 * The paragraphs of a description. Code and bold text are the only CommonMark that it supports.
 * @param {string} description
 * @returns {HTMLElement[]}
 */
export function paragraphs(description) {
  return description
    .split(/\n{2,}/)
    .filter((written) => written.trim() !== '')
    .map((written) => el('p', { class: 'text' }, ...inline(written)));
}

/**
 * @param {string} written
 * @returns {(Node | string)[]}
 */
export function inline(written) {
  return written.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((piece) => {
    if (piece.startsWith('`')) return el('code', {}, piece.slice(1, -1));
    if (piece.startsWith('**')) return el('strong', {}, piece.slice(2, -2));
    return piece;
  });
}
