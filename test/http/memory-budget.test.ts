import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryBudget } from '../../src/http/memory-budget.ts';

const mebibyte = 1024 * 1024;

/** A memory of one MiB, and the names of its cancelled owners in order. */
function memory() {
  const givenUp: string[] = [];
  let reported = 0;
  const waiting = new MemoryBudget(
    () => {
      reported += 1;
    },
    0,
    mebibyte,
  );
  const owners = new Map<string, object>();
  const hold = (name: string, bytes: number, canGiveUp = true): void => {
    const owner = owners.get(name) ?? {};
    owners.set(name, owner);
    waiting.hold(owner, bytes, canGiveUp ? () => givenUp.push(name) : undefined);
  };
  return { waiting, hold, givenUp, reported: () => reported };
}

test('beyond the memory limit, the owner that has waited longest is cancelled', () => {
  const { hold, givenUp, reported } = memory();
  for (const name of ['a', 'b', 'c']) hold(name, 400 * 1024);
  assert.deepEqual(givenUp, ['a']);
  hold('d', 800 * 1024);
  assert.deepEqual(givenUp, ['a', 'b', 'c']);
  assert.equal(reported(), 3);
});

test('the longest body that the options allow is not cancelled', () => {
  const longestBody = 64 * mebibyte;
  const memory = new MemoryBudget(() => assert.fail('the body was cancelled'), longestBody);
  memory.hold({}, longestBody + 1024 * 256, () => undefined);
});

test('an owner that makes progress counts as the one that has waited least', () => {
  const { hold, givenUp } = memory();
  for (const name of ['a', 'b']) hold(name, 400 * 1024);
  hold('a', 0);
  hold('a', 400 * 1024);
  hold('c', 400 * 1024);
  assert.deepEqual(givenUp, ['b']);
});

test('an owner that grows without a pause has waited since its start', () => {
  const { hold, givenUp } = memory();
  hold('a', 100 * 1024);
  hold('b', 100 * 1024);
  hold('a', 900 * 1024);
  hold('b', 200 * 1024);
  assert.deepEqual(givenUp, ['a']);
});

test('memory of owners that cannot be cancelled counts too', () => {
  const { hold, givenUp } = memory();
  hold('kept', mebibyte, false);
  hold('a', 100 * 1024);
  assert.deepEqual(givenUp, ['a']);
});

test('the first 16 KiB of each owner do not count', () => {
  const { hold, givenUp } = memory();
  for (let i = 0; i < 1_000; i += 1) hold(`short ${i}`, 16 * 1024);
  hold('long', mebibyte);
  assert.deepEqual(givenUp, []);
});

test('chunks of responses are shorter while more than half of the memory is used', () => {
  const { waiting, hold } = memory();
  assert.equal(waiting.chunkBytes, 64 * 1024);
  hold('a', 600 * 1024);
  assert.equal(waiting.chunkBytes, 16 * 1024);
  hold('a', 0);
  assert.equal(waiting.chunkBytes, 64 * 1024);
});
