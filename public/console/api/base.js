// @ts-check

// The address of this file gives the address of the API, also if a host has mounted it under a prefix.
const base = new URL('../../', import.meta.url);

/**
 * The address of a path of the API, such as `users/1`, or of a reference in a Link header.
 * @param {string} reference
 * @returns {URL}
 */
export function apiUrl(reference) {
  return new URL(reference, base);
}
