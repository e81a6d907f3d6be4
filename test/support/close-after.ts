import type { TestContext } from 'node:test';

/** Closes what a test has opened after the test. */
export function closeAfter<T extends { close(): unknown }>(t: Pick<TestContext, 'after'>, opened: T): T {
  t.after(async () => {
    await opened.close();
  });
  return opened;
}
