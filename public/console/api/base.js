// @ts-check

// This file's own place tells where the API is, also when a host has mounted it under a prefix.
const base = new URL('../../', import.meta.url);

/**
 * The address of a path of the API, such as `users/1`, or of a reference out of a Link header.
 * @param {string} reference
 * @returns {URL}
 */
export function apiUrl(reference) {
  return new URL(reference, base);
}
