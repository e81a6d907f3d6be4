// @ts-check

// A change in the feed has the id of its request. The page uses it to recognise its own changes.
const prefix = `console-${randomKey().slice(0, 8)}-`;
let count = 0;

/**
 * The writes that are running or whose outcome is unknown. Each promise resolves to whether the outcome is known.
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

/**
 * A random UUID, also for Idempotency-Key. `crypto.randomUUID` exists only in secure contexts. A console over plain
 * HTTP in a local network is not one.
 * @returns {string}
 */
export function randomKey() {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
