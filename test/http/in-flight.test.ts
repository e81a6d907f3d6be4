import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { connectionOf } from '../../src/http/connection.ts';
import { MemoryBudget } from '../../src/http/memory-budget.ts';
import { HttpError } from '../../src/http/reply.ts';
import { HttpRequest, type Listener } from '../../src/http/request.ts';
import { send } from '../../src/http/send.ts';

/** Requests of a listener that allows one request in flight. */
function allowOne() {
  const listener: Listener = {
    basePath: '',
    commonHeaders: {},
    limits: { maxBodyBytes: 1_000, maxHeaders: 10, maxInFlight: 1, writeTimeoutMs: 0 },
    memory: new MemoryBudget(() => undefined, 0),
    inFlight: 0,
    counted: 0,
    draining: false,
  };
  const make = () => {
    const message = new IncomingMessage(new Socket());
    return new HttpRequest(message, new ServerResponse(message), connectionOf(message.socket), listener);
  };
  return { listener, make };
}

const isFull = (caught: unknown) =>
  caught instanceof HttpError && caught.status === 503 && caught.headers['retry-after'] === '1';

test('a request whose client has already disconnected does not count as in flight', () => {
  const { make, listener } = allowOne();
  const left = make();
  left.release();
  left.count();
  assert.equal(listener.counted, 0);
  make().count();
  assert.equal(listener.counted, 1);
});

test('a request whose host has already responded holds no memory for the rest of its body', () => {
  const { make, listener } = allowOne();
  const memory = new MemoryBudget(() => undefined, 0, 100_000);
  Object.assign(listener, { memory });
  const answered = make();
  answered.hold(90_000);
  assert.ok(memory.isShort);
  answered.release();
  answered.hold(90_000);
  assert.equal(memory.isShort, false);
});

// The longer one is written in slices.
for (const length of [60_000, 200_000]) {
  test(`a whole reply of ${length} bytes counts as used memory until its client has received it`, async () => {
    const { make, listener } = allowOne();
    const memory = new MemoryBudget(() => undefined, 0, length);
    Object.assign(listener, { memory });
    const request = make();
    send(request, { status: 200, body: 'x'.repeat(length) });
    await nextTurn();
    assert.ok(memory.isShort);
    request.response.destroy();
    await new Promise((resolve) => request.response.once('close', resolve));
    request.release();
    assert.equal(memory.isShort, false);
  });
}

test('a request whose body arrived together with its head still counts while the body is read', async () => {
  const { make } = allowOne();
  const request = make();
  request.raw.headers = { 'content-type': 'application/json', 'content-length': '2' };
  request.count();
  const reading = request.json();
  request.raw.push('{}');
  request.raw.push(null);
  request.raw.complete = true;
  assert.throws(() => make().count(), isFull);
  assert.equal((await reading).text, '{}');
  assert.throws(() => make().count(), isFull);
});

test('a chunk of a stream counts as used memory until the stream may produce the next one', async () => {
  const { make, listener } = allowOne();
  const memory = new MemoryBudget(() => undefined, 0, 100_000);
  Object.assign(listener, { memory });
  const request = make();
  // A client that reads at once.
  request.response.write = () => true;
  const isShort: boolean[] = [];
  async function* chunks() {
    for (let i = 0; i < 3; i += 1) {
      isShort.push(memory.isShort);
      yield 'x'.repeat(80_000);
    }
  }
  const sent = send(request, { status: 200, body: { chunks: chunks() } });
  // The stream keeps its chunk while others have their turn.
  await nextTurn();
  assert.ok(memory.isShort);
  await sent;
  assert.deepEqual(isShort, [false, false, false]);
});

test('the body of a waiting request counts for the memory budget until the request starts or is cancelled', () => {
  const { make, listener } = allowOne();
  const memory = new MemoryBudget(() => undefined, 0, 100_000);
  Object.assign(listener, { memory });
  const cancelled: string[] = [];
  const wait = (name: string, headers: Readonly<Record<string, string>>) => {
    const request = make();
    const { raw } = request;
    raw.headers = { ...headers };
    return { raw, release: request.holdUnread(() => cancelled.push(name)) };
  };
  wait('without a body', {});
  wait('with a short body', { 'content-length': '10000' });
  for (let i = 0; i < 100; i += 1) {
    const { raw } = wait('with a short chunked body', { 'transfer-encoding': 'chunked' });
    raw.push('123');
    raw.push(null);
  }
  const first = wait('first', { 'content-length': '1000000' });
  assert.equal(memory.isShort, false);
  const second = wait('second', { 'transfer-encoding': 'chunked' });
  second.raw.push('1');
  assert.equal(memory.isShort, true);
  assert.deepEqual(cancelled, []);
  const third = wait('third', { 'content-length': '65536' });
  assert.equal(third.raw.push(Buffer.alloc(65_536)), false, 'Node stops reading the body');
  assert.deepEqual(cancelled, ['first']);
  assert.ok(first.raw.listenerCount('data') > 0, 'the body is discarded');
  first.raw.push(Buffer.alloc(65_536));
  first.raw.push(null);
  second.release();
  second.raw.push(Buffer.alloc(65_536));
  second.raw.push(null);
  wait('fourth', { 'content-length': '65536' });
  assert.deepEqual(cancelled, ['first']);
});

