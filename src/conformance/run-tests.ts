import { extname } from 'node:path';
import { describe, run } from 'node:test';
import { fileURLToPath } from 'node:url';

/** How one test ended. */
export interface TestResult {
  /** The name of the innermost `describe` around the test. */
  readonly subject: string;
  readonly name: string;
  /** Why it failed; absent when it passed. */
  readonly error?: unknown;
}

const testTimeoutMs = 300_000;

/** What the test runner calls once it has loaded `declared-tests.ts`. */
export let declareTests = (): void => {};

/**
 * Runs the tests that a function declares, in this process. Call it once in each process. `concurrency` limits how
 * many subjects run at once, and how many tests of each. The results are in order of declaration.
 */
export async function* runTests(declare: () => void, concurrency = 1): AsyncGenerator<TestResult> {
  declareTests = () => describe('all', { concurrency }, declare);
  const file = new URL(`./declared-tests${extname(import.meta.url)}`, import.meta.url);
  const groups: string[] = [];
  const options = { files: [fileURLToPath(file)], isolation: 'none', timeout: testTimeoutMs } as const;
  for await (const { type, data } of run(options)) {
    if (type === 'test:start') groups[data.nesting] = data.name;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    // The runner itself ends only after all connections of this process are closed.
    if (data.nesting === 0) return;
    if (data.details.type === 'suite') continue;
    const { error } = type === 'test:fail' ? data.details : {};
    const subject = groups[data.nesting - 1] ?? '';
    yield { subject, name: data.name, ...(error && { error: error.cause ?? error }) };
  }
}
