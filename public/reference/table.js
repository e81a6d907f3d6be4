// @ts-check
import { el } from '../console/ui/dom.js';
import { text } from './json.js';
import { inline } from './prose.js';
import { schemaText } from './schema.js';

/** @import { ApiDocument } from './document.js' */
/** @import { Json } from './json.js' */

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {readonly string[]} facts
 * @property {unknown} schema
 * @property {string} description
 */

/**
 * Named values, each with what it may be and what it means.
 * @param {ApiDocument} document
 * @param {readonly Row[]} rows
 * @returns {HTMLElement}
 */
export function definitions(document, rows) {
  const items = rows.flatMap(({ name, facts, schema, description }) => {
    const words = [...facts, schemaText(document, schema)].filter((word) => word !== '').join(' · ');
    const term = el('dt', {}, el('code', {}, name));
    return [term, el('dd', {}, el('span', { class: 'facts-line' }, words), ...described(description))];
  });
  return el('dl', { class: 'values' }, ...items);
}

/**
 * @param {readonly { name: string, required: boolean, schema: Json }[]} fields
 * @returns {Row[]}
 */
export function fieldRows(fields) {
  return fields.map(({ name, required, schema }) => ({
    ...{ name, schema, facts: [required ? 'required' : ''] },
    description: text(schema, 'description'),
  }));
}

/** @param {string} description */
function described(description) {
  return description === '' ? [] : [el('p', { class: 'text' }, ...inline(description))];
}
