import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import timers from 'node:timers/promises';

/** Makes every pause of `node:timers/promises` end at once, and returns their lengths in ms. */
export function recordPauses(t: TestContext): readonly number[] {
  const pauses: number[] = [];
  const { mock } = t.mock.method(timers, 'setTimeout', async (ms = 1) => void pauses.push(ms));
  syncBuiltinESMExports();
  t.after(() => {
    mock.restore();
    syncBuiltinESMExports();
  });
  return pauses;
}
