import type { TestContext } from 'node:test';
import timers from 'node:timers/promises';
import { mockBuiltin } from './mock-builtin.ts';

/** Makes every pause of `node:timers/promises` end at once, and returns their lengths in ms. */
export function recordPauses(t: TestContext): readonly number[] {
  const pauses: number[] = [];
  mockBuiltin(t, timers, 'setTimeout', async (ms = 1) => void pauses.push(ms));
  return pauses;
}

/**
 * Makes every pause of `node:timers/promises` last until the returned function is called, or the test ends. Must be called
 * before a service starts, whose close may wait for a pause.
 */
export function holdPauses(t: TestContext): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  t.after(() => resolve());
  mockBuiltin(t, timers, 'setTimeout', () => promise);
  return resolve;
}
