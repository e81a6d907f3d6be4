import { setImmediate as nextTurn } from 'node:timers/promises';

/** Shares one call of `ask` between all callers before it starts, one at a time: no result is older than its call. */
export function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let sent: Promise<unknown> | undefined;
  let next: Promise<T> | undefined;
  return () => {
    next ??= (async () => {
      await (sent ?? nextTurn());
      next = undefined;
      const answer = ask();
      sent = answer
        .catch(() => undefined)
        .finally(() => {
          sent = undefined;
        });
      return answer;
    })();
    return next;
  };
}
