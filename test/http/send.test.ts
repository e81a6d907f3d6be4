import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { MemoryBudget } from '../../src/http/memory-budget.ts';
import { json, type Reply } from '../../src/http/reply.ts';
import type { Handler, HttpRequest } from '../../src/http/request.ts';
import { scheduler } from '../../src/http/scheduler.ts';
import { until } from '../kit/until.ts';
import { head, Wire } from '../kit/wire.ts';
import { held, startKit } from '../support/http-kit.ts';
import { listen } from '../support/listen.ts';
import { Source } from '../support/source.ts';
import { checkForm } from './wire/table.ts';

const wholes: readonly [what: string, reply: Reply, length: string | undefined, body: string][] = [
  ['text', { status: 200, body: 'héllo' }, '6', 'héllo'],
  ['bytes', { status: 200, body: Buffer.from('hello') }, '5', 'hello'],
  ['an empty text', { status: 200, body: '' }, '0', ''],
  ['no body', { status: 200 }, '0', ''],
  ['status 204', { status: 204 }, undefined, ''],
  ['status 304', { status: 304 }, undefined, ''],
];

for (const [what, reply, length, body] of wholes) {
  for (const method of ['GET', 'HEAD']) {
    test(`a response with ${what} to ${method}`, async (t) => {
      const { port } = await startKit(t, { 'GET /': () => reply });
      const wire = await Wire.open(t, port);
      if (method === 'HEAD') wire.expectHead();
      wire.write(head(`${method} /`), head(`${method} /`));
      for (const _ of [1, 2]) {
        const response = await wire.next();
        assert.equal(response.status, reply.status);
        assert.equal(response.headers['content-length'], length);
        assert.equal(response.body, method === 'HEAD' ? '' : body);
      }
    });
  }
}

const chunk = Buffer.alloc(64 * 1024, 'x');
const pieces = (taken: number) => ['one ', Buffer.from('two '), 'three'][taken];

test('a stream of unknown length is sent in chunks, also after an empty one', async (t) => {
  const source = new Source((taken) => (taken === 0 ? '' : pieces(taken - 1)));
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const { headers, body } = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(headers['transfer-encoding'], 'chunked');
  assert.equal(body, 'one two three');
  assert.equal(source.returned, true);
});

for (const [length, waits] of [
  [undefined, [4, 4, 5]],
  [13, [4, 4]],
] as const) {
  test(`a stream of ${length ?? 'unknown'} length waits after each chunk until it may send the next`, async (t) => {
    const pause = t.mock.method(scheduler, 'pause');
    const { port } = await startKit(t, {
      'GET /': () => ({ status: 200, body: new Source(pieces, length) }),
    });
    await (await Wire.open(t, port)).write(head('GET /')).next();
    const lengths = pause.mock.calls.map(({ arguments: [bytes] }) => bytes);
    assert.deepEqual(lengths, waits);
  });
}

test('a stream of unknown length ends an HTTP/1.0 connection, also with keep-alive', async (t) => {
  const later = t.mock.fn((): Reply => ({ status: 200 }));
  const { port } = await startKit(t, {
    'GET /': () => ({ status: 200, body: new Source(pieces) }),
    'GET /later': later,
  });
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  const get = (path: string) => `GET ${path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`;
  socket.write(get('/') + get('/later'));
  const text = Buffer.concat(await socket.toArray()).toString();
  assert.match(text, /^HTTP\/1.1 200 OK\r\n(?:.+\r\n)*Connection: close\r\n/i);
  assert.match(text, /\r\n\r\none two three$/);
  assert.doesNotMatch(text, /transfer-encoding/i);
  assert.equal(later.mock.callCount(), 0, 'a request after Connection: close was processed');
});

test('a stream of known length has a Content-Length', async (t) => {
  const source = new Source(pieces, 13);
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const { headers, body } = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(headers['content-length'], '13');
  assert.equal(body, 'one two three');
});

test('an empty stream is sent as an empty body', async (t) => {
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: new Source(() => undefined) }) });
  assert.equal((await (await Wire.open(t, port)).write(head('GET /')).next()).body, '');
});

for (const length of [undefined, 13]) {
  test(`HEAD does not read a stream of ${length ?? 'unknown'} length`, async (t) => {
    const source = new Source(pieces, length);
    const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
    const wire = (await Wire.open(t, port)).expectHead().write(head('HEAD /'));
    assert.equal((await wire.next()).headers['content-length'], length?.toString());
    assert.equal(source.taken, 0);
  });
}

