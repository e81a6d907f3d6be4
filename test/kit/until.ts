import { setTimeout as delay } from 'node:timers/promises';

/** Polls until a condition holds, and resolves to the elapsed milliseconds. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  limitMs = 10_000,
  pauseMs = 5,
): Promise<number> {
  const start = performance.now();
  while (!(await condition())) {
    if (performance.now() - start > limitMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await delay(pauseMs);
  }
  return performance.now() - start;
}
