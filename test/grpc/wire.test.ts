import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http2';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import zlib, { gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { Chance } from '../kit/generate.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { callWire, connectWire, framed } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

// Invalid input that any client can send to the port. After each, the next call succeeds and no internal
// failure is reported.

async function start(t: TestContext) {
  const repository = createMemoryStore();
  const asked: number[] = [];
  const getUserOf = repository.users.get.bind(repository);
  repository.users.get = (id, options) => {
    asked.push(id);
    return getUserOf(id, options);
  };
  await repository.users.create({ name: 'Ann' });
  const service = await startService(t, { repository, grpcPort: 0 });
  const isWell = async () => {
    const { user } = await getUser(usersClient(t, service.grpc), 1, { deadline: Date.now() + 60_000 });
    assert.deepEqual(user, { id: 1, name: 'Ann' });
  };
  return { ...service, asked, isWell };
}

const one = Uint8Array.of(8, 1);
const mib = new Uint8Array(1024 * 1024);
const path = '/Users/GetUser';
const bodies: readonly [what: string, body: Uint8Array, code: status, headers?: Record<string, string>][] = [
  ['no message', new Uint8Array(), status.UNIMPLEMENTED],
  ['half a message header', Buffer.from([0, 0]), status.UNIMPLEMENTED],
  ['a message header without its message', framed(one).subarray(0, 5), status.UNIMPLEMENTED],
  ['half a message', framed(one).subarray(0, 6), status.UNIMPLEMENTED],
  ['two messages', Buffer.concat([framed(one), framed(one)]), status.UNIMPLEMENTED],
  ['a message one byte too long', framed(new Uint8Array(64 * 1024 + 1)), status.RESOURCE_EXHAUSTED],
  ['a message of 1 MiB', framed(mib), status.RESOURCE_EXHAUSTED],
  ['a message header that announces 4 GiB', framed(one, 0, 0xffffffff), status.RESOURCE_EXHAUSTED],
  [
    'a compressed message that inflates a thousandfold',
    framed(gzipSync(mib), 1),
    status.RESOURCE_EXHAUSTED,
    { 'grpc-encoding': 'gzip' },
  ],
  ['invalid gzip data', framed(one, 1), status.INTERNAL, { 'grpc-encoding': 'gzip' }],
  ['an unknown compression', framed(one, 1), status.UNIMPLEMENTED, { 'grpc-encoding': 'snappy' }],
  ['a truncated field', framed(Uint8Array.of(8, 0x80)), status.INTERNAL],
  ['a varint of eleven bytes', framed(Uint8Array.from([8, ...Array(11).fill(0xff)])), status.INTERNAL],
  ['a field of 4 GiB', framed(Uint8Array.of(0x12, 0xff, 0xff, 0xff, 0xff, 0x0f)), status.INTERNAL],
  ['an unknown wire type', framed(Uint8Array.of(0x0f)), status.INTERNAL],
  ['JSON', framed(Buffer.from('{"id":1}')), status.INTERNAL],
];
for (const [what, body, code, headers] of bodies) {
  test(`a call with ${what} returns ${status[code]} and does not reach the store`, async (t) => {
    const { grpc, asked, isWell } = await start(t);
    const answer = await callWire(await connectWire(t, grpc), path, body, headers);
    assert.deepEqual([answer.httpStatus, answer.code, answer.messages], [200, code, []]);
    assert.doesNotMatch(String(answer.details), /node_modules|\.js\b|\bat \//, 'reveals internals');
    assert.deepEqual(asked, []);
    await isWell();
  });
}

test('a call with a hundred compressed messages in a packet starts few decompressors', async (t) => {
  const createGunzip = t.mock.method(zlib, 'createGunzip');
  const { grpc, isWell } = await start(t);
  const body = Buffer.concat(Array(100).fill(framed(new Uint8Array(), 1)));
  const answer = await callWire(await connectWire(t, grpc), path, body, { 'grpc-encoding': 'gzip' });
  assert.equal(answer.code, status.INTERNAL);
  const count = createGunzip.mock.callCount();
  assert.ok(count > 0 && count < 20, `${count} decompressors`);
  await isWell();
});

test('a compressed message of moderate size is accepted', async (t) => {
  const { grpc } = await start(t);
  const body = framed(gzipSync(one), 1);
  const answer = await callWire(await connectWire(t, grpc), path, body, { 'grpc-encoding': 'gzip' });
  assert.equal(answer.code, status.OK);
});

test('a message of exactly 64 KiB is accepted', async (t) => {
  const { grpc } = await start(t);
  // An unknown field pads the message to this size.
  const filler = 64 * 1024 - 2 - 4;
  const head = Uint8Array.of(8, 1, 0x12, (filler & 0x7f) | 0x80, ((filler >> 7) & 0x7f) | 0x80, filler >> 14);
  const bytes = framed(Buffer.concat([head, new Uint8Array(filler)]));
  const answer = await callWire(await connectWire(t, grpc), path, bytes);
  assert.equal(answer.code, status.OK);
});

const heads: readonly [what: string, headers: Record<string, string>, httpStatus: number, code?: status][] = [
  ['another method of the service', { ':path': '/Users/ListUsers' }, 200, status.UNIMPLEMENTED],
  ['another service', { ':path': '/Accounts/GetUser' }, 200, status.UNIMPLEMENTED],
  ['a path in lower case', { ':path': '/users/getuser' }, 200, status.UNIMPLEMENTED],
  ['a trailing slash', { ':path': '/Users/GetUser/' }, 200, status.UNIMPLEMENTED],
  ['a query', { ':path': '/Users/GetUser?id=1' }, 200, status.UNIMPLEMENTED],
  ['the name of a property that every object has', { ':path': '/constructor' }, 200, status.UNIMPLEMENTED],
  ['a path of 8,000 characters', { ':path': `/${'x'.repeat(8_000)}` }, 200, status.UNIMPLEMENTED],
  ['JSON content', { 'content-type': 'application/json' }, 415],
  ['no content type', { 'content-type': '' }, 415],
];
for (const [what, headers, httpStatus, code] of heads) {
  test(`a gRPC call with ${what} is rejected with ${code === undefined ? httpStatus : status[code]}`, async (t) => {
    const { grpc, asked, isWell } = await start(t);
    const answer = await callWire(await connectWire(t, grpc), path, framed(one), headers);
    assert.deepEqual([answer.httpStatus, answer.code], [httpStatus, code]);
    assert.deepEqual(asked, []);
    await isWell();
  });
}

test('a GET as browsers send it to the gRPC port returns 415', async (t) => {
  const { grpc, isWell } = await start(t);
  const session = await connectWire(t, grpc);
  const stream = session.request({ ':method': 'GET', ':path': '/' });
  const { promise, resolve } = Promise.withResolvers<unknown>();
  stream.on('response', (head) => resolve(head[':status'])).resume();
  assert.equal(await promise, 415);
  await isWell();
});

/** Sends bytes over TCP and resolves when the server has closed the connection. */
function sendBytes(grpc: string, bytes: Uint8Array): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  const [host = '', port] = grpc.split(':');
  const socket = connect(Number(port), host, () => socket.write(bytes));
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => undefined);
  socket.on('close', () => resolve(Buffer.concat(chunks)));
  return promise;
}

