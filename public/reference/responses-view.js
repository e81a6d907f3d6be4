// @ts-check
import { el } from '../console/ui/dom.js';
import { contentOf, exampleOf, exampleText } from './examples.js';
import { object, text } from './json.js';
import { inline } from './prose.js';

/** @import { ApiDocument } from './document.js' */
/** @import { Json } from './json.js' */

/**
 * The statuses of an operation: the good ones open to the eye, the failures behind one line.
 * @param {ApiDocument} document
 * @param {Json} details of the operation
 * @returns {HTMLElement}
 */
export function responsesView(document, details) {
  const all = Object.entries(object(details, 'responses')).map(([status, written]) => ({
    status,
    response: document.resolve(written),
  }));
  const good = all.filter(({ status }) => /^[123]/.test(status));
  const failures = all.filter(({ status }) => !/^[123]/.test(status));
  const view = el('div', { class: 'responses' }, el('h4', {}, 'Answers'));
  view.append(...good.map(({ status, response }) => responseView(document, status, response)));
  if (failures.length > 0) {
    const codes = failures.map(({ status }) => status).join(', ');
    const summary = el('summary', {}, `Failures: ${codes}`);
    const items = failures.map(({ status, response }) => responseView(document, status, response));
    view.append(el('details', {}, summary, ...items));
  }
  return view;
}

/**
 * @param {ApiDocument} document
 * @param {string} status
 * @param {Json} response
 */
function responseView(document, status, response) {
  const code = el('span', { class: 'status', 'data-class': status.charAt(0) }, status);
  const view = el(
    'div',
    { class: 'response' },
    code,
    el('p', { class: 'text' }, ...inline(text(response, 'description'))),
  );
  const headers = Object.keys(object(response, 'headers'));
  if (headers.length > 0) view.append(el('p', { class: 'headers' }, `Headers: ${headers.join(', ')}`));
  const error = /^[45]/.test(status) ? errorExample(document, response) : undefined;
  if (error !== undefined) view.append(el('pre', {}, el('code', {}, error)));
  return view;
}

/**
 * @param {ApiDocument} document
 * @param {Json} response
 */
function errorExample(document, response) {
  const [, media] = contentOf(response)[0] ?? [];
  const example = media === undefined ? undefined : exampleOf(document, media);
  if (example === undefined) return undefined;
  // One line: failures are one field.
  return typeof example === 'string' ? exampleText(example) : JSON.stringify(example);
}
