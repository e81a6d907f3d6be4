import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import type { Handler } from '../../src/http/listener.ts';
import { json, type Reply } from '../../src/http/reply.ts';
import { head, Wire } from '../kit/wire.ts';
import { held, startKit } from '../support/http-kit.ts';
import { Source } from '../support/source.ts';
import { checkForm } from './wire/table.ts';

const wholes: readonly [what: string, reply: Reply, length: string | undefined, body: string][] = [
  ['text', { status: 200, body: 'héllo' }, '6', 'héllo'],
  ['bytes', { status: 200, body: Buffer.from('hello') }, '5', 'hello'],
  ['an empty text', { status: 200, body: '' }, '0', ''],
  ['no body', { status: 200 }, '0', ''],
  ['no content', { status: 204 }, undefined, ''],
  ['not modified', { status: 304 }, undefined, ''],
];

for (const [what, reply, length, body] of wholes) {
  for (const method of ['GET', 'HEAD']) {
    test(`${what} in answer to ${method}`, async (t) => {
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

test('a stream of unknown length is chunked', async (t) => {
  const source = new Source(pieces);
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const { headers, body } = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(headers['transfer-encoding'], 'chunked');
  assert.equal(body, 'one two three');
  assert.equal(source.returned, true);
});

test('a stream of known length tells it', async (t) => {
  const source = new Source(pieces, 13);
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const { headers, body } = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(headers['content-length'], '13');
  assert.equal(body, 'one two three');
});

test('an empty stream is an empty body', async (t) => {
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: new Source(() => undefined) }) });
  assert.equal((await (await Wire.open(t, port)).write(head('GET /')).next()).body, '');
});

for (const length of [undefined, 13]) {
  test(`HEAD takes nothing of a stream of ${length ?? 'unknown'} length, and lets it go`, async (t) => {
    const source = new Source(pieces, length);
    const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
    const wire = (await Wire.open(t, port)).expectHead().write(head('HEAD /'));
    assert.equal((await wire.next()).headers['content-length'], length?.toString());
    assert.deepEqual([source.taken, source.returned], [0, true]);
  });
}

