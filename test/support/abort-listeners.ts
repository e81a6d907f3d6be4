import { getEventListeners } from 'node:events';
import type { TestContext } from 'node:test';

/** Notes the signals that get a listener from now on. The result has the number of listeners that each still has. */
export function watchAbortListeners(t: TestContext): () => number[] {
  const signals = new Set<AbortSignal>();
  const { addEventListener } = EventTarget.prototype;
  t.mock.method(EventTarget.prototype, 'addEventListener', function (this: EventTarget, ...given: never[]) {
    if (this instanceof AbortSignal) signals.add(this);
    Reflect.apply(addEventListener, this, given);
  });
  return () => Array.from(signals, (signal) => getEventListeners(signal, 'abort').length);
}
