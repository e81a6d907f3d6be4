// @ts-check
import { el } from '../console/ui/dom.js';
import { fold } from './code-block.js';
import { contentOf } from './examples.js';
import { text } from './json.js';
import { paragraphs } from './prose.js';
import { responsesView } from './responses-view.js';
import { samplesView } from './samples-view.js';
import { fieldsOf } from './schema.js';
import { definitions, fieldRows } from './table.js';
import { tryIt } from './try-it.js';

/** @import { ApiKey } from '../console/api/api-key.js' */
/** @import { ApiDocument, Operation } from './document.js' */
/** @import { LanguageChoice } from './language-choice.js' */

/**
 * One operation, which can be folded, with its description on the left and its examples on the right.
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @param {{ choice: LanguageChoice, apiKey: ApiKey }} context
 * @returns {HTMLElement}
 */
export function operationView(document, operation, context) {
  const { id, title, method, path, details } = operation;
  const route = el('span', { class: 'route' }, methodBadge(method), el('code', {}, ...breakable(path)));
  const heading = el('summary', {}, el('h3', { id: `${id}-heading` }, title), route);
  const words = el('div', { class: 'words' }, ...paragraphs(text(details, 'description')));
  words.append(...parametersView(document, operation), ...bodyView(document, operation));
  words.append(responsesView(document, details));
  const samples = el('div', { class: 'samples' }, ...samplesView(document, operation, context));
  samples.append(tryIt(document, operation, context.apiKey));
  return el(
    'article',
    { class: 'panel operation', id, 'aria-labelledby': `${id}-heading` },
    el('details', {}, heading, el('div', { class: 'columns' }, words, samples)),
  );
}

/** @param {string} method */
export function methodBadge(method) {
  return el('span', { class: 'method', 'data-method': method }, method);
}

/**
 * A path that may wrap before its slashes.
 * @param {string} path
 */
function breakable(path) {
  return path.split(/(?=\/)/).flatMap((segment) => [el('wbr'), segment]);
}

/**
 * Parameters of the path and the query are visible. Headers are folded, because few requests need them.
 * @param {ApiDocument} document
 * @param {Operation} operation
 */
function parametersView(document, { parameters }) {
  const rows = parameters.map((parameter) => ({
    name: text(parameter, 'name'),
    facts: [text(parameter, 'in'), parameter['required'] === true ? 'required' : ''],
    schema: parameter['schema'],
    description: text(parameter, 'description'),
  }));
  const open = rows.filter(({ facts }) => facts[0] !== 'header');
  const headers = rows.filter(({ facts }) => facts[0] === 'header');
  const names = headers.map(({ name }) => name).join(', ');
  return [
    ...(open.length === 0 ? [] : [el('h4', {}, 'Parameters'), definitions(document, open)]),
    ...(headers.length === 0 ? [] : [fold('Request headers', names, definitions(document, headers))]),
  ];
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 */
function bodyView(document, { details }) {
  const content = contentOf(document.resolve(details['requestBody']));
  const fields = fieldsOf(document, content[0]?.[1]['schema']);
  if (fields.length === 0) return [];
  const types = el('p', { class: 'small muted' }, content.map(([type]) => type).join(' or '));
  const names = fields.map(({ name }) => name).join(', ');
  return [fold('Request body', names, types, definitions(document, fieldRows(fields)))];
}