test('a stream that fails before its first chunk returns 500', async (t) => {
  const source = new Source(() => Promise.reject(new Error('secret')));
  const { port, thrown } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const response = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(response.status, 500);
  assert.equal(response.body, '{"error":"internal error"}');
  checkForm(response, false);
  assert.equal(thrown.length, 1);
  assert.equal(source.returned, true);
});

for (const length of [undefined, 1_000]) {
  test(`a stream of ${length ?? 'unknown'} length that fails halfway closes the connection`, async (t) => {
    const source = new Source((taken) => (taken < 2 ? 'part' : Promise.reject(new Error('secret'))), length);
    const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
    const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
    assert.deepEqual(await wire.end(), [], 'the client must not get a complete response');
    assert.doesNotMatch(wire.received.toString(), /secret|\r\n0\r\n/);
    assert.equal(kit.thrown.length, 1, 'the error must be reported once');
    const types = kit.events.map((event) => event.type);
    assert.deepEqual(types, ['request']);
  });
}

test('a stream that cannot be closed after its end does not close the connection', async (t) => {
  const problem = new Error('EIO');
  async function* chunks() {
    try {
      yield 'all';
    } finally {
      await Promise.reject(problem);
    }
  }
  const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: { chunks: chunks(), length: 3 } }) });
  const wire = await Wire.open(t, kit.port);
  for (const _ of [1, 2]) assert.equal((await wire.write(head('GET /')).next()).status, 200);
  assert.ok(kit.thrown.includes(problem));
});

test('a client that disconnects halfway closes the stream, and no failure is reported', async (t) => {
  let source: Source | undefined;
  const handle: Handler = ({ signal }) => {
    // A store does the same when the signal of its caller is aborted.
    source = new Source(() => (signal.aborted ? Promise.reject(signal.reason) : chunk));
    return { status: 200, body: source };
  };
  const kit = await startKit(t, { 'GET /': handle });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
  const ended = kit.nextRequest();
  await once(wire.socket, 'data');
  wire.socket.resetAndDestroy();
  assert.equal((await ended).status, 499);
  assert.equal(kit.face.inFlight, 0);
  await until(() => source?.returned === true, 'the stream is closed');
  const failures = kit.events.filter((event) => event.type === 'failure');
  assert.deepEqual(failures, []);
});

