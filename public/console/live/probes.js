// @ts-check
import { apiUrl } from '../api/base.js';

const timeoutMs = 3_000;

/**
 * A look at the service outside the log of requests and without any question to the person.
 * @param {string} path
 * @param {string | undefined} apiKey
 * @returns {Promise<{ status: number, text: string } | undefined>} nothing when no answer came
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

/** @returns {Promise<boolean>} whether the server answers at all */
export async function isAnswering() {
  return (await probe('health', undefined))?.status === 200;
}
