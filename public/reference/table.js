// @ts-check
import { el } from '../console/ui/dom.js';
import { inline } from './prose.js';
import { schemaText } from './schema.js';

/** @import { ApiDocument } from './document.js' */

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {readonly string[]} facts
 * @property {unknown} schema
 * @property {string} description
 */

/**
 * Named values with what each may be; nothing at all without rows.
 * @param {ApiDocument} document
 * @param {string} title
 * @param {readonly Row[]} rows
 * @returns {HTMLElement[]}
 */
export function table(document, title, rows) {
  if (rows.length === 0) return [];
  const items = rows.flatMap(({ name, facts, schema, description }) => {
    const words = [...facts, schemaText(document, schema)].filter((word) => word !== '').join(' · ');
    const term = el('dt', {}, el('code', {}, name));
    return [term, el('dd', {}, el('span', { class: 'facts-line' }, words), ...described(description))];
  });
  return [el('h4', {}, title), el('dl', { class: 'values' }, ...items)];
}

/** @param {string} description */
function described(description) {
  return description === '' ? [] : [el('p', { class: 'text' }, ...inline(description))];
}