test('metadata that is not valid is ignored, and not printed', async (t) => {
  const printed = t.mock.method(console, 'error', () => undefined);
  const { grpc } = await startService(t, { grpcPort: 0, auth: 'all', apiKeys: ['key'] });
  const session = await connectWire(t, grpc);
  const call = (headers: Record<string, string>) => callWire(session, path, framed(one), headers);
  assert.equal((await call({ 'x-api-key': 'k\u00e9y' })).code, status.UNAUTHENTICATED);
  const others = { 'x-note': '\u009b31m', 'a!b': 'text', 'x-valid-bin': 'AAE' };
  assert.equal((await call({ 'x-api-key': 'key', ...others })).code, status.NOT_FOUND);
  const outputs = printed.mock.calls.map((call) => call.arguments);
  assert.deepEqual(outputs, []);
});

const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const garbage: readonly [what: string, bytes: Buffer][] = [
  ['HTTP/1.1', Buffer.from('GET /users HTTP/1.1\r\nhost: x\r\n\r\n')],
  [
    'a POST of HTTP/1.1',
    Buffer.from('POST /Users/GetUser HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nabcde'),
  ],
  ['a TLS hello', Buffer.from('16030100c8010000c40303', 'hex')],
  ['a preface with a wrong letter', Buffer.from(preface.replace('SM', 'SN'))],
  ['a preface and then HTTP/1.1', Buffer.from(`${preface}GET / HTTP/1.1\r\n\r\n`)],
  [
    'a frame longer than allowed',
    Buffer.concat([Buffer.from(preface), Buffer.from('ffffff000000000001', 'hex')]),
  ],
  // SETTINGS, the HEADERS of `GET /` for the host `h`, and then SETTINGS on that stream, which is not allowed.
  [
    'a request that is not gRPC and is reset at once',
    Buffer.concat([
      Buffer.from(preface),
      Buffer.from('000000040000000000' + '000006010500000001828684410168' + '000000040000000001', 'hex'),
    ]),
  ],
  ['zeros', Buffer.alloc(64 * 1024)],
];
for (const [what, bytes] of garbage) {
  test(`${what} on the gRPC port closes only that connection`, async (t) => {
    const { grpc, isWell } = await start(t);
    const received = await sendBytes(grpc, bytes);
    assert.doesNotMatch(received.toString('latin1'), /HTTP\/1\.1 200/);
    await isWell();
  });
}

