// @ts-check
import { el } from '../console/ui/dom.js';
import { fieldsOf, object, schemaText, text } from './document.js';
import { codeBlock, fold, inline, paragraphs } from './elements.js';
import { contentOf, exampleOf } from './examples.js';
import { samplesView } from './samples.js';
import { tryIt } from './try-it.js';

/** @import { ApiKey } from '../console/ui/api-key.js' */
/** @import { ApiDocument, Json, Operation } from './document.js' */
/** @import { LanguageChoice } from './samples.js' */

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

/**
 * The statuses of an operation. Successes are visible, and errors are folded.
 * @param {ApiDocument} document
 * @param {Json} details of the operation
 * @returns {HTMLElement}
 */
function responsesView(document, details) {
  const all = Object.entries(object(details, 'responses')).map(([status, written]) => ({
    status,
    response: document.resolve(written),
  }));
  const successes = all.filter(({ status }) => /^[123]/.test(status));
  const errors = all.filter(({ status }) => !/^[123]/.test(status));
  const view = el('div', {}, el('h4', {}, 'Responses'));
  for (const { status, response } of successes) {
    view.append(statusLine(status, response), ...responseFolds(document, response));
  }
  if (errors.length > 0) {
    const codes = errors.map(({ status }) => status).join(', ');
    const lines = errors.flatMap(({ status, response }) => [
      statusLine(status, response),
      ...errorExample(document, response),
    ]);
    view.append(fold('Errors', codes, ...lines));
  }
  return view;
}

/**
 * @param {string} status
 * @param {Json} response
 */
function statusLine(status, response) {
  const code = el('span', { class: 'status', 'data-class': status.charAt(0) }, status);
  const words = el('span', { class: 'text' }, ...inline(text(response, 'description')));
  return el('p', { class: 'response' }, code, words);
}

/**
 * The fields and the headers of a response, folded.
 * @param {ApiDocument} document
 * @param {Json} response
 */
function responseFolds(document, response) {
  const [, media] = contentOf(response)[0] ?? [];
  const fields = fieldsOf(document, media?.['schema']);
  const headers = Object.entries(object(response, 'headers')).map(([name, written]) => {
    const header = document.resolve(written);
    return { name, facts: [], schema: header['schema'], description: text(header, 'description') };
  });
  const folds = [];
  if (fields.length > 0)
    folds.push(fold('Response fields', namesOf(fields), definitions(document, fieldRows(fields))));
  if (headers.length > 0)
    folds.push(fold('Response headers', namesOf(headers), definitions(document, headers)));
  return folds;
}

/** @param {readonly { name: string }[]} rows */
function namesOf(rows) {
  return rows.map(({ name }) => name).join(', ');
}

/**
 * @param {ApiDocument} document
 * @param {Json} response
 */
function errorExample(document, response) {
  const [, media] = contentOf(response)[0] ?? [];
  const example = media === undefined ? undefined : exampleOf(document, media);
  if (example === undefined) return [];
  // An error has one field, so one line is enough.
  return [codeBlock(typeof example === 'string' ? example : JSON.stringify(example))];
}

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
function definitions(document, rows) {
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
function fieldRows(fields) {
  return fields.map(({ name, required, schema }) => ({
    ...{ name, schema, facts: [required ? 'required' : ''] },
    description: text(schema, 'description'),
  }));
}

/** @param {string} description */
function described(description) {
  return description === '' ? [] : [el('p', { class: 'text' }, ...inline(description))];
}
