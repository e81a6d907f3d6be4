// @ts-check
import { el } from '../console/ui/dom.js';

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
    if (piece.length > 2 && piece.startsWith('`')) return el('code', {}, piece.slice(1, -1));
    if (piece.length > 4 && piece.startsWith('**')) return el('strong', {}, piece.slice(2, -2));
    return piece;
  });
}
