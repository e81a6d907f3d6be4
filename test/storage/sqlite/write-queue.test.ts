import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { DomainError } from '../../../src/domain/errors.ts';
import { WriteQueue, type WriterMessage, type WriterReply } from '../../../src/storage/sqlite/write-queue.ts';
import { type Scheduler, testSchedules } from '../../support/scheduler.ts';

const maxPendingWrites = 8;
const maxWaitMs = 50;

/** Simulates the writer thread. It commits groups, rejects some, and sometimes exits. */
function startWriter(scheduler: Scheduler, committed: number[], busy: { writers: number }): Worker {
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    busy.writers = 0;
    writer.emit('exit', 1);
  };
  const writer = Object.assign(new EventEmitter(), {
    ref: () => undefined,
    unref: () => undefined,
    postMessage(message: WriterMessage) {
      assert.equal(busy.writers, 0, 'two groups are written at a time');
      if (message === 'close') return scheduler.soon(() => writer.emit('exit', 0), writer);
      busy.writers += 1;
      const isCommitted = !scheduler.oneIn(4);
      const ends = scheduler.oneIn(10);
      const creations = message.filter(({ name }) => name === 'create');
      const ids = creations.map(({ parameters: [, record] }) => Number(Reflect.get(Object(record), 'id')));
      return scheduler.soon(() => {
        scheduler.now += scheduler.random.below(30);
        if (isCommitted && !isOver) committed.push(...ids);
        scheduler.soon(() => {
          if (isOver) return;
          busy.writers -= 1;
          const failed = { kind: 'unavailable', message: 'disk full', isFinal: false } as const;
          const reply = isCommitted ? { value: ids.map((value) => ({ value })) } : { failed };
          if (ends) end();
          else writer.emit('message', reply satisfies WriterReply);
        }, writer);
      }, writer);
    },
  });
  // The thread exits while it is idle.
  if (scheduler.oneIn(3)) scheduler.soon(end);
  return writer as unknown as Worker;
}

testSchedules(
  'the write queue completes each write once and in order, and acknowledges only committed writes',
  async (scheduler) => {
    const committed: number[] = [];
    const acknowledged: number[] = [];
    const unsure: number[] = [];
    const busy = { writers: 0 };
    const start = () => startWriter(scheduler, committed, busy);
    const queue = new WriteQueue({ startWriter: start, maxPendingWrites, maxWaitMs });
    if (scheduler.oneIn(2)) queue.start();
    let pending = 0;
    const write = async (id: number) => {
      pending += 1;
      const isFull = pending > maxPendingWrites;
      try {
        assert.equal(await queue.write('create', ['users', { id }]), id);
        assert.ok(!isFull, 'more writes wait than allowed');
        assert.ok(committed.includes(id), `${id} was acknowledged without a commit`);
        acknowledged.push(id);
      } catch (caught) {
        assert.ok(caught instanceof DomainError);
        assert.equal(caught.kind, isFull ? 'overloaded' : 'unavailable');
        unsure.push(id);
      } finally {
        pending -= 1;
      }
    };
    const count = 1 + scheduler.random.below(14);
    const writes: Promise<void>[] = [];
    for (let id = 0; id < count; id += 1) {
      writes.push(write(id));
      if (scheduler.oneIn(3)) await scheduler.turn();
    }
    const closing = queue.close();
    await Promise.all(writes);
    assert.equal(pending, 0);
    const sorted = committed.toSorted((a, b) => a - b);
    assert.deepEqual(committed, sorted, 'commits must have the order of the writes');
    assert.equal(new Set(committed).size, committed.length);
    assert.equal(acknowledged.length + unsure.length, count);
    await closing;
  },
);

/** A writer thread that replies only when the test emits its messages. */
function idleWriter(): EventEmitter {
  const ignore = () => undefined;
  return Object.assign(new EventEmitter(), { ref: ignore, unref: ignore, postMessage: ignore });
}

