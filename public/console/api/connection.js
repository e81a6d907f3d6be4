// @ts-check

// The address of this file gives the address of the API, also if a host has mounted it under a prefix.
const base = new URL('../../', import.meta.url);

/**
 * The address of a path of the API, such as `users/1`, or of a reference in a Link header.
 * @param {string} reference
 * @returns {URL}
 */
export function apiUrl(reference) {
  return new URL(reference, base);
}

const delaysMs = [250, 500, 1_000, 2_000, 3_000];

/**
 * Whether the server can be reached. During an outage it is probed until it responds.
 * Events: `away` and `back`.
 */
export class Connection extends EventTarget {
  /** @type {PromiseWithResolvers<void> | undefined} */
  #outage;
  #pause = new AbortController();

  get isAway() {
    return this.#outage !== undefined;
  }

  /** Reports that a request got no response. */
  lost() {
    if (this.#outage !== undefined) return;
    this.#outage = Promise.withResolvers();
    void this.#watch(this.#outage);
  }

  /**
   * Resolves when the server responds.
   * @param {AbortSignal} [signal]
   * @returns {Promise<void>}
   */
  answering(signal) {
    return this.#outage === undefined ? Promise.resolve() : orAborted(this.#outage.promise, signal);
  }

  /** Probes now instead of after the pause. */
  tryNow() {
    this.#pause.abort();
  }

  /** @param {PromiseWithResolvers<void>} outage */
  async #watch(outage) {
    let isReported = false;
    for (let tries = 0; !(await isAnswering()); tries += 1) {
      // After a single lost connection the first probe succeeds, so no outage is reported.
      if (!isReported) this.dispatchEvent(new Event('away'));
      isReported = true;
      this.#pause = new AbortController();
      const delayMs = delaysMs[Math.min(tries, delaysMs.length - 1)] ?? 0;
      await wait(delayMs, this.#pause.signal).catch(() => undefined);
    }
    this.#outage = undefined;
    outage.resolve();
    if (isReported) this.dispatchEvent(new Event('back'));
  }
}

const probeTimeoutMs = 3_000;
/** When a part of a response last arrived. */
let heardAtMs = Number.NEGATIVE_INFINITY;

/**
 * Sends a request, and passes on the parts of its text as they arrive. Fails if nothing arrives for some time: a long
 * response over a slow network may take longer.
 * @template T
 * @param {URL} url
 * @param {Omit<RequestInit, 'signal'> & { signal: AbortSignal | undefined }} options
 * @param {number} silenceMs
 * @param {(response: Response, parts: AsyncIterable<string>) => Promise<T>} read
 * @returns {Promise<T>}
 */
export async function receive(url, { signal, ...options }, silenceMs, read) {
  const silence = new AbortController();
  const abort = () => silence.abort();
  let timer = setTimeout(abort, silenceMs);

  /** @param {Response} response */
  async function* partsOf({ body }) {
    // Safari cannot iterate over a stream.
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) {
      heardAtMs = performance.now();
      clearTimeout(timer);
      timer = setTimeout(abort, silenceMs);
      yield part.value;
    }
  }

  try {
    const either = AbortSignal.any(signal === undefined ? [silence.signal] : [signal, silence.signal]);
    const response = await fetch(url, { ...options, signal: either, cache: 'no-store' });
    return await read(response, partsOf(response));
  } finally {
    clearTimeout(timer);
    // After a failure, the connection must not stay open.
    abort();
  }
}

/**
 * Requests a path without an entry in the request log and without asking for a key.
 * @param {string} path
 * @param {string | undefined} apiKey
 * @returns {Promise<{ status: number, text: string } | undefined>} `undefined` if there was no response
 */
export async function probe(path, apiKey) {
  try {
    const response = await fetch(apiUrl(path), {
      headers: apiKey === undefined ? {} : { 'x-api-key': apiKey },
      cache: 'no-store',
      signal: AbortSignal.timeout(probeTimeoutMs),
    });
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined;
  }
}

/** @returns {Promise<boolean>} whether the server responds; a long response may delay the probe */
async function isAnswering() {
  const startMs = performance.now();
  const { status } = (await probe('health', undefined)) ?? { status: 500 };
  // A proxy may hide this path, or limit the requests to it.
  return status < 500 || heardAtMs > startMs;
}

/**
 * Resolves after a time. Rejects at once when the signal is aborted.
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function wait(ms, signal) {
  return orAborted(new Promise((resolve) => setTimeout(resolve, ms)), signal);
}

/**
 * The promise, unless the signal is aborted first.
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
function orAborted(promise, signal) {
  if (signal === undefined) return promise;
  if (signal.aborted) return Promise.reject(signal.reason);
  const aborted = Promise.withResolvers();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort);
  return Promise.race([promise, aborted.promise]).finally(() => signal.removeEventListener('abort', abort));
}
