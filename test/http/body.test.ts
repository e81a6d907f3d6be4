import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { duplexPair, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { cancelBody, maxJsonDepth, parseJson, readBody } from '../../src/http/body.ts';
import { mergeChunks } from '../../src/http/connection.ts';
import { json } from '../../src/http/reply.ts';
import type { Handler, HttpRequest } from '../../src/http/request.ts';
import { scheduler } from '../../src/http/scheduler.ts';
import { head, post, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { held, startKit } from '../support/http-kit.ts';
import { listen } from '../support/listen.ts';

const bytes = (text: string) => Buffer.from(text);
const nested = (depth: number, open = '[', close = ']') => open.repeat(depth) + close.repeat(depth);

const taken: readonly [behaviour: string, body: Buffer, want: unknown][] = [
  ['an object', bytes('{"a":[1,"b",null,true]}'), { a: [1, 'b', null, true] }],
  ['a number', bytes('1'), 1],
  ['a string', bytes('"a"'), 'a'],
  ['null', bytes('null'), null],
  ['white space around an object', bytes(' \t\r\n{}\n '), {}],
  ['a byte order mark', bytes('\ufeff{}'), {}],
  ['characters of four bytes', bytes('"😀"'), '😀'],
  ['an escaped lone surrogate', bytes('"\\ud800"'), '\ud800'],
  ['U+0000 by escape', bytes('"\\u0000"'), '\u0000'],
  ['a repeated key, of which the last counts', bytes('{"a":1,"a":2}'), { a: 2 }],
  ['a huge number', bytes('1e999'), Number.POSITIVE_INFINITY],
  ['the greatest depth', bytes(nested(maxJsonDepth)), JSON.parse(nested(maxJsonDepth))],
  ['brackets in a string', bytes(`"${'['.repeat(200)}"`), '['.repeat(200)],
  ['brackets after an escaped quote', bytes(`["\\"${'['.repeat(200)}"]`), [`"${'['.repeat(200)}`]],
  ['brackets after other escapes', bytes(`["\\n","\\u005b"]`), ['\n', '[']],
  ['the most elements', bytes(`[${'1,'.repeat(9_999)}1]`), Array(10_000).fill(1)],
  ['commas in a string', bytes(`"${','.repeat(20_000)}"`), ','.repeat(20_000)],
  ['many brackets side by side', bytes(`[${'[],'.repeat(200)}[]]`), Array.from({ length: 201 }, () => [])],
];

for (const [behaviour, body, want] of taken) {
  test(`parseJson accepts ${behaviour}`, () => assert.deepEqual(parseJson(body).value, want));
}

test('parseJson returns the text as it was sent, without the byte order mark', () => {
  assert.equal(parseJson(bytes('\ufeff{"n":1.0, "n":2}')).text, '{"n":1.0, "n":2}');
});

test('parseJson treats __proto__ as an ordinary key, and changes no prototype', () => {
  const { value } = parseJson(bytes('{"__proto__":{"polluted":true},"constructor":1}'));
  assert.deepEqual(Object.keys(Object(value)), ['__proto__', 'constructor']);
  assert.equal(Reflect.get({}, 'polluted'), undefined);
});

const empty = 'the body must be JSON, and is empty';
const malformed = 'the body must be well-formed JSON';
const notUtf8 = 'the body must be well-formed UTF-8';
const tooDeep = `the body must be at most ${maxJsonDepth} levels deep`;
const tooMany = 'the body must have at most 10000 members and elements';
const refused: readonly [behaviour: string, body: Buffer, message: string][] = [
  ['nothing', bytes(''), empty],
  ['only space', bytes(' \r\n\t'), empty],
  ['only a byte order mark', bytes('\ufeff'), empty],
  ['half an object', bytes('{"a":'), malformed],
  ['two values', bytes('{} {}'), malformed],
  ['single quotes', bytes("{'a':1}"), malformed],
  ['a trailing comma', bytes('[1,]'), malformed],
  ['a comment', bytes('{}//'), malformed],
  ['NaN', bytes('NaN'), malformed],
  ['a leading zero', bytes('01'), malformed],
  ['a raw newline in a string', bytes('"a\nb"'), malformed],
  ['a raw U+0000', bytes('{"a":"\u0000"}'), malformed],
  ['a form', bytes('a=1&b=2'), malformed],
  ['closing brackets', bytes(']]'), malformed],
  ['an open string', bytes('"['), malformed],
  ['a backslash at the end', bytes('"\\'), malformed],
  ['Latin-1', Buffer.from('"\xe9"', 'latin1'), notUtf8],
  ['overlong UTF-8', Buffer.from('"\xc0\xaf"', 'latin1'), notUtf8],
  ['a surrogate in UTF-8', Buffer.from('"\xed\xa0\x80"', 'latin1'), notUtf8],
  ['half a character', Buffer.from('"\xf0\x9f\x98', 'latin1'), notUtf8],
  ['UTF-16', Buffer.from('\ufeff{}', 'utf16le'), notUtf8],
  ['one level too many', bytes(nested(maxJsonDepth + 1)), tooDeep],
  ['one object too many', bytes(nested(maxJsonDepth + 1, '{"a":', '}')), tooDeep],
  ['too many levels after an escape', bytes(`["\\n",${nested(maxJsonDepth)}]`), tooDeep],
  ['one element too many', bytes(`[${'1,'.repeat(10_000)}1]`), tooMany],
  [
    'members of many objects, too many in all',
    bytes(`[${Array.from({ length: 101 }, () => `{${'"a":1,'.repeat(99)}"a":1}`)}]`),
    tooMany,
  ],
  ['half a million levels', bytes(nested(500_000)), tooDeep],
  ['half a million unclosed levels', bytes('['.repeat(500_000)), tooDeep],
];

for (const [behaviour, body, message] of refused) {
  test(`parseJson rejects ${behaviour}`, () =>
    assert.throws(() => parseJson(body), { status: 400, message }));
}

// The following tests send their requests over a socket.

const limit = 1_000;
const size: Handler = async (request) => json(200, { size: (await request.json()).text.length });
const sizeOfAny: Handler = async (request) =>
  json(200, { size: (await request.json(undefined, Number.POSITIVE_INFINITY)).text.length });
const routes = { 'POST /size': size, 'POST /any': sizeOfAny };
const ok = (length: number) => `"${'a'.repeat(length - 2)}"`;
const chunked = (...chunks: readonly string[]) =>
  `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`;
const chunkedHeaders = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
const chunkedHead = head('POST /size', ...chunkedHeaders);

const sizes: readonly [behaviour: string, request: string, status: number][] = [
  ['a declared body at the limit', post('/size', ok(limit)), 200],
  ['a declared body beyond the limit', post('/size', ok(limit + 1)), 413],
  ['a chunked body at the limit', chunkedHead + chunked(ok(limit)), 200],
  ['a chunked body at the limit, byte by byte', chunkedHead + chunked(...ok(limit)), 200],
  ['a chunked body beyond the limit', chunkedHead + chunked(ok(limit + 1)), 413],
  ['a chunked body beyond the limit, byte by byte', chunkedHead + chunked(...ok(limit + 1)), 413],
  ['a body with the coding identity', post('/size', '[]', 'Content-Encoding: identity'), 200],
  ['a body with the coding Identity', post('/size', '[]', 'Content-Encoding: Identity'), 200],
  ['a compressed body', post('/size', '[]', 'Content-Encoding: gzip'), 415],
  ['a body with two codings', post('/size', '[]', 'Content-Encoding: identity, gzip'), 415],
  ['no body at all', head('POST /size', 'Content-Type: application/json'), 400],
  ['an empty chunked body', chunkedHead + chunked(), 400],
];

for (const [behaviour, request, status] of sizes) {
  test(`${behaviour} returns ${status}`, async (t) => {
    const { port } = await startKit(t, routes, { limits: { maxBodyBytes: limit } });
    const wire = (await Wire.open(t, port)).write(request);
    assert.equal((await wire.next()).status, status);
  });
}

test('a request without a body gets the error of an empty body', async (t) => {
  const { port } = await startKit(t, routes);
  const wire = await Wire.open(t, port);
  const { body } = await wire.write(head('POST /size', 'Content-Type: application/json')).next();
  assert.deepEqual(JSON.parse(body), { error: empty });
});

test('a declared length beyond the limit is rejected before the body arrives', async (t) => {
  const { port } = await startKit(t, routes);
  const wire = await Wire.open(t, port);
  wire.write(head('POST /any', 'Content-Type: application/json', 'Content-Length: 1000000000'));
  const { status, headers, body } = await wire.next();
  assert.equal(status, 413);
  assert.equal(headers['connection'], 'close');
  assert.deepEqual(JSON.parse(body), { error: 'the body must be at most 1048576 bytes' });
  assert.deepEqual(await wire.end(), []);
});

test('a body may have 128 KiB, unless its handler accepts more', async (t) => {
  const { port } = await startKit(t, routes);
  const wire = await Wire.open(t, port);
  const most = 128 * 1024;
  assert.equal((await wire.write(post('/size', ok(most))).next()).body, `{"size":${most}}`);
  assert.equal((await wire.write(post('/any', ok(most + 1))).next()).body, `{"size":${most + 1}}`);
  const { status, body } = await wire.write(post('/size', ok(most + 1))).next();
  assert.deepEqual([status, JSON.parse(body)], [413, { error: `the body must be at most ${most} bytes` }]);
});

test('short chunks of a body that waits to be read are merged, so that they do not take a Buffer each', async (t) => {
  const count = 3_000;
  const handle: Handler = async ({ raw }) => {
    while (!raw.complete && !t.signal.aborted) await new Promise(setImmediate);
    const chunks: Buffer[] = [];
    await once(
      raw.on('data', (chunk: Buffer) => chunks.push(chunk)),
      'end',
    );
    return json(200, { chunks: chunks.length, text: Buffer.concat(chunks).toString() });
  };
  const { port } = await startKit(t, { 'POST /wait': handle });
  const letters = Array.from({ length: count }, (_, i) => String(i % 10));
  const wire = (await Wire.open(t, port)).write(head('POST /wait', ...chunkedHeaders), chunked(...letters));
  const { chunks, text } = JSON.parse((await wire.next()).body);
  assert.equal(text, letters.join(''));
  assert.ok(chunks < 50, `${chunks} chunks`);
});

test('a body that arrives byte by byte counts with the memory that its chunks need', async () => {
  const message = new IncomingMessage(new Socket());
  message.headers = { 'content-length': '10' };
  let held = 0;
  let most = 0;
  const reading = readBody(message, 10, (bytes) => {
    held = bytes;
    most = Math.max(most, held);
  });
  for (let i = 0; i < 10; i += 1) message.push(Buffer.from('a'));
  message.push(null);
  assert.equal(String(await reading), 'a'.repeat(10));
  assert.ok(most > 2_000, `${most} bytes for ten chunks`);
  assert.equal(held, 10);
});

for (const [how, end] of [
  ['is whole', (message: IncomingMessage) => message.push(null)],
  ['is too long', (message: IncomingMessage) => message.push(Buffer.alloc(10))],
  ['is cancelled', (_message: IncomingMessage, cancel: () => void) => cancel()],
  ['is cut off', (message: IncomingMessage) => message.destroy()],
] as const) {
  test(`a body that ${how} is no longer read, and keeps no chunks in memory`, async () => {
    const message = new IncomingMessage(new Socket());
    message.headers = { 'content-length': '10' };
    const count = () => ['data', 'end', 'close'].reduce((sum, name) => sum + message.listenerCount(name), 0);
    const before = count();
    const started = Promise.withResolvers<() => void>();
    const reading = readBody(message, 10, (_bytes, cancel) => cancel && started.resolve(cancel));
    assert.equal(count(), before + 3);
    message.push(Buffer.from('a'));
    end(message, await started.promise);
    await reading.catch(() => undefined);
    // A cancelled body keeps a listener that discards its rest.
    assert.equal(count(), how === 'is cancelled' ? before + 1 : before);
  });
}

test('reading a body fails with 499 if its client has already disconnected', async () => {
  const message = new IncomingMessage(new Socket());
  message.headers = { 'content-length': '10' };
  await once(message.destroy(), 'close');
  await assert.rejects(
    readBody(message, 10, () => undefined),
    { status: 499 },
  );
});

test('a body that a test double pushes as text is read like others', async () => {
  const message = new IncomingMessage(new Socket());
  message.headers = { 'content-length': '1200' };
  mergeChunks(message);
  message.push('é'.repeat(600));
  message.push(null);
  assert.equal(String(await readBody(message, 2_000, () => undefined)), 'é'.repeat(600));
});

test('the memory of a short chunk is freed when it is merged with others', () => {
  const message = new IncomingMessage(Object.assign(new Socket(), { parser: {} }));
  message.headers = { 'transfer-encoding': 'chunked' };
  mergeChunks(message);
  const chunk = Buffer.from(new ArrayBuffer(10));
  message.push(chunk);
  assert.equal(chunk.buffer.byteLength, 0);
});

test('short chunks that wait to be read stop the connection like long ones', () => {
  const message = new IncomingMessage(Object.assign(new Socket(), { parser: {} }));
  message.headers = { 'transfer-encoding': 'chunked' };
  mergeChunks(message);
  let count = 0;
  while (message.push(Buffer.from('a')) && count < 200_000) count += 1;
  assert.ok(count < 200_000, `${count} chunks`);
});

test('a packet of many short chunks ends the turn of its connection, also if no handler reads them', async (t) => {
  const count = 200_000;
  const ended = Promise.withResolvers<void>();
  async function* chunks() {
    yield 'a';
    await ended.promise;
  }
  const handle: Handler = ({ raw }) => {
    raw.once('end', ended.resolve);
    return { status: 200, body: { chunks: chunks() } };
  };
  const { port } = await startKit(t, { 'POST /stream': handle });
  const pauses = t.mock.method(scheduler, 'pause');
  const wire = await Wire.open(t, port);
  wire.write(head('POST /stream', ...chunkedHeaders), '1\r\na\r\n'.repeat(count), '0\r\n\r\n');
  assert.equal((await wire.next()).body, 'a');
  // A packet has at most 64 KiB, and each chunk 6 bytes.
  const long = pauses.mock.calls.filter(({ arguments: [bytes = 0] }) => bytes > 1_000_000);
  assert.ok(long.length >= Math.floor((count * 6) / 65_536), `${long.length} pauses`);
});

test('short TLS records of a body pause their connection like short chunks', async (t) => {
  const handle: Handler = async ({ raw }) => json(200, (await readBody(raw, 2_000, () => undefined)).length);
  const { port } = await startKit(t, { 'POST /length': handle }, { tls: createCertificate() });
  const pauses = t.mock.method(scheduler, 'pause');
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  t.after(() => socket.destroy());
  socket.write(head('POST /length', 'Content-Length: 2000', 'Connection: close'));
  for (let i = 0; i < 2_000; i += 1) await new Promise((resolve) => socket.write('a', resolve));
  assert.match(await text(socket), /2000$/);
  assert.equal(pauses.mock.callCount(), 2);
});

test('the short chunks of many requests in one packet pause their connection, without a warning', async (t) => {
  const handle: Handler = async ({ raw }) => json(200, (await readBody(raw, limit, () => undefined)).length);
  const { port } = await startKit(t, { 'POST /length': handle });
  const warned = t.mock.fn();
  process.on('warning', warned);
  t.after(() => process.off('warning', warned));
  const pauses = t.mock.method(scheduler, 'pause');
  const wire = await Wire.open(t, port);
  // The first bodies are too short for a pause of their own.
  for (const count of [900, 1_000]) {
    const body = `${'1\r\na\r\n'.repeat(count)}0\r\n\r\n`;
    wire.write((head('POST /length', ...chunkedHeaders) + body).repeat(20));
    for (let i = 0; i < 20; i += 1) assert.equal((await wire.next()).body, String(count));
    assert.notEqual(pauses.mock.callCount(), 0);
  }
  assert.equal(warned.mock.callCount(), 0);
});

test('a connection is read again after a long body of short chunks that its handler reads late', async (t) => {
  const handle: Handler = async (request) => {
    while (!request.raw.complete && !t.signal.aborted) await new Promise(setImmediate);
    // The connection waits for such a pause too.
    await scheduler.pause();
    return json(200, (await request.json(['application/json'], 1_000_000)).value);
  };
  const { port } = await startKit(t, { 'POST /': handle });
  const wire = await Wire.open(t, port);
  const chunks = Array.from({ length: 1_000 }, () => '7'.repeat(70));
  wire.write(head('POST /', ...chunkedHeaders), chunked(...chunks));
  assert.equal((await wire.next()).status, 200);
  assert.equal((await wire.write(post('/', '1')).next()).body, '1');
});

test('a body in short chunks that waits to be read does not fill memory', async (t) => {
  const slow = held();
  let bytesRead = () => 0;
  const handle: Handler = (request) => {
    bytesRead = () => request.raw.socket.bytesRead;
    return slow.handle(request);
  };
  const { port } = await startKit(t, { 'POST /slow': handle });
  const wire = await Wire.open(t, port);
  wire.write(head('POST /slow', ...chunkedHeaders), '1\r\na\r\n'.repeat(500_000), '0\r\n\r\n');
  await slow.called;
  for (let i = 0; i < 200; i += 1) await scheduler.pause();
  // The buffer of the request has 64 KiB, for which six times as many bytes are read.
  assert.ok(bytesRead() < 1_000_000, `${bytesRead()} bytes`);
  slow.release();
  assert.equal((await wire.next()).body, '"held"');
});

test('a client that continues to send beyond the limit can still read the rejection', async (t) => {
  const { port } = await startKit(t, routes, { limits: { maxBodyBytes: limit } });
  const wire = (await Wire.open(t, port)).write(chunkedHead, chunked('a'.repeat(200_000)));
  assert.equal((await wire.next()).status, 413);
  assert.deepEqual(await wire.end(), []);
  assert.equal(wire.wasReset, false);
});

test('a client that sends its whole long body before it reads still receives the response', async (t) => {
  const ended = Promise.withResolvers<void>();
  const handle: Handler = ({ raw }) => {
    raw.on('end', ended.resolve);
    return json(200, {});
  };
  const { port } = await startKit(t, { 'POST /deaf': handle });
  // Without timers, the service waits for the rest of the body, however slow this client is.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const wire = await Wire.open(t, port);
  wire.socket.pause();
  wire.write(post('/deaf', 'a'.repeat(16_000_000)));
  await ended.promise;
  wire.socket.resume();
  assert.equal((await wire.next()).status, 200);
  assert.deepEqual(await wire.end(), []);
  assert.equal(wire.wasReset, false);
});

for (const [what, parts, leftMs, drains] of [
  ['pauses for a second', 0, 1_000],
  ['pauses for a second after a part', 1, 1_001],
  ['takes another second while the service drains', 1, 1, true],
] as const) {
  test(`after its response, a body that is not read ends the connection when it ${what}`, async (t) => {
    let request: HttpRequest | undefined;
    const handle: Handler = (given) => {
      request = given;
      return json(200, {});
    };
    const { port, face } = await startKit(t, { 'POST /deaf': handle });
    t.mock.timers.enable({ apis: ['setInterval'] });
    const wire = (await Wire.open(t, port)).write(head('POST /deaf', 'Content-Length: 1000000'));
    assert.equal((await wire.next()).status, 200);
    if (drains) face.drain();
    const { raw } = request ?? assert.fail('the handler was not called');
    for (let i = 0; i < parts; i += 1) {
      t.mock.timers.tick(999);
      const arrived = once(raw, 'data');
      wire.write('a');
      await arrived;
    }
    t.mock.timers.tick(leftMs - 1);
    assert.equal(raw.socket.writableEnded, false);
    t.mock.timers.tick(1);
    assert.equal(raw.socket.writableEnded, true);
  });
}

for (const [whose, request] of [
  ['a client that asks for it', post('/deaf', '[]', 'Connection: close')],
  ['HTTP/1.0', post('/deaf', '[]').replace('HTTP/1.1', 'HTTP/1.0')],
  ['a draining service', post('/deaf', '[]')],
] as const) {
  test(`the connection of ${whose} is not closed before the rest of a short unread body`, async (t) => {
    let raw: IncomingMessage | undefined;
    const handle: Handler = (request) => {
      raw = request.raw;
      return json(200, {});
    };
    const kit = await startKit(t, { 'POST /deaf': handle });
    if (whose === 'a draining service') kit.face.drain();
    t.mock.timers.enable({ apis: ['setInterval'] });
    const wire = (await Wire.open(t, kit.port)).write(request.slice(0, -1));
    assert.equal((await wire.next()).status, 200);
    wire.write(']');
    assert.deepEqual(await wire.end(), []);
    assert.equal(raw?.complete, true);
  });
}

test('a body that is not read also ends the connection of a host that is no socket', async (t) => {
  const { face } = await startKit(t, { 'POST /deaf': () => json(200, {}) });
  const [near, far] = duplexPair();
  createServer(face.onRequest).emit('connection', far);
  const request = post('/deaf', 'a'.repeat(100_000));
  near.write(request.slice(0, -1));
  await once(near, 'readable');
  near.write(request.slice(-1));
  assert.match(await text(near), /^HTTP\/1\.1 200 OK\r\n/);
});

test('the connection is closed at once after a stream during which the body that is not read has ended', async (t) => {
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  async function* chunks() {
    yield 'a';
    begun.resolve();
    await ended.promise;
  }
  let closed: Promise<unknown> | undefined;
  const handle: Handler = ({ raw }) => {
    raw.once('end', ended.resolve);
    closed = once(raw.socket, 'close');
    return { status: 200, body: { chunks: chunks() } };
  };
  const { port } = await startKit(t, { 'POST /stream': handle });
  // Without timers, nothing but the end of the stream can close the connection.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const request = post('/stream', 'a'.repeat(100_000));
  const wire = (await Wire.open(t, port)).write(request.slice(0, -1));
  await begun.promise;
  wire.write(request.slice(-1));
  assert.equal((await wire.next()).status, 200);
  // Also if the client does not close it.
  await closed;
  assert.deepEqual(await wire.end(), []);
});

test('the connection of a rejected request is closed as soon as its body has ended', async (t) => {
  const { port } = await startKit(t, routes, { limits: { maxBodyBytes: limit } });
  // Without timers, only the end of the body can close the connection.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const wire = (await Wire.open(t, port)).write(chunkedHead, chunked('a'.repeat(limit + 1)).slice(0, -5));
  assert.equal((await wire.next()).status, 413);
  assert.deepEqual(await wire.write('0\r\n\r\n').end(), []);
});

test('the connection of a client that ends it within its body is closed at once', async (t) => {
  const { port } = await startKit(t, routes);
  // Without timers, only the end of the connection can close it.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const wire = (await Wire.open(t, port)).write(chunkedHead, '1\r\n');
  wire.socket.end();
  assert.equal((await wire.next()).status, 400);
  assert.deepEqual(await wire.end(), []);
});

for (const [what, ...sent] of [
  ['an error', head('POST /size', 'Content-Type: application/json', 'Content-Length: 1000000000')],
  ['a stream', head('POST /stream', 'Content-Length: 1000000000')],
  ['the error of a malformed body', chunkedHead, 'x'],
] as const) {
  test(`the duration of ${what} does not include the wait for a body that is not read`, async (t) => {
    const stream: Handler = () => ({ status: 200, body: { chunks: Readable.from(['a']) } });
    const kit = await startKit(t, { ...routes, 'POST /stream': stream });
    const ended = kit.nextRequest();
    // Without timers, the wait does not end.
    t.mock.timers.enable({ apis: ['setInterval'] });
    const wire = (await Wire.open(t, kit.port)).write(...sent);
    await wire.next();
    await ended;
    assert.equal(wire.socket.readableEnded, false);
  });
}

for (const what of ['too long', 'discarded']) {
  test(`a client that never stops sending a body that is ${what} is read up to a limit, and is disconnected`, async (t) => {
    const sockets: Socket[] = [];
    const handle: Handler = (request) => {
      sockets.push(request.raw.socket);
      if (what === 'too long') return size(request);
      cancelBody(request.raw);
      return json(200, 'discarded');
    };
    const { port } = await startKit(t, { 'POST /size': handle }, { limits: { maxBodyBytes: limit } });
    const wire = (await Wire.open(t, port)).write(chunkedHead);
    const chunk = `10000\r\n${'a'.repeat(0x10000)}\r\n`;
    const pour = (): void => {
      while (!wire.socket.destroyed && wire.socket.write(chunk));
    };
    wire.socket.on('drain', pour);
    pour();
    await wire.end();
    const [{ bytesRead } = assert.fail('the handler was not called')] = sockets;
    assert.ok(bytesRead < 18_000_000, `read ${bytesRead} bytes`);
  });
}

test('a short body that the handler does not read does not close the connection', async (t) => {
  const { port } = await startKit(t, { 'POST /deaf': () => json(200, {}), ...routes });
  const request = post('/deaf', ok(64 * 1024));
  const wire = (await Wire.open(t, port)).write(request.slice(0, -1));
  assert.equal((await wire.next()).headers['connection'], 'keep-alive');
  wire.write(request.slice(-1), post('/size', '[]'));
  assert.equal((await wire.next()).body, '{"size":2}');
});

const unread: readonly [behaviour: string, request: string][] = [
  // Without its last byte, because a complete body would not close the connection.
  ['a long body', post('/deaf', ok(64 * 1024 + 1)).slice(0, -1)],
  ['a chunked body', `${head('POST /deaf', 'Transfer-Encoding: chunked')}2\r\n[]\r\n`],
  ['a body that waits for 100 Continue', head('POST /deaf', 'Expect: 100-continue', 'Content-Length: 9')],
];

for (const [behaviour, request] of unread) {
  test(`${behaviour} that the handler does not read closes the connection after the response`, async (t) => {
    const { port } = await startKit(t, { 'POST /deaf': () => json(200, {}) });
    const wire = (await Wire.open(t, port)).write(request);
    const { status, headers } = await wire.next();
    assert.deepEqual([status, headers['connection']], [200, 'close']);
    assert.deepEqual(await wire.end(), []);
  });
}

test('a body that another parser has already read causes an error instead of an endless wait', async (t) => {
  const early: Handler = async (request) => {
    await request.raw.toArray();
    return await size(request);
  };
  const { port, thrown } = await startKit(t, { 'POST /size': early });
  const wire = (await Wire.open(t, port)).write(post('/size', '[]'));
  assert.equal((await wire.next()).status, 500);
  assert.match(String(thrown[0]), /the body was already read by another parser before this listener/);
});

test('the response to a rejected media type lists the accepted ones', async (t) => {
  const { port } = await startKit(t, { ...routes, 'PATCH /size': size, 'PUT /size': size });
  for (const [method, header] of [
    ['POST', 'accept-post'],
    ['PATCH', 'accept-patch'],
    ['PUT', 'accept'],
  ] as const) {
    const wire = (await Wire.open(t, port)).write(head(`${method} /size`, 'Content-Type: text/plain'));
    const { status, headers } = await wire.next();
    assert.deepEqual([status, headers[header]], [415, 'application/json']);
  }
});

/** Serves one POST with `handle`, and resolves with the chunks of its body as Node passed them to the request. */
async function chunksOf(
  t: TestContext,
  handle: (message: IncomingMessage) => void,
): Promise<readonly Buffer[]> {
  const chunks: Buffer[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const server = createServer((message) => {
    const push = message.push.bind(message);
    message.push = (chunk) => {
      if (chunk !== null) chunks.push(chunk);
      return push(chunk);
    };
    message.on('end', resolve);
    handle(message);
  });
  const { port } = await listen(t, server);
  const wire = await Wire.open(t, port);
  wire.write(post('/', 'a'.repeat(100_000)));
  await promise;
  return chunks;
}

/** Whether the memory of each chunk has been freed. */
const areFree = (chunks: readonly Buffer[]) => chunks.every(({ buffer }) => buffer.byteLength === 0);

test('the memory of a discarded body is freed at once', async (t) => {
  const chunks = await chunksOf(t, cancelBody);
  assert.ok(chunks.length > 1);
  assert.ok(areFree(chunks));
});

test('the memory of the chunks of a long body is freed when the body is whole', async (t) => {
  let body: Promise<Buffer> | undefined;
  const chunks = await chunksOf(t, (message) => {
    body = readBody(message, 1_000_000, () => undefined);
  });
  assert.equal(String(await body), 'a'.repeat(100_000));
  assert.ok(areFree(chunks));
});

test('a cancelled read frees the memory of its chunks', async (t) => {
  let body: Promise<Buffer> | undefined;
  const chunks = await chunksOf(t, (message) => {
    body = readBody(message, 1_000_000, (_, cancel) => cancel?.());
    body.catch(() => undefined);
  });
  await assert.rejects(body ?? Promise.resolve(), { status: 503 });
  assert.ok(areFree(chunks));
});

for (const [behaviour, onHold] of [
  ['whole', () => undefined],
  ['cancelled', (_: number, cancel?: () => void) => cancel?.()],
] as const) {
  test(`a listener of the host keeps the chunks of a ${behaviour} body`, async (t) => {
    const kept: Buffer[] = [];
    await chunksOf(t, (message) => {
      const keep = (chunk: Buffer) => kept.push(chunk);
      message.on('data', keep).on('end', () => message.off('data', keep));
      readBody(message, 1_000_000, onHold).catch(() => undefined);
    });
    assert.equal(String(Buffer.concat(kept)), 'a'.repeat(100_000));
  });

  test(`a listener that the host adds later keeps the chunks of a ${behaviour} body`, async (t) => {
    const kept: Buffer[] = [];
    await chunksOf(t, (message) => {
      readBody(message, 1_000_000, onHold).catch(() => undefined);
      message.on('data', (chunk: Buffer) => kept.push(chunk));
    });
    assert.equal(String(Buffer.concat(kept)), 'a'.repeat(100_000));
  });

  test(`a loop of the host keeps the chunks of a ${behaviour} body`, async (t) => {
    let kept: Promise<Buffer[]> | undefined;
    await chunksOf(t, (message) => {
      kept = message.toArray();
      readBody(message, 1_000_000, onHold).catch(() => undefined);
    });
    assert.equal(String(Buffer.concat((await kept) ?? [])), 'a'.repeat(100_000));
  });
}

test('memory that a chunk shares with other data is not freed', () => {
  const shared = Buffer.from(new ArrayBuffer(10), 0, 5);
  const message = Readable.from([shared]) as IncomingMessage;
  cancelBody(message);
  return new Promise<void>((resolve) => {
    message.on('end', () => {
      assert.equal(shared.length, 5);
      resolve();
    });
  });
});
