// @ts-check
import { apiUrl } from '../console/api/connection.js';
import { curlLine } from '../console/requests/curl.js';
import { el, isEnabled, setEnabled } from '../console/ui/dom.js';
import { explain } from '../console/ui/messages.js';
import { list, text } from './document.js';
import { codeBlock, copyButton, fold } from './elements.js';
import { contentOf, exampleOf, exampleText, fillPath } from './examples.js';

/** @import { SentRequest } from '../console/requests/curl.js' */
/** @import { ApiKey } from '../console/ui/api-key.js' */
/** @import { ApiDocument, Json, Operation } from './document.js' */

// A response that takes longer is of no use to a reader.
const timeoutMs = 15_000;

/**
 * A form that sends the operation to this service, with the key of the console.
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @param {ApiKey} apiKey
 * @returns {HTMLElement}
 */
export function tryIt(document, operation, apiKey) {
  // An operation that never needs a key changes no data.
  const isWrite = operation.method !== 'GET' && list(operation.details, 'security').length > 0;
  const view = fold('Try it', isWrite ? 'changes the data of this service' : '');
  view.classList.add('try');
  // Most forms are never opened.
  view.addEventListener('toggle', () => view.append(form(document, operation, apiKey)), { once: true });
  return view;
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @param {ApiKey} apiKey
 */
function form(document, operation, apiKey) {
  const fields = operation.parameters.map((parameter) => parameterField(document, operation, parameter));
  const headers = fields.filter(({ place }) => place === 'header');
  const [type, media] = contentOf(document.resolve(operation.details['requestBody']))[0] ?? [];
  const body = media === undefined ? undefined : bodyField(operation, exampleOf(document, media));
  const button = el('button', { class: 'button button-primary', type: 'submit' }, 'Send request');
  // Only this part is announced to screen readers, not a body of 64 KiB.
  const outcome = el('div', { role: 'status' });
  const result = el('div');
  const view = el('form', { 'aria-label': `Try it: ${operation.title}` });
  view.append(...fields.filter(({ place }) => place !== 'header').map(({ field }) => field));
  if (headers.length > 0) view.append(fold('Headers', '', ...headers.map(({ field }) => field)));
  if (body !== undefined) view.append(body.field);
  view.append(el('div', { class: 'actions' }, button));
  view.append(el('div', { class: 'result' }, outcome, result));
  view.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (!isEnabled(button)) return;
    setEnabled(button, false);
    try {
      const send = () => timed(request(operation, fields, type, body?.input.value), apiKey.value);
      const hadKey = apiKey.value !== undefined;
      let sent = await send();
      if (sent.response.status === 401 && (await apiKey.ask(hadKey))) sent = await send();
      const parts = await resultView(sent.response, sent.line);
      outcome.replaceChildren(outcomeView(sent.response, sent.elapsedMs));
      result.replaceChildren(...parts);
    } catch (error) {
      outcome.replaceChildren(el('div', { class: 'form-error' }, explain(error)));
      result.replaceChildren();
    }
    setEnabled(button, true);
  });
  return view;
}

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} place where the parameter goes: `path`, `query` or `header`
 * @property {HTMLElement} field
 * @property {HTMLInputElement} input
 */

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @param {Json} parameter
 * @returns {Field}
 */
function parameterField(document, { id, method }, parameter) {
  const name = text(parameter, 'name');
  const place = text(parameter, 'in');
  const required = parameter['required'] === true;
  const example = String(exampleOf(document, parameter) ?? '');
  const inputId = `${id}-${place}-${name}`;
  const input = el('input', { class: 'input mono', id: inputId, autocomplete: 'off', spellcheck: 'false' });
  if (required) {
    input.required = true;
    // One press of the button must not change or delete a record that the reader has not chosen.
    if (method === 'GET') input.value = example;
    else input.placeholder = example;
  } else if (example !== '') input.placeholder = example;
  const label = el('label', { for: inputId }, name);
  if (!required) label.append(' ', el('span', { class: 'optional' }, '(optional)'));
  return { name, place, input, field: el('div', { class: 'field' }, label, input) };
}

