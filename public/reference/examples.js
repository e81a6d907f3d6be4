// @ts-check
import { apiUrl } from '../console/api/connection.js';
import { isObject, list, object, text } from './document.js';

/** @import { SentRequest } from '../console/requests/curl.js' */
/** @import { ApiDocument, Json, Operation } from './document.js' */

/**
 * The first example of a parameter or a body, in any of OpenAPI's forms. Without one, a list has an example of its items.
 * @param {ApiDocument} document
 * @param {Json} holder with `example`, `examples` or a `schema` that has them
 * @returns {unknown}
 */
export function exampleOf(document, holder) {
  if ('example' in holder) return holder['example'];
  for (const written of Object.values(object(holder, 'examples'))) {
    const example = document.resolve(written);
    if ('value' in example) return example['value'];
  }
  const schema = document.resolve(holder['schema']);
  const example = schemaExample(schema);
  if (example !== undefined) return example;
  const item = schemaExample(document.resolve(schema['items']));
  return item === undefined ? undefined : [item];
}

/** @param {Json} schema */
function schemaExample(schema) {
  return 'example' in schema ? schema['example'] : (list(schema, 'examples')[0] ?? schema['default']);
}

/**
 * The media types of a body, each with its description.
 * @param {Json} body
 * @returns {readonly (readonly [type: string, media: Json])[]}
 */
export function contentOf(body) {
  return Object.entries(object(body, 'content')).map(([type, media]) => [type, isObject(media) ? media : {}]);
}

/**
 * @param {unknown} example
 * @returns {string}
 */
export function exampleText(example) {
  return typeof example === 'string' ? example : JSON.stringify(example, undefined, 2);
}

/**
 * @typedef {SentRequest & { result: 'json' | 'text' | 'none', paged: boolean }} ExampleRequest `result`
 *   is the content of a successful response. `paged` means that it links to the next page.
 */

/**
 * A request for this operation, made from the examples of all required parts.
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @param {boolean} hasKey whether to send a key even if the operation does not always need one
 * @returns {ExampleRequest}
 */
export function requestExample(document, operation, hasKey) {
  const { method, path, parameters, details } = operation;
  const values = parameters
    .filter((parameter) => text(parameter, 'in') === 'path')
    .map((parameter) => /** @type {const} */ ([text(parameter, 'name'), exampleOf(document, parameter)]));
  const [type, media] = contentOf(document.resolve(details['requestBody']))[0] ?? [];
  const body = media === undefined ? undefined : exampleOf(document, media);
  return {
    method,
    url: apiUrl(fillPath(path, new Map(values)).slice(1)).href,
    headers: type === undefined ? {} : { 'content-type': type },
    body: body === undefined ? undefined : JSON.stringify(body),
    keyed: needsKey(details['security'], hasKey),
    result: resultOf(document, operation),
    paged: parameters.some((parameter) => text(parameter, 'name') === 'cursor'),
  };
}

/**
 * The path with the values of its parameters, or 1 for those without a value.
 * @param {string} path
 * @param {ReadonlyMap<string, unknown>} values
 */
export function fillPath(path, values) {
  return path.replaceAll(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(String(values.get(name) ?? 1)));
}

/**
 * An empty alternative makes the key optional.
 * @param {unknown} security
 * @param {boolean} hasKey
 */
function needsKey(security, hasKey) {
  const alternatives = list({ security }, 'security');
  const optional = alternatives.some((one) => JSON.stringify(one) === '{}');
  return alternatives.length > 0 && (hasKey || !optional);
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @returns {ExampleRequest['result']}
 */
function resultOf(document, { details }) {
  const responses = Object.entries(object(details, 'responses'));
  const [, success] = responses.find(([status]) => status.startsWith('2')) ?? [];
  const [type] = contentOf(document.resolve(success))[0] ?? [];
  if (type === undefined) return 'none';
  return type.endsWith('json') ? 'json' : 'text';
}