function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Header fields without compression (RFC 7541, 6.2.2). */
function fields(headers: Record<string, string>): Buffer {
  const texts = Object.entries(headers).flat();
  return Buffer.concat(
    texts.map((text, i) => Buffer.from([...(i % 2 === 0 ? [0] : []), text.length, ...Buffer.from(text)])),
  );
}

/** SETTINGS, then requests, each with its own body or reset, or with a frame of any type. */
function randomFrames(chance: Chance): Buffer {
  const frames = [frame(4, 0, 0, new Uint8Array())];
  for (let stream = 1; stream < 12; stream += 2) {
    const request = {
      ':method': chance.pick(['GET', 'POST']),
      ':scheme': 'http',
      ':path': chance.pick(['/', path, '/Users/None', '/grpc.health.v1.Health/Watch']),
      ':authority': 'h',
      ...(chance.below(3) > 0 && { 'content-type': 'application/grpc' }),
    };
    frames.push(frame(1, chance.pick([4, 5]), stream, fields(request)));
    if (chance.below(2) === 0) frames.push(frame(0, chance.below(2), stream, framed(one)));
    if (chance.below(2) === 0) frames.push(frame(3, 0, stream, Buffer.from([0, 0, 0, chance.below(12)])));
    if (chance.below(4) === 0)
      frames.push(frame(chance.below(11), 0, chance.pick([0, stream]), Buffer.alloc(chance.below(9))));
  }
  return Buffer.concat(frames);
}

test('requests to another HTTP/2 server of the process keep all their headers', async (t) => {
  const { isWell } = await start(t);
  // A limit on streams that were read for another connection would still apply.
  await isWell();
  const other = createServer((request, response) => response.end(String(request.headers['x-own'])));
  t.after(() => other.close());
  await once(other.listen(0, '127.0.0.1'), 'listening');
  const address = other.address();
  assert.ok(typeof address === 'object' && address !== null);
  const session = await connectWire(t, `127.0.0.1:${address.port}`);
  const stream = session.request({ 'x-own': 'kept' });
  assert.equal(await text(stream), 'kept');
});

test('after 200 connections of random bytes and frames, the gRPC server still serves calls', async (t) => {
  const { grpc, isWell } = await start(t);
  const chance = new Chance(7);
  for (let i = 0; i < 200; i += 25) {
    const batch = Array.from({ length: 25 }, (_, j) => {
      const random =
        j % 4 === 0
          ? randomFrames(chance)
          : Buffer.from(Array.from({ length: chance.below(600) }, () => chance.below(256)));
      const bytes = Buffer.concat([Buffer.from(j % 2 === 0 ? preface : ''), random]);
      const [host = '', port] = grpc.split(':');
      return new Promise<void>((resolve) => {
        const socket = connect(Number(port), host, () => socket.end(bytes));
        // The server sends its settings first. A socket that waits for more would close much later.
        socket.once('data', () => setImmediate(() => socket.destroy()));
        socket
          .on('error', () => undefined)
          .on('close', () => resolve())
          .resume();
      });
    });
    await Promise.all(batch);
  }
  await isWell();
});
