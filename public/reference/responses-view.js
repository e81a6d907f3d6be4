// @ts-check
import { el } from '../console/ui/dom.js';
import { codeBlock, fold } from './code-block.js';
import { contentOf, exampleOf } from './examples.js';
import { object, text } from './json.js';
import { inline } from './prose.js';
import { fieldsOf } from './schema.js';
import { definitions, fieldRows } from './table.js';

/** @import { ApiDocument } from './document.js' */
/** @import { Json } from './json.js' */

/**
 * The statuses of an operation. Successes are visible, and errors are folded.
 * @param {ApiDocument} document
 * @param {Json} details of the operation
 * @returns {HTMLElement}
 */
export function responsesView(document, details) {
  const all = Object.entries(object(details, 'responses')).map(([status, written]) => ({
    status,
    response: document.resolve(written),
  }));
  const successes = all.filter(({ status }) => /^[123]/.test(status));
  const errors = all.filter(({ status }) => !/^[123]/.test(status));
  const view = el('div', { class: 'responses' }, el('h4', {}, 'Responses'));
  for (const { status, response } of successes) {
    view.append(statusLine(status, response), ...contents(document, response));
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
function contents(document, response) {
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
