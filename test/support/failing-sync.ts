import fs from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { mockBuiltin } from './mock-builtin.ts';

/** Makes the `sync` of the next file that is opened, or of the one at a path, fail, as on a broken disk. */
export function failNextSync(t: TestContext, error = new Error('the disk is broken'), path?: string): void {
  const { open } = fs;
  const { restore } = mockBuiltin(t, fs, 'open', async (...given: Parameters<typeof open>) => {
    const file = await open(...given);
    if (path !== undefined && given[0] !== path) return file;
    restore();
    return Object.assign(file, { sync: () => Promise.reject(error) });
  });
}
