import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';

/**
 * Replaces a function of a built-in module until `restore` is called or the test ends, also for modules that import it
 * by name. The result counts its calls.
 */
export function mockBuiltin<Name extends string, Replacement extends (...args: never[]) => unknown>(
  t: TestContext,
  module: Readonly<Record<Name, unknown>>,
  name: Name,
  replacement: Replacement,
) {
  const replaced = t.mock.fn(replacement);
  const original = module[name];
  const set = (value: unknown) => {
    Object.assign(module, { [name]: value });
    syncBuiltinESMExports();
  };
  const restore = () => set(original);
  t.after(restore);
  set(replaced);
  return { calls: () => replaced.mock.callCount(), restore };
}
