import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { connectionOf, Turns } from '../../src/http/in-flight.ts';
import { HttpError, securityHeaders } from '../../src/http/reply.ts';
import { HttpRequest, type Shared } from '../../src/http/request.ts';
import { WaitingMemory } from '../../src/http/waiting-memory.ts';

/** Requests of a listener that has one place. */
function onePlace() {
  const shared: Shared = {
    basePath: '',
    headers: securityHeaders,
    limits: { maxBodyBytes: 1_000, maxHeaders: 10, maxInFlight: 1, writeTimeoutMs: 0 },
    memory: new WaitingMemory(() => undefined),
    turns: new Turns(),
    taken: 0,
    draining: false,
  };
  const make = () => {
    const message = new IncomingMessage(new Socket());
    return new HttpRequest(message, new ServerResponse(message), connectionOf(message.socket), shared);
  };
  return { shared, make };
}

const isFull = (caught: unknown) =>
  caught instanceof HttpError && caught.status === 503 && caught.headers['retry-after'] === '1';

test('a request beyond the limit fails with 503 until a place is given back', () => {
  const { make } = onePlace();
  const [first, second] = [make(), make()];
  first.enter();
  assert.throws(() => second.enter(), isFull);
  second.release();
  assert.throws(() => second.enter(), isFull, 'one without a place gives none back');
  first.release();
  second.enter();
});

test('a request whose client has left before takes no place', async () => {
  const { make, shared } = onePlace();
  const left = make();
  left.response.destroy();
  await new Promise((resolve) => left.response.once('close', resolve));
  left.enter();
  assert.equal(shared.taken, 0);
  make().enter();
  assert.equal(shared.taken, 1);
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
