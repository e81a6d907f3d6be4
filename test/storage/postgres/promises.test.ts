import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unlessAborted } from '../../../src/storage/postgres/promises.ts';

test('a result that never comes is not awaited if the signal has aborted before', {
  timeout: 1_000,
}, async () => {
  const never = Promise.withResolvers<never>().promise;
  await assert.rejects(unlessAborted(never, AbortSignal.abort()), { kind: 'cancelled' });
});
