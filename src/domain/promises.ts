import { setImmediate as nextTurn } from 'node:timers/promises';

/** Returns a function whose first call, and each `calls`-th one after it, starts the task unless it is running. */
export function occasionally(
  calls: number,
  task: () => Promise<unknown>,
  onFailure: (cause: unknown) => void,
): () => void {
  let called = 0;
  let isRunning = false;
  return () => {
    called += 1;
    if (isRunning || (called - 1) % calls !== 0) return;
    isRunning = true;
    // A later call tries again.
    task()
      .catch(onFailure)
      .finally(() => {
        isRunning = false;
      });
  };
}

/**
 * Returns a function that calls `ask` once for all callers that wait, and one call at a time. The next call begins when
 * the running one has ended, so no caller receives a result that was read before the request for it.
 */
export function coalesced<T>(ask: () => Promise<T>): () => Promise<T> {
  let last: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  return () => {
    next ??= Promise.allSettled([last, nextTurn()]).then(() => {
      next = undefined;
      last = ask();
      return last;
    });
    return next;
  };
}