/**
 * @param {Operation} operation
 * @param {unknown} example
 */
function bodyField({ id }, example) {
  const input = el('textarea', { class: 'input mono', id: `${id}-body`, rows: '4', spellcheck: 'false' });
  input.value = example === undefined ? '' : exampleText(example);
  return { input, field: el('div', { class: 'field' }, el('label', { for: `${id}-body` }, 'Body'), input) };
}

/**
 * @param {Operation} operation
 * @param {readonly Field[]} fields
 * @param {string | undefined} type media type of the body
 * @param {string | undefined} body
 * @returns {Omit<SentRequest, 'keyed'>}
 */
function request({ method, path }, fields, type, body) {
  const given = fields.map(({ name, place, input }) => ({ name, place, value: input.value.trim() }));
  const at = (/** @type {string} */ place) =>
    given.filter((field) => field.place === place && field.value !== '');
  // Also the empty ones, because the path would get a default instead, and a DELETE the wrong record.
  const paths = given.filter(({ place }) => place === 'path');
  const values = new Map(paths.map(({ name, value }) => [name, value]));
  const url = apiUrl(fillPath(path, values).slice(1));
  for (const { name, value } of at('query')) url.searchParams.append(name, value);
  const headers = Object.fromEntries(at('header').map(({ name, value }) => [name, value]));
  for (const [name, value] of Object.entries(headers))
    if (/[^\0-\xff]/.test(value)) throw new Error(`${name} has a character that no header can have.`);
  if (type !== undefined) headers['content-type'] = type;
  return { method, url: url.href, headers, body };
}

/**
 * Sends a request, and returns its response with the time until it came and a curl line for the same request.
 * @param {Omit<SentRequest, 'keyed'>} request
 * @param {string | undefined} key
 */
async function timed(request, key) {
  const { method, url, body = null } = request;
  const headers = new Headers(request.headers);
  if (key !== undefined) headers.set('x-api-key', key);
  const signal = AbortSignal.timeout(timeoutMs);
  const started = performance.now();
  const sent = fetch(url, { method, headers, body, signal, cache: 'no-store' });
  const response = await sent.catch(failWith('The service did not respond.'));
  const line = curlLine({ ...request, keyed: key !== undefined });
  return { response, elapsedMs: performance.now() - started, line };
}

// A list of all posts may be endless: the page shows its beginning.
const maxShownBytes = 64 * 1024;

/**
 * The status and the time of a response.
 * @param {Response} response
 * @param {number} elapsedMs
 */
function outcomeView(response, elapsedMs) {
  const code = el('span', { class: 'status', 'data-class': String(response.status).charAt(0) });
  code.append(`${response.status} ${response.statusText}`.trim());
  return el('p', {}, code, el('span', { class: 'muted small' }, ` ${Math.round(elapsedMs)} ms`));
}

/**
 * The request, and the headers and the body of its response.
 * @param {Response} response
 * @param {string} line the request as a curl line
 */
async function resultView(response, line) {
  const { text, whole } = await beginningOf(response).catch(failWith('The response is not complete.'));
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const body = text === '' ? [] : [codeBlock(pretty(text))];
  if (!whole) body.push(el('p', { class: 'muted small' }, 'Only the first 64 KiB are shown.'));
  const copy = copyButton('the request that was sent', () => line);
  return [
    fold('Request', 'as a curl line', codeBlock(line), copy),
    fold('Response headers', '', codeBlock(headers)),
    ...body,
  ];
}

/**
 * Replaces the words of the browser.
 * @param {string} message
 * @returns {(cause: unknown) => never}
 */
function failWith(message) {
  return (cause) => {
    throw new Error(message, { cause });
  };
}

/** @param {Response} response */
async function beginningOf(response) {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = '';
  for (let size = 0; reader !== undefined && size < maxShownBytes; ) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), whole: true };
    size += value.length;
    text += decoder.decode(value, { stream: true });
  }
  await reader?.cancel();
  return { text, whole: reader === undefined };
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