test('a stream that fails before its first chunk is an error like any other', async (t) => {
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
  test(`a stream of ${length ?? 'unknown'} length that fails halfway cuts the connection`, async (t) => {
    const source = new Source((taken) => (taken < 2 ? 'part' : Promise.reject(new Error('secret'))), length);
    const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
    const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
    assert.deepEqual(await wire.end(), [], 'no whole response');
    assert.doesNotMatch(wire.received.toString(), /secret|\r\n0\r\n/);
    assert.equal(kit.thrown.length, 1, 'told once');
    assert.deepEqual(
      kit.events.map((event) => event.type),
      ['request'],
    );
  });
}

test('a client that leaves halfway ends the stream, and is no failure', async (t) => {
  let source: Source | undefined;
  const handle: Handler = ({ signal }) => {
    // What a store does when its caller has left.
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
  while (source?.returned !== true) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    kit.events.filter((event) => event.type === 'failure'),
    [],
  );
});

test('a client that leaves while a chunk is made ends the stream', async (t) => {
  const made = Promise.withResolvers<Uint8Array>();
  const source = new Source((taken) => (taken === 0 ? chunk : made.promise));
  const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
  const ended = kit.nextRequest();
  await once(wire.socket, 'data');
  wire.socket.resetAndDestroy();
  await ended;
  made.resolve(chunk);
  while (!source.returned) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(source.taken <= 2);
});

/** Counts what comes instead of keeping it: a test that is busy would look like a client that stalls. */
async function countBytes(wire: Wire, bytes: number, onData: () => void = () => undefined): Promise<void> {
  wire.socket.removeAllListeners('data');
  let count = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  wire.socket.on('data', (part: Buffer) => {
    count += part.length;
    onData();
    if (count >= bytes) resolve();
  });
  await Promise.race([promise, once(wire.socket, 'close')]);
  assert.ok(count >= bytes, `cut after ${count} bytes`);
}

/** Resolves when nothing more is taken of a stream, turn after turn of the event loop. */
async function untilStalled(source: Source): Promise<void> {
  for (let same = 0, before = 0; same < 100; before = source.taken) {
    await new Promise((resolve) => setImmediate(resolve));
    same = source.taken > 0 && source.taken === before ? same + 1 : 0;
  }
}

test('a stream is made no faster than it is read', async (t) => {
  const chunks = 4_000;
  const source = new Source((taken) => (taken < chunks ? chunk : undefined), chunk.length * chunks);
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  assert.ok(source.taken < chunks / 4, `made ${source.taken} of ${chunks} chunks`);
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
  ['a long text behind another reply', () => ({ status: 200, body: big }), head('GET /slow')],
  ['a stream behind another reply', () => ({ status: 200, body: endless() }), head('GET /slow')],
];

for (const [what, reply, before] of stalled) {
  test(`${what} that its client does not take is cut`, async (t) => {
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

test('a slow client that goes on taking is not cut, however long it needs', async (t) => {
  const options = { limits: { writeTimeoutMs: 800 } };
  const { port } = await startKit(t, { 'GET /big': () => ({ status: 200, body: big + big }) }, options);
  const wire = (await Wire.open(t, port)).write(head('GET /big'));
  const started = performance.now();
  await countBytes(wire, 2 * big.length, () => {
    wire.socket.pause();
    setTimeout(() => wire.socket.resume(), 4);
  });
  assert.ok(performance.now() - started > 1_600, 'it took longer than the limit');
});

test('the limit on stalls ends with the reply: an idle or a slow request on the connection is safe', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const slow = held();
  const handlers = {
    'GET /big': () => ({ status: 200, body: big }),
    'GET /slow': slow.handle,
    'GET /small': small,
  };
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

test('without a limit a client may pause for as long as it likes', async (t) => {
  const options = { limits: { writeTimeoutMs: 0 } };
  const { port } = await startKit(t, { 'GET /big': () => ({ status: 200, body: big }) }, options);
  const wire = (await Wire.open(t, port)).write(head('GET /big'));
  await countBytes(wire, big.length, () => {
    wire.socket.pause();
    setTimeout(() => wire.socket.resume(), 4);
  });
});

const bodies: readonly [what: string, body: () => string | Source][] = [
  ['a whole reply', () => 'text'],
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

  test(`${what} of a service that drains closes the connection, whose client sends nothing`, async (t) => {
    const kit = await startKit(t, { 'GET /': () => ({ status: 200, body: body() }) });
    kit.face.drain();
    const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
    assert.equal((await wire.next()).headers['connection'], 'close');
    assert.deepEqual(await wire.end(), []);
  });
}

test('a chunk is released when it has left, and not before', async (t) => {
  const released: unknown[] = [];
  const source = new Source((taken) => (taken < 200 ? Buffer.alloc(64 * 1024, taken) : undefined));
  source.release = (part) => released.push(part);
  const { port } = await startKit(t, { 'GET /': () => ({ status: 200, body: source }) });
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  wire.write(head('GET /'));
  await untilStalled(source);
  assert.ok(released.length < source.taken, `${released.length} of ${source.taken}`);
  const read = countBytes(wire, 200 * 64 * 1024);
  wire.socket.resume();
  await read;
  assert.deepEqual(released.length, 200);
});

test('a header that cannot be sent is an internal error', async (t) => {
  const { port, thrown } = await startKit(t, {
    'GET /': () => ({ status: 200, headers: { location: 'a\r\nb: c' } }),
  });
  const response = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.equal(response.status, 500);
  assert.equal(response.headers['b'], undefined);
  assert.match(String(thrown[0]), /ERR_INVALID_CHAR/);
});

test('when not even the error can be sent, the connection ends and the observer is told', async (t) => {
  const kit = await startKit(t, { 'GET /': small }, { commonHeaders: () => ({ broken: '\n' }) });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /'));
  assert.deepEqual(await wire.end(), []);
  assert.deepEqual(kit.events.map((event) => event.type).sort(), ['failure', 'request']);
  assert.equal(kit.face.inFlight, 0);
});
