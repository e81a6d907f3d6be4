// @ts-check

// The description may have any content. Each of these functions expects one type; a value of another
// type is treated as absent, so that a mistake in the document costs a detail and not the page.

/** @typedef {Readonly<Record<string, unknown>>} Json */

/**
 * @param {unknown} value
 * @returns {value is Json}
 */
export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * @param {Json} from
 * @param {string} name
 * @returns {Json}
 */
export function object(from, name) {
  const value = from[name];
  return isObject(value) ? value : {};
}

/**
 * @param {Json} from
 * @param {string} name
 * @returns {readonly unknown[]}
 */
export function list(from, name) {
  const value = from[name];
  return Array.isArray(value) ? value : [];
}

/**
 * @param {Json} from
 * @param {string} name
 */
export function text(from, name) {
  const value = from[name];
  return typeof value === 'string' ? value : '';
}