test('a stream is not read further after its client has stopped reading and then disconnects', async (t) => {
  const source = new Source(() => chunk);
  const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const wire = await Wire.open(t, kit.port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  const { taken } = source;
  wire.socket.resetAndDestroy();
  await until(() => source.returned, 'the stream is closed');
  assert.equal(source.taken, taken);
});

test('a client that disconnects while the stream creates a chunk closes the stream', async (t) => {
  const made = Promise.withResolvers<Uint8Array>();
  const source = new Source((taken) => (taken === 0 ? chunk : made.promise));
  const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
  const ended = kit.nextRequest();
  await once(wire.socket, 'data');
  wire.socket.resetAndDestroy();
  await ended;
  made.resolve(chunk);
  await until(() => source.returned, 'the stream is closed');
  assert.ok(source.taken <= 2);
});

/** Counts the received bytes without storing them. Storing would make the client slow and look stalled. */
async function countBytes(wire: Wire, bytes: number, onData: () => void = () => undefined): Promise<void> {
  wire.socket.removeAllListeners('data');
  let count = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  wire.socket.on('data', (part: Buffer) => {
    count += part.length;
    onData();
    if (count >= bytes) resolve();
  });
  await Promise.race([promise, once(wire.socket, 'end'), once(wire.socket, 'close')]);
  assert.ok(count >= bytes, `cut after ${count} bytes`);
}

/** Resolves when no chunk was read from a stream for 100 turns of the event loop. */
async function untilStalled(source: Source): Promise<void> {
  for (let same = 0, before = 0; same < 100; before = source.taken) {
    await new Promise((resolve) => setImmediate(resolve));
    same = source.taken > 0 && source.taken === before ? same + 1 : 0;
  }
}

test('a stream is read only as fast as the client receives it', async (t) => {
  const chunks = 1_000;
  const source = new Source((taken) => (taken < chunks ? chunk : undefined), chunk.length * chunks);
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  assert.ok(source.taken < chunks / 4, `${source.taken} of ${chunks} chunks were read`);
  const read = countBytes(wire, chunk.length * chunks);
  wire.socket.resume();
  await read;
  assert.equal(source.taken, chunks);
});

const big = 'x'.repeat(20_000_000);
const endless = () => new Source(() => chunk);
const small: Handler = () => json(200, 'small');
const stalled: readonly [what: string, reply: () => Reply, before: string][] = [
  ['a long text', () => ({ status: 200, body: big }), ''],
  ['a stream', () => ({ status: 200, body: endless() }), ''],
  ['a long text after another response', () => ({ status: 200, body: big }), head('GET /slow')],
  ['a stream after another response', () => ({ status: 200, body: endless() }), head('GET /slow')],
];

for (const [what, reply, before] of stalled) {
  test(`${what} that the client does not read is aborted`, async (t) => {
    const slow = held();
    const options = { limits: { writeTimeoutMs: 300 } };
    const kit = await startKit(t, { 'GET /big': () => reply(), 'GET /slow': slow.handle }, options);
    const wire = await Wire.open(t, kit.port);
    wire.socket.pause();
    if (before !== '') void kit.nextRequest();
    const ended = kit.nextRequest();
    wire.write(before, head('GET /big'));
    if (before !== '') await slow.called;
    slow.release();
    const started = performance.now();
    assert.equal((await ended).status, 499);
    assert.ok(performance.now() - started < 30_000);
    assert.equal(kit.face.inFlight, 0);
    assert.deepEqual(kit.thrown, []);
  });
}

test('a response to a slow client that reads fast enough is never aborted', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const chunks = 300;
  const source = new Source((taken) => (taken < chunks ? chunk : undefined));
  const options = { limits: { writeTimeoutMs: 800 } };
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) }, options);
  const wire = await Wire.open(t, port);
  const read = countBytes(wire, chunk.length * chunks);
  wire.socket.pause();
  wire.write(head('GET /'));
  for (const _ of [1, 2, 3]) {
    await untilStalled(source);
    const { taken } = source;
    assert.ok(taken < chunks, 'the whole response fits into the socket buffers');
    t.mock.timers.tick(700);
    while (source.taken === taken) {
      wire.socket.resume();
      await once(wire.socket, 'data');
      wire.socket.pause();
    }
  }
  wire.socket.resume();
  await read;
});

test('writeTimeoutMs applies only while a response is sent, not to idle connections or slow handlers', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const slow = held();
  const reply = { status: 200, body: big };
  const handlers = { 'GET /big': () => reply, 'GET /slow': slow.handle, 'GET /small': small };
  const kit = await startKit(t, handlers, { limits: { writeTimeoutMs: 400 } });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /big'));
  const ended = kit.nextRequest();
  await countBytes(wire, big.length);
  await ended;
  t.mock.timers.tick(60_000);
  wire.write(head('GET /slow'));
  await slow.called;
  t.mock.timers.tick(60_000);
  slow.release();
  assert.match(String((await once(wire.socket, 'data'))[0]), /"held"/);
  wire.write(head('GET /small'));
  assert.match(String((await once(wire.socket, 'data'))[0]), /"small"/);
});

test('with writeTimeoutMs 0 a client may read nothing for a day', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const chunks = 300;
  const source = new Source((taken) => (taken < chunks ? chunk : undefined));
  const options = { limits: { writeTimeoutMs: 0 } };
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) }, options);
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  assert.ok(source.taken < chunks, 'the whole response fits into the socket buffers');
  t.mock.timers.tick(86_400_000);
  const read = countBytes(wire, chunk.length * chunks);
  wire.socket.resume();
  await read;
});

const bodies: readonly [what: string, body: () => string | Source][] = [
  ['a complete response', () => 'text'],
  ['a stream', () => new Source(pieces, 13)],
];
for (const [what, body] of bodies) {
  test(`${what} to a client that is still sending a long body closes the connection`, async (t) => {
    const { port } = await startKit(t, { 'POST /': () => ({ status: 200, body: body() }) });
    const wire = await Wire.open(t, port);
    wire.write(head('POST /', 'Content-Length: 70000'));
    assert.equal((await wire.next()).headers['connection'], 'close');
    assert.deepEqual(await wire.end(), []);
  });

  test(`${what} of a draining service closes the connection, even if the client sends nothing more`, async (t) => {
    const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: body() }) });
    kit.face.drain();
    const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
    assert.equal((await wire.next()).headers['connection'], 'close');
    assert.deepEqual(await wire.end(), []);
  });
}

