// @ts-check
import { randomKey } from '../ui/random-key.js';

// A change in the feed has the id of its request. The page uses it to recognise its own changes.
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
