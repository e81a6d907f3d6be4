// @ts-check
import { copyText } from '../console/ui/copy.js';
import { el } from '../console/ui/dom.js';
import { contentOf, exampleOf, exampleText } from './examples.js';
import { text } from './json.js';
import { paragraphs } from './prose.js';
import { requestExample } from './request-example.js';
import { responsesView } from './responses-view.js';
import { fieldsOf } from './schema.js';
import { table } from './table.js';

/** @import { ApiDocument, Operation } from './document.js' */

/**
 * One operation: what it does on the left, how to call it and what comes back on the right.
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @returns {HTMLElement}
 */
export function operationView(document, operation) {
  const { id, method, path, details } = operation;
  const heading = el(
    'h3',
    { id: `${id}-heading` },
    methodBadge(method),
    ' ',
    el('code', { class: 'path' }, ...breakable(path)),
  );
  const words = el('div', { class: 'words' }, el('p', { class: 'lead' }, text(details, 'summary')));
  words.append(...paragraphs(text(details, 'description')));
  words.append(...parametersView(document, operation), ...bodyView(document, operation));
  words.append(responsesView(document, details));
  const samples = el('div', { class: 'samples' }, ...samplesView(document, operation));
  return el(
    'article',
    { class: 'panel operation', id, 'aria-labelledby': `${id}-heading` },
    heading,
    el('div', { class: 'columns' }, words, samples),
  );
}

/** @param {string} method */
export function methodBadge(method) {
  return el('span', { class: 'method', 'data-method': method }, method);
}

/**
 * A path may be broken before its slashes.
 * @param {string} path
 */
function breakable(path) {
  return path.split(/(?=\/)/).flatMap((segment) => [el('wbr'), segment]);
}

/**
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
  return table(document, 'Parameters', rows);
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 */
function bodyView(document, { details }) {
  const body = document.resolve(details['requestBody']);
  const content = contentOf(body);
  const rows = fieldsOf(document, content[0]?.[1]['schema']).map(({ name, required, schema }) => ({
    ...{ name, schema, facts: [required ? 'required' : ''] },
    description: text(schema, 'description'),
  }));
  const types = content.map(([type]) => type).join(' or ');
  return table(document, types === '' ? 'Body' : `Body, as ${types}`, rows);
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 */
function samplesView(document, operation) {
  const line = requestExample(document, operation);
  const copy = el('button', { class: 'button button-small', type: 'button' }, 'Copy');
  copy.append(
    el('span', { class: 'visually-hidden' }, ` the curl line of ${operation.method} ${operation.path}`),
  );
  copy.addEventListener('click', () => copyText(line));
  const request = el('div', { class: 'sample-head' }, el('h4', {}, 'Request'), copy);
  return [request, codeBlock(line), ...answerSample(document, operation)];
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 */
function answerSample(document, { details }) {
  const responses = details['responses'];
  const entries = typeof responses === 'object' && responses !== null ? Object.entries(responses) : [];
  for (const [status, written] of entries) {
    const [, media] = contentOf(document.resolve(written))[0] ?? [];
    const example = media === undefined ? undefined : exampleOf(document, media);
    if (!status.startsWith('2') || example === undefined) continue;
    const head = el(
      'div',
      { class: 'sample-head' },
      el('h4', {}, 'Answer ', el('span', { class: 'status', 'data-class': '2' }, status)),
    );
    return [head, codeBlock(exampleText(example))];
  }
  return [];
}

/** @param {string} content */
function codeBlock(content) {
  return el('pre', {}, el('code', {}, content));
}
