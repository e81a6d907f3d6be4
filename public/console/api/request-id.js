// @ts-check
import { randomKey } from '../ui/random-key.js';

// A change that the service reports carries the id of its request: this page knows its own by them.
const prefix = `console-${randomKey().slice(0, 8)}-`;
let count = 0;

/** The id of the next request of this page. */
export function nextRequestId() {
  count += 1;
  return prefix + count;
}

/** @param {string | undefined} requestId */
export function isOwnRequest(requestId) {
  return requestId?.startsWith(prefix) === true;
}
