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

// With a broken store, a test may never end. The runner has no limit for each test of a suite.
const allTestsTimeoutMs = 30 * 60_000;
// Failures of a suite that are not those of its tests: in the function of its `describe`, after its tests, or of `all`.
const ownFailures = ['testCodeFailure', 'hookFailed', 'testTimeoutFailure'];

/** What the test runner calls once it has loaded `declared-tests.ts`. */
export let declareTests = (): void => {};

/**
 * Runs the tests that a function declares, in this process. Call it once in each process. `concurrency` limits how
 * many subjects run at once, and how many tests of each. The results are in order of declaration. After `timeout`, in
 * ms, all tests that have not ended fail; Node.js 24 ignores it.
 */
export async function* runTests(
  declare: () => void,
  concurrency = 1,
  timeout = allTestsTimeoutMs,
): AsyncGenerator<TestResult> {
  declareTests = () => describe('all', { concurrency, timeout }, declare);
  const file = new URL(`./declared-tests${extname(import.meta.url)}`, import.meta.url);
  const groups: string[] = [];
  const options = { files: [fileURLToPath(file)], isolation: 'none' } as const;
  for await (const { type, data } of run(options)) {
    if (type === 'test:start') groups[data.nesting] = data.name;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { error } = type === 'test:fail' ? data.details : {};
    const isSuite = data.details.type === 'suite';
    if (!isSuite || ownFailures.includes(Object(error).failureType)) {
      const subject = groups[data.nesting - (isSuite ? 0 : 1)] ?? '';
      const name = isSuite ? 'declaration and clean-up' : data.name;
      yield { subject, name, ...(error && { error: error.cause ?? error }) };
    }
    // The runner itself ends only after all connections of this process are closed.
    if (data.nesting === 0) return;
  }
}
