import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { InFlightLimit, Turns, WaitingMemory } from '../../src/http/in-flight.ts';
import { HttpError } from '../../src/http/reply.ts';

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

/** A memory of one MiB, and the names of those that it gave up, in order. */
function memory() {
  const givenUp: string[] = [];
  let reported = 0;
  const waiting = new WaitingMemory(() => {
    reported += 1;
  }, mebibyte);
  const owners = new Map<string, object>();
  const hold = (name: string, bytes: number, canGiveUp = true): void => {
    const owner = owners.get(name) ?? {};
    owners.set(name, owner);
    waiting.hold(owner, bytes, canGiveUp ? () => givenUp.push(name) : undefined);
  };
  return { waiting, hold, givenUp, reported: () => reported };
}

test('beyond the budget the one that has waited longest is given up', () => {
  const { hold, givenUp, reported } = memory();
  for (const name of ['a', 'b', 'c']) hold(name, 400 * 1024);
  assert.deepEqual(givenUp, ['a']);
  hold('d', 800 * 1024);
  assert.deepEqual(givenUp, ['a', 'b', 'c']);
  assert.equal(reported(), 3);
});

test('one that makes progress has waited least', () => {
  const { hold, givenUp } = memory();
  for (const name of ['a', 'b']) hold(name, 400 * 1024);
  hold('a', 0);
  hold('a', 400 * 1024);
  hold('c', 400 * 1024);
  assert.deepEqual(givenUp, ['b']);
});

test('one that grows without a pause has waited since it began', () => {
  const { hold, givenUp } = memory();
  hold('a', 100 * 1024);
  hold('b', 100 * 1024);
  hold('a', 900 * 1024);
  hold('b', 200 * 1024);
  assert.deepEqual(givenUp, ['a']);
});

test('what must not be given up counts all the same', () => {
  const { hold, givenUp } = memory();
  hold('kept', mebibyte, false);
  hold('a', 100 * 1024);
  assert.deepEqual(givenUp, ['a']);
});

test('the first 16 KiB of each do not count', () => {
  const { hold, givenUp } = memory();
  for (let i = 0; i < 1_000; i += 1) hold(`short ${i}`, 16 * 1024);
  hold('long', mebibyte);
  assert.deepEqual(givenUp, []);
});

test('chunks of replies are short while half of the budget is taken', () => {
  const { waiting, hold } = memory();
  assert.equal(waiting.chunkBytes, 64 * 1024);
  hold('a', 600 * 1024);
  assert.equal(waiting.chunkBytes, 16 * 1024);
  hold('a', 0);
  assert.equal(waiting.chunkBytes, 64 * 1024);
});

test('requests that arrive at once start in turns, in their order, and those that have started go on first', async () => {
  const turns = new Turns();
  const order: string[] = [];
  const busy = (ms: number): void => {
    const end = performance.now() + ms;
    while (performance.now() < end);
  };
  assert.equal(turns.isOpen(performance.now()), true);
  busy(5);
  const done = Promise.withResolvers<void>();
  for (const name of ['a', 'b', 'c']) {
    assert.equal(turns.isOpen(performance.now()), false, 'the turn is over');
    turns.enqueue(() => {
      order.push(name);
      busy(5);
      if (name === 'c') done.resolve();
    });
  }
  turns.wait()?.then(() => order.push('started'));
  let loops = 0;
  const count = (): void => {
    loops += 1;
    if (order.length < 4) setImmediate(count);
  };
  setImmediate(count);
  await done.promise;
  assert.deepEqual(order, ['started', 'a', 'b', 'c']);
  assert.ok(loops >= 2, `the event loop went on ${loops} times meanwhile`);
});

test('while connections arrive one after another, requests wait for a while, not for ever', async () => {
  const turns = new Turns();
  let started = false;
  let loops = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const arrive = (): void => {
    loops += 1;
    turns.connected();
    turns.isOpen(performance.now());
    if (loops === 5) {
      turns.enqueue(() => {
        started = true;
        resolve();
      });
    }
    if (!started) setImmediate(arrive);
  };
  arrive();
  await promise;
  assert.ok(loops > 20 && loops < 200, `${loops} loops`);
});