test('a request uses no memory after its client has disconnected', async (t) => {
  const holds = t.mock.method(MemoryBudget.prototype, 'hold');
  const held = () => holds.mock.calls.map((call) => call.arguments[1]);
  const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: 'a'.repeat(20_000_000) }) });
  const ended = kit.nextRequest();
  const wire = await Wire.open(t, kit.port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await until(() => held().includes(20_000_000), 'the response waits for its client');
  wire.socket.destroy();
  await ended;
  assert.equal(held().at(-1), 0);
});

test('a chunk is released after it was sent, and not earlier', async (t) => {
  const released: unknown[] = [];
  const source = new Source((taken) => (taken < 200 ? Buffer.alloc(64 * 1024, taken) : undefined));
  source.release = (part) => released.push(part);
  const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const ended = kit.nextRequest();
  const wire = await Wire.open(t, kit.port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  assert.ok(released.length < source.taken, `${released.length} of ${source.taken}`);
  const read = countBytes(wire, 200 * 64 * 1024);
  wire.socket.resume();
  await read;
  // The client may have read so many bytes, with those of the head, before the last ones are written.
  await ended;
  assert.deepEqual(released.length, 200);
});

test('a chunk that could not be sent is not released', async (t) => {
  let released = 0;
  const source = new Source((taken) => (taken < 200 ? Buffer.alloc(64 * 1024, taken) : undefined));
  source.release = () => {
    released += 1;
  };
  const closed = Promise.withResolvers<void>();
  const { port } = await startKit(t, {
    'GET /': ({ response }) => {
      response.req.socket.on('close', () => closed.resolve());
      return { status: 200, body: source };
    },
  });
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  wire.socket.resetAndDestroy();
  await closed.promise;
  assert.ok(released < source.taken, `${released} of ${source.taken}`);
});

test('a reply is dropped if the host has responded in the meantime, for example after a timeout', async (t) => {
  const respond = ({ response }: HttpRequest) =>
    response.writeHead(202, { 'content-type': 'text/plain' }).end('by the host');
  const { port, thrown } = await startKit(t, {
    'GET /late': (request) => {
      respond(request);
      return { status: 200, body: 'here' };
    },
    'GET /later': (request) => {
      const first = () => respond(request) && 'here';
      return { status: 200, body: new Source((taken) => (taken === 0 ? first() : undefined)) };
    },
    'GET /': small,
  });
  const wire = await Wire.open(t, port);
  for (const path of ['/late', '/later']) {
    assert.equal((await wire.write(head(`GET ${path}`)).next()).status, 202);
  }
  assert.equal((await wire.write(head('GET /')).next()).status, 200);
  assert.deepEqual(thrown, []);
});

test('a reply is dropped while the host sends its own response, which continues', async (t) => {
  const slow = held();
  const { face, thrown } = await startKit(t, { 'GET /': slow.handle });
  const server = createServer(async (message, response) => {
    face.onRequest(message, response);
    await slow.called;
    response.writeHead(202).write('by the ');
    slow.release();
    for (let turns = 0; turns < 10; turns += 1) await nextTurn();
    response.end('host');
  });
  const { port } = await listen(t, server);
  const { status, body } = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.deepEqual([status, body], [202, 'by the host']);
  assert.deepEqual(thrown, []);
});

test('a response with an invalid header becomes an internal error', async (t) => {
  const { port, thrown } = await startKit(t, {
    'GET /': () => ({ status: 200, headers: { location: 'a\r\nb: c' } }),
  });
  const response = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(response.status, 500);
  assert.equal(response.headers['b'], undefined);
  assert.match(String(thrown[0]), /ERR_INVALID_CHAR/);
});

test('when the error response cannot be sent either, the connection closes and the failure is reported', async (t) => {
  const kit = await startKit(t, { 'GET /': small }, { commonHeaders: { broken: '\n' } });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
  assert.deepEqual(await wire.end(), []);
  assert.deepEqual(kit.events.map((event) => event.type).sort(), ['failure', 'request']);
  assert.equal(kit.face.inFlight, 0);
});
