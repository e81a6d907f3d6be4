import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import timers from 'node:timers/promises';

/** Makes every pause of `node:timers/promises` end at once, and returns their lengths in ms. */
export function recordPauses(t: TestContext): readonly number[] {
  const pauses: number[] = [];
  replacePauses(t, async (ms = 1) => void pauses.push(ms));
  return pauses;
}

/**
 * Makes every pause of `node:timers/promises` last until the returned function is called, or the test ends. Must be called
 * before a service starts, whose close may wait for a pause.
 */
export function holdPauses(t: TestContext): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  t.after(() => resolve());
  replacePauses(t, () => promise);
  return resolve;
}

function replacePauses(t: TestContext, pause: (ms?: number) => Promise<void>): void {
  const { mock } = t.mock.method(timers, 'setTimeout', pause);
  syncBuiltinESMExports();
  t.after(() => {
    mock.restore();
    syncBuiltinESMExports();
  });
}