/** Pipelines up to `most` requests on a connection until it is paused or closed. */
function pipeline(
  memory: MemoryBudget,
  headers: Readonly<Record<string, string>> = {},
  most = 1_000,
  url = '/',
  given = new Socket(),
) {
  // Jest runs the service in another realm than the parser.
  const parser: { onIncoming?: () => number } = runInNewContext('({})');
  const socket = Object.assign(given, { parser });
  const connection = connectionOf(socket);
  const started: number[] = [];
  const responses: ServerResponse[] = [];
  for (let i = 0; i < most && !socket.isPaused() && !socket.destroyed; i += 1) {
    const message = new IncomingMessage(socket);
    message.url = url;
    message.headers = { ...headers };
    message.rawHeaders = Object.entries(headers).flat();
    const response = new ServerResponse(message);
    responses.push(response);
    connection.wait(response, memory, () => started.push(i));
  }
  return { socket, connection, started, responses };
}

test('a connection with too many waiting requests is not read until all of them have started', async () => {
  const memory = new MemoryBudget(() => undefined, 0, 20_000_000);
  const socket = new Socket();
  for (const _ of ['once', 'again']) {
    const { started, responses } = pipeline(memory, {}, 1_000, '/', socket);
    assert.ok(responses.length > 2 && responses.length <= 17, `${responses.length} requests wait`);
    for (const response of responses) {
      assert.ok(socket.isPaused(), 'the connection was read before the last request started');
      response.assignSocket(socket);
      await undefined;
      response.detachSocket(socket);
    }
    assert.deepEqual(started, [...responses.keys()]);
    assert.equal(socket.isPaused(), false);
    assert.equal(socket.listenerCount('close'), 0, 'the connection keeps a listener');
    assert.equal(memory.isShort, false);
  }
});

test('the signal of a connection is aborted if it is first used after the client has disconnected', () => {
  const socket = new Socket();
  socket.destroy();
  assert.ok(connectionOf(socket).signal.aborted);
});

test('a waiting request does not start after its connection was destroyed', async () => {
  const { socket, started, responses } = pipeline(new MemoryBudget(() => undefined, 0), {}, 1);
  socket.destroy();
  for (const response of responses) response.assignSocket(socket);
  await undefined;
  assert.deepEqual(started, []);
});

test('the head and the body of a pipelined request count towards the memory of waiting requests', () => {
  const memory = new MemoryBudget(() => undefined, 0, 20_000_000);
  assert.equal(pipeline(memory, { 'content-length': '50000' }).responses.length, 1);
  assert.equal(pipeline(memory, { 'transfer-encoding': 'chunked' }).responses.length, 1);
  const long = 'x'.repeat(15_000);
  assert.equal(
    pipeline(new MemoryBudget(() => undefined, 0, 1_000_000), { 'content-length': '1000000' }).socket
      .destroyed,
    false,
    'one read is counted of a long body',
  );
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x${i}`, '']));
  for (const { responses } of [
    pipeline(memory, { cookie: long }),
    pipeline(memory, many),
    pipeline(memory, {}, 1_000, `/${long}`),
  ]) {
    assert.ok(responses.length <= 3, `${responses.length} requests wait`);
  }
});

test('a connection that pauses within a packet counts for the rest of the packet, and is not closed for it', () => {
  const memory = new MemoryBudget(() => undefined, 0, 1_000_000);
  const { socket, connection, responses } = pipeline(memory);
  assert.equal(memory.isShort, false, 'only the requests that wait count');
  for (let i = 0; i < 1_000; i += 1) {
    const response = new ServerResponse(new IncomingMessage(socket));
    responses.push(response);
    connection.wait(response, memory, () => undefined);
  }
  assert.equal(memory.isShort, true);
  assert.deepEqual([socket.destroyed, socket.isPaused()], [false, true]);
});

test('many connections with a few waiting requests each count with all of them', () => {
  const memory = new MemoryBudget(() => undefined, 0, 1_000_000);
  let waiting = 0;
  for (let i = 0; i < 1_000; i += 1) {
    const { socket, responses } = pipeline(memory);
    if (socket.destroyed) break;
    waiting += responses.length;
  }
  assert.ok(waiting * 2_048 <= 500_000, `${waiting} requests wait`);
});

test('while memory is short, a connection with too many waiting requests is closed', async () => {
  let reports = 0;
  const report = () => {
    reports += 1;
  };
  const memory = new MemoryBudget(report, 0, 300_000);
  const long = { cookie: 'x'.repeat(100_000) };
  const first = pipeline(memory, long);
  assert.deepEqual([first.socket.destroyed, reports], [false, 0]);
  const second = pipeline(memory, long);
  assert.deepEqual([second.socket.destroyed, reports], [true, 1]);
  assert.equal(second.socket.parser.onIncoming?.(), 2, 'its parser stops');
  assert.equal(pipeline(memory, {}, 2).socket.destroyed, false, 'a few requests may wait');
  assert.equal(memory.isShort, false, 'the second connection uses no memory');
  first.socket.destroy();
  await new Promise((resolve) => first.socket.once('close', resolve));
  assert.equal(pipeline(memory, long).socket.destroyed, false);
});
