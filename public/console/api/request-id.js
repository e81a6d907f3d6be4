// @ts-check
import { randomKey } from '../ui/random-key.js';

// A change in the feed has the id of its request. The page uses it to recognise its own changes.
const prefix = `console-${randomKey().slice(0, 8)}-`;
let count = 0;

/**
 * The requests that are under way, and those that failed or were cancelled: whether they had a response.
 * @type {Map<string, Promise<boolean>>}
 */
const unanswered = new Map();

/**
 * Sends a request of this page with a new id.
 * @template T
 * @param {(id: string) => Promise<T>} send
 */
export function sendWithId(send) {
  count += 1;
  const id = prefix + count;
  const response = send(id);
  const outcome = response.then(
    () => unanswered.delete(id),
    () => false,
  );
  unanswered.set(id, outcome);
  return response;
}

/**
 * Whether the page shows the outcome of this request. It does not know a change whose response was lost.
 * @param {string} [requestId]
 */
export async function isOwnRequest(requestId = '') {
  return requestId.startsWith(prefix) && (await unanswered.get(requestId)) !== false;
}
