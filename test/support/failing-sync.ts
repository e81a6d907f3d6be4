import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';

/** Makes the `sync` of the next file that is opened fail, as on a broken disk. */
export function failNextSync(t: TestContext): void {
  const { open } = fs;
  const { mock } = t.mock.method(fs, 'open', async (...given: Parameters<typeof open>) => {
    mock.restore();
    syncBuiltinESMExports();
    return Object.assign(await open(...given), {
      sync: () => Promise.reject(new Error('the disk is broken')),
    });
  });
  syncBuiltinESMExports();
}
