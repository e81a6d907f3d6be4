// @ts-check

// A description comes from outside this code: each look into it says what it expects there, and a
// document that has something else loses that detail, not the page.

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
