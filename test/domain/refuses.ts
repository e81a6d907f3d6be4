import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { DomainError, type ErrorKind } from '../../src/domain/errors.ts';

/** Checks that `parse` throws an error of this kind whose message begins with the wrong field. */
export function refuses(parse: () => unknown, culprit: string, kind: ErrorKind = 'invalid'): void {
  let got: unknown;
  try {
    got = parse();
  } catch (error) {
    assert(error instanceof DomainError, `threw ${inspect(error)}`);
    assert.equal(error.kind, kind, error.message);
    assert(error.message.startsWith(`${culprit} `), `"${error.message}" does not name ${culprit}`);
    return;
  }
  assert.fail(`got ${inspect(got)}, want an error about ${culprit}`);
}

/** The form of a value in the name of a test. */
export function show(value: unknown): string {
  const text =
    value instanceof Error ? `${value}` : inspect(value, { breakLength: Number.POSITIVE_INFINITY });
  return text.length > 70 ? `${text.slice(0, 70)}… (${text.length})` : text;
}
