// @ts-check
import { apiUrl } from '../api/base.js';

const timeoutMs = 3_000;

/**
 * Requests a path without an entry in the request log and without asking for a key.
 * @param {string} path
 * @param {string | undefined} apiKey
 * @returns {Promise<{ status: number, text: string } | undefined>} `undefined` if there was no response
 */
export async function probe(path, apiKey) {
  try {
    const response = await fetch(apiUrl(path), {
      headers: apiKey === undefined ? {} : { 'x-api-key': apiKey },
      cache: 'no-store',
      signal: AbortSignal.timeout(timeoutMs),
    });
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined;
  }
}

/** @returns {Promise<boolean>} whether the server responds */
export async function isAnswering() {
  return (await probe('health', undefined))?.status === 200;
}
