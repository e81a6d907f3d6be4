// @ts-check
import { isObject, list, object, text } from './document.js';

/** @import { ApiDocument, Json } from './document.js' */

const maxDepth = 4;
// A longer pattern does not help a reader; the description beside it does.
const maxPatternLength = 40;

/**
 * The values that a schema allows, in a few words: `integer, 1 to 100, default 20`.
 * @param {ApiDocument} document
 * @param {unknown} schema
 * @returns {string}
 */
export function schemaText(document, schema, depth = 0) {
  const found = document.resolve(schema);
  return [typeText(document, found, depth), ...limits(found)].filter((words) => words !== '').join(', ');
}

/**
 * @param {ApiDocument} document
 * @param {Json} schema
 * @param {number} depth
 * @returns {string}
 */
function typeText(document, schema, depth) {
  if ('const' in schema) return JSON.stringify(schema['const']);
  if ('enum' in schema)
    return list(schema, 'enum')
      .map((value) => JSON.stringify(value))
      .join(' or ');
  const choices = [...list(schema, 'oneOf'), ...list(schema, 'anyOf')];
  if (choices.length > 0 && depth < maxDepth) {
    return choices.map((choice) => schemaText(document, choice, depth + 1)).join(' or ');
  }
  const types = Array.isArray(schema['type']) ? list(schema, 'type') : [text(schema, 'type')];
  const words = types.join(' or ');
  if (words !== 'array' || !('items' in schema) || depth >= maxDepth) return words;
  const of = document.resolve(schema['items']);
  return `array of ${text(of, 'title') || schemaText(document, of, depth + 1)}`;
}

/** @param {Json} schema */
function limits(schema) {
  const { minimum, maximum, minLength, maxLength, pattern, format } = schema;
  return [
    typeof format === 'string' ? format : '',
    range(minimum, maximum),
    lengthText(minLength, maxLength),
    typeof pattern === 'string' && pattern.length <= maxPatternLength ? `matches ${pattern}` : '',
    'default' in schema ? `default ${JSON.stringify(schema['default'])}` : '',
  ];
}

/**
 * @param {unknown} from
 * @param {unknown} to
 */
function lengthText(from, to) {
  if (to === undefined && from === 1) return 'not empty';
  return from === undefined && to === undefined ? '' : `${range(from, to)} characters`;
}

/**
 * @param {unknown} from
 * @param {unknown} to
 */
function range(from, to) {
  if (from === undefined && to === undefined) return '';
  if (from === undefined) return `at most ${to}`;
  return to === undefined ? `at least ${from}` : `${from} to ${to}`;
}

/**
 * The fields of an object, or of the objects in an array.
 * @param {ApiDocument} document
 * @param {unknown} schema
 * @returns {{ name: string, required: boolean, schema: Json }[]}
 */
export function fieldsOf(document, schema) {
  const found = document.resolve(schema);
  const holder = isObject(found['items']) ? document.resolve(found['items']) : found;
  const required = list(holder, 'required');
  return Object.entries(object(holder, 'properties')).map(([name, value]) => ({
    name,
    required: required.includes(name),
    schema: document.resolve(value),
  }));
}
