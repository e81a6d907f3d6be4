import type { TestContext } from 'node:test';

/** Returns the errors that microtasks throw from now on, which would otherwise be uncaught exceptions. */
export function failuresOfMicrotasks(t: TestContext): ReadonlySet<unknown> {
  const failures = new Set<unknown>();
  const inMicrotask = queueMicrotask;
  t.mock.method(globalThis, 'queueMicrotask', (run: () => void) =>
    inMicrotask(() => {
      try {
        run();
      } catch (caught) {
        failures.add(caught);
      }
    }),
  );
  return failures;
}
