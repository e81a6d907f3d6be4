import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyMemory } from '../../src/http/body-memory.ts';

const mebibyte = 1024 * 1024;

test('bodies on their way have so much memory between them, and give it back', () => {
  const memory = new BodyMemory(mebibyte);
  const first = memory.open();
  assert.equal(first.take(mebibyte), true);
  const second = memory.open();
  assert.equal(second.take(64 * 1024), false);
  first.close();
  assert.equal(memory.open().take(64 * 1024), true);
});

test('short ones are always taken', () => {
  const memory = new BodyMemory(0);
  assert.equal(memory.open().take(10_000), true);
  assert.equal(memory.open().take(20_000), false);
});

test('however many short ones wait, a long one is taken', () => {
  const memory = new BodyMemory(mebibyte);
  for (let i = 0; i < 5_000; i += 1) assert.equal(memory.open().take(14_000), true);
  assert.equal(memory.open().take(64 * 1024), true);
});
