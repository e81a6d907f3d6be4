// @ts-check
import { ApiError } from '../api/api-error.js';
import { el } from './dom.js';

/** @type {Readonly<Record<number, string>>} */
const sentences = {
  0: 'The service did not respond. Try again.',
  401: 'This needs an API key that the service accepts.',
};

/**
 * The reason of a failure, as a sentence for the user.
 * @param {unknown} error
 * @returns {string}
 */
export function explain(error) {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  const { status, message } = error;
  if (status === 403) return `Your API key does not allow this: ${message}.`;
  if (status >= 500) return `The service reported an error: ${message} (${status}).`;
  return sentences[status] ?? `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/**
 * The request id of errors that have more details in the log of the service.
 * @param {unknown} error
 * @returns {HTMLElement[]}
 */
export function requestIdLine(error) {
  if (!(error instanceof ApiError) || error.status < 500 || error.requestId === undefined) return [];
  return [el('span', { class: 'request-id' }, `Request id: ${error.requestId}`)];
}
