import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { HttpError } from '../../src/http/http-error.ts';
import { BodyMemory, InFlightLimit } from '../../src/http/in-flight.ts';

const mebibyte = 1024 * 1024;
const response = () => new ServerResponse(new IncomingMessage(new Socket()));
const isFull = (caught: unknown) =>
  caught instanceof HttpError && caught.status === 503 && caught.headers['retry-after'] === '1';

test('a request beyond the limit fails with 503 until a place is given back', () => {
  const limit = new InFlightLimit(1);
  const first = { admitted: false };
  const second = { admitted: false };
  limit.acquire(first, response());
  assert.throws(() => limit.acquire(second, response()), isFull);
  limit.release(second);
  assert.throws(() => limit.acquire(second, response()), isFull, 'one without a place gives none back');
  limit.release(first);
  limit.acquire(second, response());
});

test('a request whose client has left before takes no place', async () => {
  const limit = new InFlightLimit(1);
  const holder = { admitted: false };
  const left = response();
  left.destroy();
  await new Promise((resolve) => left.once('close', resolve));
  limit.acquire(holder, left);
  assert.equal(holder.admitted, false);
  limit.acquire(holder, response());
  assert.equal(holder.admitted, true);
});

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
