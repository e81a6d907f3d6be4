// @ts-check
import { ApiError } from '../api/api-error.js';
import { el } from './dom.js';

/** @type {Readonly<Record<number, string>>} */
const sentences = {
  0: 'The service did not respond. Try again.',
  401: 'This needs an API key that the service accepts.',
  403: 'Your API key does not allow this.',
};

/**
 * Why something failed, as a sentence for the person who asked for it.
 * @param {unknown} error
 * @returns {string}
 */
export function explain(error) {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  const { status, message } = error;
  if (status >= 500) return `The service reported an error: ${message} (${status}).`;
  return sentences[status] ?? `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/**
 * The request id, where the service's log has more to say about the error than its message.
 * @param {unknown} error
 * @returns {HTMLElement[]}
 */
export function requestIdLine(error) {
  if (!(error instanceof ApiError) || error.status < 500 || error.requestId === undefined) return [];
  return [el('span', { class: 'request-id' }, `Request id: ${error.requestId}`)];
}
