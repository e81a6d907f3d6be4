import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import {
  aborted,
  DomainError,
  type ErrorKind,
  errorKinds,
  messageOf,
  unlessAborted,
} from '../../src/domain/errors.ts';
import { show } from './refuses.ts';

it('DomainError rejects an unknown kind', () => {
  assert.throws(() => new DomainError('notfound' as ErrorKind, 'text'), {
    name: 'TypeError',
    message: /^notfound is not one of invalid, .*internal$/,
  });
});

describe('DomainError.from', () => {
  it('returns a DomainError unchanged', () => {
    const error = new DomainError('conflict', 'text');
    assert.equal(DomainError.from(error), error);
  });

  for (const [caught, kind] of [
    [new Error('secret'), 'internal'],
    [new TypeError('secret'), 'internal'],
    ['secret', 'internal'],
    [undefined, 'internal'],
    [null, 'internal'],
    [{ kind: 'not-found', message: 'secret' }, 'internal'],
    [{ name: 'AbortError', message: 'secret' }, 'internal'],
    [new DOMException('secret', 'AbortError'), 'cancelled'],
  ] as const) {
    it(`converts ${show(caught)} to ${kind}, with the value as the cause and without its text`, () => {
      const error = DomainError.from(caught);
      assert.equal(error.kind, kind);
      assert.equal(error.cause, caught);
      assert.ok(!error.message.includes('secret'), error.message);
    });
  }
});

describe('messageOf', () => {
  for (const [caught, message] of [
    [new Error('text'), 'text'],
    [new TypeError(), 'TypeError'],
    [new AggregateError([new Error('first'), new RangeError()]), 'first, RangeError'],
    ['text', 'text'],
    [undefined, 'undefined'],
  ] as const) {
    it(`of ${show(caught)} is ${message}`, () => assert.equal(messageOf(caught), message));
  }
});

describe('aborted', () => {
  const deadline = new DomainError('deadline-exceeded', 'text');
  const cases: readonly (readonly [reason: unknown, kind: ErrorKind, message: string])[] = [
    [undefined, 'cancelled', 'the request was cancelled'],
    ['gone', 'cancelled', 'the request was cancelled'],
    [new Error('gone'), 'cancelled', 'the request was cancelled'],
    [new DOMException('late', 'TimeoutError'), 'deadline-exceeded', 'the deadline has passed'],
    [deadline, 'deadline-exceeded', 'text'],
  ];
  for (const [reason, ...expected] of cases) {
    it(`converts the reason ${show(reason)} to ${expected[0]}`, () => {
      const signal = reason === undefined ? AbortSignal.abort() : AbortSignal.abort(reason);
      const error = aborted(signal);
      assert.deepEqual([error.kind, error.message], expected);
      assert.ok(error === signal.reason || error.cause === signal.reason, 'the reason is kept');
    });
  }

  it('converts a signal that timed out to deadline-exceeded', async () => {
    const signal = AbortSignal.timeout(1);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    assert.equal(aborted(signal).kind, 'deadline-exceeded');
  });
});

describe('unlessAborted', { timeout: 1_000 }, () => {
  it('does not await a result that never comes if the signal has aborted before', async () => {
    const never = Promise.withResolvers<never>().promise;
    await assert.rejects(unlessAborted(never, AbortSignal.abort()), { kind: 'cancelled' });
  });

  it('rejects at once when the signal aborts, and ignores a later failure of the result', async () => {
    const { promise, reject } = Promise.withResolvers<never>();
    const stop = new AbortController();
    const ended = unlessAborted(promise, stop.signal);
    stop.abort();
    await assert.rejects(ended, { kind: 'cancelled' });
    reject(new Error('late'));
    await new Promise(setImmediate);
  });

  for (const [outcome, result] of [
    ['value', () => Promise.resolve(1)],
    ['failure', () => Promise.reject(new Error('no'))],
  ] as const) {
    it(`passes on a ${outcome}, and removes its listener`, async () => {
      const { signal } = new AbortController();
      const [plain, guarded] = await Promise.allSettled([result(), unlessAborted<number>(result(), signal)]);
      assert.deepEqual(guarded, plain);
      assert.deepEqual(getEventListeners(signal, 'abort'), []);
    });
  }
});

describe('errorKinds', () => {
  it('contains each kind once', () => assert.equal(new Set(errorKinds).size, errorKinds.length));
});
