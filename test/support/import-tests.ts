import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

const tests = join(import.meta.dirname, '..');

/** Runs the test files of a folder in this process, except `*.alone.test.ts`. */
export async function importTests(folder: string): Promise<void> {
  const files = globSync(join(tests, folder, '**/!(*.alone).test.ts')).sort();
  const source = files.map((file) => `import ${JSON.stringify(pathToFileURL(file))};`).join('');
  // By one import, all files declare their tests before the first test runs.
  await import(`data:text/javascript,${encodeURIComponent(source)}`).catch((error: unknown) =>
    test(`the files of test/${folder} can be loaded`, () => Promise.reject(error)),
  );
}
