// @ts-check
import { isObject, list, object } from './json.js';

/** @import { ApiDocument } from './document.js' */
/** @import { Json } from './json.js' */

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
