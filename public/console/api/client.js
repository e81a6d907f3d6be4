// @ts-check
import { ApiError } from './api-error.js';
import { wait } from './connection.js';
import { sendWithId } from './request-id.js';

/** @import { ApiKey } from './api-key.js' */
/** @import { Connection } from './connection.js' */
/** @import { RequestLog } from '../requests/requests.js' */

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

const answerTimeoutMs = 15_000;
const maxRetries = 4;
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
        entry.end(response.status, requestId);
        const data = text === '' ? undefined : parseBody(response, text);
        return { status: response.status, headers: response.headers, data };
      }
      const error = ApiError.from(response, text);
      const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
      if (temporary.includes(error.status) && retryAfter <= 10 && retries++ < maxRetries) {
        await wait(retryAfter * 1000, call.signal);
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
  const timeout = AbortSignal.timeout(answerTimeoutMs);
  try {
    return await sendWithId(method, async (id) => {
      const response = await fetch(url, {
        method,
        headers: {
          accept: 'application/json',
          'x-request-id': id,
          ...headers,
          ...(key !== undefined && { 'x-api-key': key }),
        },
        ...(body !== undefined && { body }),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        cache: 'no-store',
      });
      return { response, text: await response.text() };
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
