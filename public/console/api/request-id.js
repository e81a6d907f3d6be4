// @ts-check
import { randomKey } from '../ui/random-key.js';

// A change in the feed has the id of its request. The page uses it to recognise its own changes.
const prefix = `console-${randomKey().slice(0, 8)}-`;
let count = 0;

/**
 * The writes that are under way, and those without a response that tells their outcome: whether they had one.
 * @type {Map<string, Promise<boolean>>}
 */
const unanswered = new Map();

/**
 * Sends a request of this page with a new id.
 * @template {{ response: Response }} T
 * @param {string} method
 * @param {(id: string) => Promise<T>} send
 */
export function sendWithId(method, send) {
  count += 1;
  const id = prefix + count;
  const answer = send(id);
  // A read makes no change.
  if (method === 'GET' || method === 'HEAD') return answer;
  const isAnswered = answer.then(
    // A proxy may respond 504 although the service has made the change.
    ({ response }) => response.status < 500 && unanswered.delete(id),
    () => false,
  );
  unanswered.set(id, isAnswered);
  return answer;
}

/**
 * Whether the page shows the outcome of this request. It does not know a change whose response was lost.
 * @param {string} [requestId]
 */
export async function isOwnRequest(requestId = '') {
  return requestId.startsWith(prefix) && (await unanswered.get(requestId)) !== false;
}
