import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { connectionOf } from '../../src/http/connection.ts';
import { MemoryBudget } from '../../src/http/memory-budget.ts';
import { HttpError } from '../../src/http/reply.ts';
import { HttpRequest, type Listener } from '../../src/http/request.ts';
import { Scheduler as LoopScheduler } from '../../src/http/scheduler.ts';
import { type Scheduler, testSchedules } from '../support/scheduler.ts';

const maxInFlight = 3;
const text = '{"name":"Ann"}';

/** A message whose body arrives at a time that the schedule decides. Some clients disconnect instead. */
function openMessage(scheduler: Scheduler): { message: IncomingMessage; response: ServerResponse } {
  const headers = { 'content-type': 'application/json', 'content-length': String(text.length) };
  const socket = new EventEmitter();
  const body = new Readable({ read: () => undefined });
  const message = Object.assign(body, { method: 'POST', url: '/users', headers, complete: false, socket });
  const response = Object.assign(new EventEmitter(), { closed: false });
  const leaves = scheduler.oneIn(5);
  scheduler.soon(() => {
    message.complete = !leaves;
    if (leaves) {
      response.closed = true;
      message.destroy();
      response.emit('close');
    } else {
      message.push(text);
      message.push(null);
    }
  });
  return {
    message: message as unknown as IncomingMessage,
    response: response as unknown as ServerResponse,
  };
}

testSchedules(
  'requests start once and in order, never exceed the limit, and are all counted off at their end',
  async (scheduler) => {
    const loop = new LoopScheduler();
    const listener: Listener = {
      basePath: '',
      commonHeaders: {},
      limits: { maxBodyBytes: 1_000, maxHeaders: 100, maxInFlight, writeTimeoutMs: 1_000 },
      memory: new MemoryBudget(() => assert.fail('a request was cancelled although memory is free'), 0),
      inFlight: 0,
      counted: 0,
      draining: false,
    };
    const started: number[] = [];
    const queued: number[] = [];
    const serve = async (id: number) => {
      const { message, response } = openMessage(scheduler);
      const request = new HttpRequest(message, response, connectionOf(message.socket), listener);
      const closed = new Promise<void>((resolve) => {
        response.on('close', () => {
          request.release();
          resolve();
        });
      });
      const begin = Promise.withResolvers<void>();
      if (loop.admit(request.startedAt)) begin.resolve();
      else {
        queued.push(id);
        loop.addTask(() => {
          started.push(id);
          begin.resolve();
          return true;
        });
      }
      await begin.promise;
      const wasFull = listener.counted >= maxInFlight;
      try {
        request.count();
        assert.ok(!wasFull || response.closed, 'a request was accepted beyond the limit');
        assert.ok(listener.counted <= maxInFlight);
        if (scheduler.oneIn(2)) assert.deepEqual((await request.json()).value, { name: 'Ann' });
        assert.ok(listener.counted <= maxInFlight);
        if (scheduler.oneIn(4)) request.becomeLongLived();
        scheduler.now += scheduler.random.below(3);
        await loop.wait();
        await scheduler.turn();
      } catch (caught) {
        assert.ok(
          caught instanceof HttpError && (caught.status === 503 || caught.status === 499),
          `${caught}`,
        );
      }
      if (response.closed) return;
      Object.assign(response, { closed: true });
      response.emit('close');
      await closed;
    };
    const all: Promise<void>[] = [];
    for (let id = 0; id < 2 + scheduler.random.below(10); id += 1) {
      if (scheduler.oneIn(2)) loop.addConnection(() => undefined);
      all.push(serve(id));
      if (scheduler.oneIn(3)) await scheduler.turn();
    }
    await Promise.all(all);
    // Requests use the scheduler of their module, whose turn must not stay open until the next schedule.
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(started, queued, 'waiting requests must start once, in the order of their arrival');
    assert.equal(listener.counted, 0, 'a request is still counted after its end');
  },
);

const uncountedBytes = 16 * 1024;
const maxBytes = 100 * 1024;

testSchedules(
  'waiting requests stay within their memory, and those without progress for the longest time are cancelled',
  async (scheduler) => {
    const held = new Map<object, number>();
    const given: object[] = [];
    const memory = new MemoryBudget(() => undefined, 0, maxBytes);
    const owners = Array.from({ length: 6 }, () => ({}));
    for (let step = 0; step < 40; step += 1) {
      const owner = owners[scheduler.random.below(owners.length)] ?? {};
      const bytes = scheduler.oneIn(4) ? 0 : scheduler.random.below(60 * 1024);
      const counted = Math.max(0, bytes - uncountedBytes);
      if (counted === 0) held.delete(owner);
      else held.set(owner, counted);
      const expected: object[] = [];
      let sum = [...held.values()].reduce((all, one) => all + one, 0);
      for (const [oldest, one] of held) {
        if (sum <= maxBytes) break;
        expected.push(oldest);
        sum -= one;
      }
      for (const one of expected) held.delete(one);
      given.length = 0;
      memory.hold(owner, bytes, () => given.push(owner));
      assert.equal(given.length, expected.length);
      assert.equal(memory.chunkBytes, sum > maxBytes / 2 ? uncountedBytes : 64 * 1024);
    }
  },
);