it('the writer thread keeps the process alive only while it commits or closes', async () => {
  let keeps = true;
  const keep = (value: boolean) => () => {
    keeps = value;
  };
  const writer = Object.assign(idleWriter(), { ref: keep(true), unref: keep(false) });
  const startWriter = () => writer as unknown as Worker;
  const queue = new WriteQueue({ startWriter, maxPendingWrites, maxWaitMs: 60_000 });
  queue.start();
  assert.equal(keeps, false);
  const write = queue.write('importRows', ['users', []]);
  await nextTurn();
  assert.equal(keeps, true);
  writer.emit('message', { value: [{ value: 0 }] });
  await write;
  await nextTurn();
  assert.equal(keeps, false);
  const closed = queue.close();
  await nextTurn();
  assert.equal(keeps, true);
  writer.emit('exit', 0);
  await closed;
});

it('while a commit does not end, the queue has a failure and rejects the writes that wait for it', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const writer = idleWriter();
  const maxWaitMs = 60_000;
  const startWriter = () => writer as unknown as Worker;
  const queue = new WriteQueue({ startWriter, maxPendingWrites, maxWaitMs });
  const write = () => queue.write('importRows', ['users', []]);
  const first = write();
  await nextTurn();
  for (let round = 0; round < 2; round += 1) {
    const waiting = [write(), write()];
    t.mock.timers.tick(maxWaitMs);
    const message = `a commit takes longer than ${maxWaitMs} ms`;
    assert.deepEqual(queue.failure?.cause, new Error(message));
    for (const call of waiting)
      await assert.rejects(call, { kind: 'unavailable', cause: new Error(message) });
  }
  const last = write();
  const reply = (value: number): WriterReply => ({ value: [{ value }] });
  writer.emit('message', reply(1));
  assert.equal(await first, 1);
  assert.equal(queue.failure, undefined);
  writer.emit('message', reply(2));
  assert.equal(await last, 2);
  await nextTurn();
  t.mock.timers.tick(maxWaitMs);
  assert.equal(queue.failure, undefined, 'no commit runs');
});

it('after a failed commit, each group also writes to the disk, because its writes may change nothing', async () => {
  const sent: WriterMessage[] = [];
  const writer = Object.assign(idleWriter(), { postMessage: (message: WriterMessage) => sent.push(message) });
  const startWriter = () => writer as unknown as Worker;
  const queue = new WriteQueue({ startWriter, maxPendingWrites, maxWaitMs: 60_000 });
  const write = async (reply: WriterReply) => {
    const writing = queue.write('delete', ['users', [1]]);
    await nextTurn();
    writer.emit('message', reply);
    await writing.catch(() => undefined);
    return sent.splice(0).map((message) => message !== 'close' && message.map(({ name }) => name));
  };
  const failed: WriterReply = { failed: { kind: 'unavailable', message: 'disk full', isFinal: false } };
  assert.deepEqual(await write(failed), [['delete']]);
  assert.deepEqual(await write(failed), [['delete', 'touch']]);
  assert.deepEqual(await write({ value: [{ value: true }, { value: undefined }] }), [['delete', 'touch']]);
  assert.deepEqual(await write({ value: [{ value: true }] }), [['delete']]);
});

it('a late reply of a lost writer thread does not settle the writes of the next thread', async (t) => {
  const writers: EventEmitter[] = [];
  const startWriter = () => {
    const writer = idleWriter();
    writers.push(writer);
    return writer as unknown as Worker;
  };
  const queue = new WriteQueue({ startWriter, maxPendingWrites, maxWaitMs: 60_000 });
  const first = queue.write('importRows', ['users', []]);
  await t.waitFor(() => assert.equal(writers.length, 1));
  writers[0]?.emit('exit', 1);
  await assert.rejects(first, /unavailable|does not|not available/);
  const second = queue.write('importRows', ['users', []]);
  await t.waitFor(() => assert.equal(writers.length, 2));
  const reply = (value: number): WriterReply => ({ value: [{ value }] });
  writers[0]?.emit('message', reply(1));
  writers[0]?.emit('error', new Error('late'));
  writers[1]?.emit('message', reply(2));
  assert.equal(await second, 2);
});
