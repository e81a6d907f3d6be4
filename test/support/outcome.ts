import { DomainError, type ErrorKind } from '../../src/domain/errors.ts';

/** The kind of error that a call fails with, or `none`. */
export async function kindOf(call: unknown): Promise<ErrorKind | 'none'> {
  return Promise.resolve(call).then(
    () => 'none',
    (error) => DomainError.from(error).kind,
  );
}

/** The result of a call and its duration in ms. */
export async function timed<T>(call: Promise<T>): Promise<{ result: T; ms: number }> {
  const start = performance.now();
  return { result: await call, ms: performance.now() - start };
}
