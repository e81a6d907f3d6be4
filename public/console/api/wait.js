// @ts-check

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
export function orAborted(promise, signal) {
  if (signal === undefined) return promise;
  if (signal.aborted) return Promise.reject(signal.reason);
  const aborted = Promise.withResolvers();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([promise, aborted.promise]).finally(() => signal.removeEventListener('abort', abort));
}
