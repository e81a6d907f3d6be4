// @ts-check
import { receive, wait } from './connection.js';

/** @import { RequestLog } from '../requests/requests.js' */
/** @import { ApiKey } from '../ui/api-key.js' */
/** @import { Connection } from './connection.js' */

/**
 * A request that may be sent again if its response was lost, because it only reads or has an If-Match or an
 * Idempotency-Key.
 * @typedef {object} Call
 * @property {'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} method
 * @property {URL} url
 * @property {Readonly<Record<string, string>>} [headers]
 * @property {string} [body]
 * @property {AbortSignal | undefined} [signal]
 */

/**
 * @typedef {object} Answer
 * @property {number} status
 * @property {Headers} headers
 * @property {unknown} data the parsed body; `undefined` without one
 */

/**
 * Resolves to a successful response. Rejects with an `ApiError`, or with the reason of the signal.
 * @typedef {(call: Call) => Promise<Answer>} Send
 */

const longestSilenceMs = 15_000;
const maxRetries = 4;
const maxRetryAfterMs = 10_000;
// The statuses that are temporary if they have a Retry-After.
const temporary = [409, 429, 503];

/**
 * @param {{ connection: Connection, apiKey: ApiKey, log: RequestLog }} parts
 * @returns {Send}
 */
export function createClient({ connection, apiKey, log }) {
  return async (call) => {
    const entry = log.start(call);
    try {
      return await sendUntilAnswered(call, entry);
    } catch (error) {
      if (call.signal?.aborted) entry.cancel();
      else if (error instanceof ApiError) entry.end(error.status, error.requestId);
      throw error;
    }
  };

  /**
   * @param {Call} call
   * @param {ReturnType<RequestLog['start']>} entry
   */
  async function sendUntilAnswered(call, entry) {
    for (let retries = 0; ; ) {
      const key = apiKey.value;
      const answer = await sendOnce(call, key);
      if (answer === undefined || answer.response.status === 502) {
        if (retries++ === maxRetries) throw new ApiError(0, 'the server did not respond to this request');
        connection.lost();
        await connection.answering(call.signal);
        continue;
      }
      const { response, text } = answer;
      const requestId = response.headers.get('x-request-id') ?? undefined;
      if (response.ok) {
        const data = text === '' ? undefined : parseBody(response, text);
        entry.end(response.status, requestId);
        return { status: response.status, headers: response.headers, data };
      }
      const error = ApiError.from(response, text);
      const { retryAfterMs } = error;
      if (temporary.includes(error.status) && retryAfterMs <= maxRetryAfterMs && retries++ < maxRetries) {
        await wait(retryAfterMs, call.signal);
      } else if (error.status !== 401 || !(await hasNewKey(key))) {
        throw error;
      }
    }
  }

  /** @param {string | undefined} sent */
  async function hasNewKey(sent) {
    // Another request may have set a new key while this one was running.
    return apiKey.value !== sent || (await apiKey.ask(sent !== undefined));
  }
}

/**
 * Resolves to `undefined` if there was no complete response.
 * @param {Call} call
 * @param {string | undefined} key
 */
async function sendOnce({ method, url, headers, body, signal }, key) {
  try {
    return await sendWithId(method, (id) => {
      const sent = {
        accept: 'application/json',
        'x-request-id': id,
        ...headers,
        ...(key !== undefined && { 'x-api-key': key }),
      };
      const options = { method, headers: sent, signal, ...(body !== undefined && { body }) };
      return receive(url, options, longestSilenceMs, async (response, parts) => {
        let text = '';
        for await (const part of parts) text += part;
        return { response, text };
      });
    });
  } catch {
    signal?.throwIfAborted();
    return undefined;
  }
}

/**
 * @param {Response} response
 * @param {string} text
 */
function parseBody(response, text) {
  try {
    return JSON.parse(text);
  } catch {
    const message = 'the response is not JSON, and may come from a proxy';
    throw new ApiError(response.status, message, response.headers.get('x-request-id') ?? undefined);
  }
}

// A change in the feed has the id of its request. The page uses it to recognise its own changes.
const idPrefix = `console-${randomKey().slice(0, 8)}-`;
let sent = 0;

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
  sent += 1;
  const id = idPrefix + sent;
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
 * Whether this page has sent the request.
 * @param {string} [requestId]
 */
export function isSent(requestId = '') {
  return requestId.startsWith(idPrefix);
}

/**
 * Whether the page shows the outcome of this request. It does not know a change whose response was lost.
 * @param {string} [requestId]
 */
export async function isOwnRequest(requestId = '') {
  return isSent(requestId) && (await unanswered.get(requestId)) !== false;
}

/**
 * A random UUID, also for Idempotency-Key. Not by `crypto.randomUUID`, which exists only in secure contexts: a console
 * over plain HTTP in a local network is not one.
 * @returns {string}
 */
export function randomKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** A response that is not a success, with the message of the server. */
export class ApiError extends Error {
  /** @override */
  name = 'ApiError';
  /** The wait that the server asks for before a retry, or NaN. */
  retryAfterMs = Number.NaN;
  /** Whether the message is from the service, and not from a proxy. */
  isOfService = false;

  /**
   * @param {number} status 0 when there was no response
   * @param {string} message
   * @param {string} [requestId] the id of the request in the log of the server
   */
  constructor(status, message, requestId) {
    super(message);
    this.status = status;
    this.requestId = requestId;
  }

  /**
   * Reads `{"error": message}`. A proxy may respond in another form.
   * @param {Response} response
   * @param {string} text
   */
  static from(response, text) {
    const words = errorText(text);
    const message = words ?? `the server answered ${response.status} ${response.statusText}`.trim();
    const error = new ApiError(response.status, message, response.headers.get('x-request-id') ?? undefined);
    error.isOfService = words !== undefined;
    error.retryAfterMs = Number(response.headers.get('retry-after') ?? Number.NaN) * 1_000;
    return error;
  }
}

/**
 * @param {unknown} error
 * @param {number} status
 * @returns {error is ApiError}
 */
export function hasStatus(error, status) {
  return error instanceof ApiError && error.status === status;
}

/**
 * Whether the service has responded that a record does not exist. A proxy may respond 404 for any other reason.
 * @param {unknown} error
 */
export function isMissing(error) {
  return hasStatus(error, 404) && error.isOfService;
}

/**
 * @param {string} text
 * @returns {string | undefined}
 */
function errorText(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}
