import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import type { RequestListener } from '../../src/http/listener.ts';
import { HttpServer, type TlsOptions } from '../../src/http/server.ts';
import { openPort } from '../../src/service/ports.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { head, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { createFace } from '../support/http-kit.ts';

const big = 'x'.repeat(20_000_000);
const limits = { headersTimeoutMs: 30_000, requestTimeoutMs: 30_000 };
const defaults = { ...limits, keepAliveTimeoutMs: 72_000, checkingIntervalMs: 50 };

interface PortOptions {
  readonly tls?: TlsOptions;
  readonly listener?: RequestListener;
  readonly headersTimeoutMs?: number;
}

async function startPort(t: TestContext, { tls, listener, ...timeouts }: PortOptions = {}) {
  const events: ServiceEvent[] = [];
  const observe = (event: ServiceEvent) => events.push(event);
  const limits = { maxBodyBytes: 1_000, maxHeaders: 100, maxInFlight: 10, writeTimeoutMs: 60_000 };
  const toErrorResponse = (error: unknown) => {
    throw error;
  };
  const options = { basePath: '', observe, commonHeaders: {}, toErrorResponse, limits };
  const handlers = { 'GET /big': () => ({ status: 200, body: big }), 'GET /small': () => ({ status: 204 }) };
  const face = createFace(handlers, options);
  const all = { ...defaults, ...timeouts };
  const server = new HttpServer({ observe, timeouts: all, maxHeaders: 100, ...(tls && { tls }) });
  const { port } = await openPort('port', '127.0.0.1', 0, server.server);
  server.serve(listener ?? face.onRequest);
  const close = async (signal: AbortSignal, idleMs = 50): Promise<void> => {
    face.drain();
    await server.close({ idleMs, signal });
  };
  t.after(() => close(AbortSignal.abort()));
  return { port, close, events, server: server.server };
}

for (const [code, option, message] of [
  ['EADDRINUSE', 'port', '[::1]:1 is in use'],
  ['EACCES', 'port', '[::1]:1 needs more privileges, or the system reserves it'],
  ['EADDRNOTAVAIL', 'host', '::1 is not an address of this machine'],
  // As for fe80::1, which needs a zone.
  ['EINVAL', 'host', '::1 is not an address of this machine'],
  ['ENOTFOUND', 'host', 'the host name ::1 is not known'],
  ['EAI_AGAIN', 'host', 'the host name ::1 is not known'],
  ['EOTHER', 'port', 'cannot listen on [::1]:1: EOTHER'],
] as const) {
  test(`a port that cannot be opened because of ${code} names the option ${option}`, async (t) => {
    const server = createServer();
    const cause = Object.assign(new Error(code), { code });
    t.mock.method(server, 'listen', (given: object) => {
      assert.deepEqual(given, { host: '::1', port: 1, backlog: 65_535 });
      queueMicrotask(() => server.emit('error', cause));
    });
    await assert.rejects(openPort('port', '::1', 1, server), { name: 'StartError', option, message, cause });
  });
}

test('a connection stays open for idleMs after its last response, because its client may send more', async (t) => {
  const { port, close } = await startPort(t);
  const wire = await Wire.open(t, port);
  assert.equal((await wire.write(head('GET /small')).next()).headers['connection'], 'keep-alive');
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closing = close(AbortSignal.timeout(30_000), 60_000);
  // `performance.now` is not mocked, so the response has just ended when the timer fires.
  t.mock.timers.tick(60_000);
  // Idle connections are closed in the next turn.
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal((await wire.write(head('GET /small')).next()).headers['connection'], 'close');
  await closing;
});

/** Reads a response with pauses, and resolves to its length when the connection ends. */
async function readSlowly(socket: Socket): Promise<number> {
  let bytes = 0;
  socket.on('error', () => undefined);
  socket.on('data', (part: Buffer) => {
    bytes += part.length;
    socket.pause();
    setTimeout(() => socket.resume(), 2).unref();
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return bytes;
}

for (const secure of [false, true]) {
  test(`close waits until a slow client has received its response${secure ? ' over TLS' : ''}`, async (t) => {
    const { port, close } = await startPort(t, secure ? { tls: createCertificate() } : {});
    const socket = secure
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect(port, '127.0.0.1');
    await once(socket, secure ? 'secureConnect' : 'connect');
    socket.write(head('GET /big'));
    const reading = readSlowly(socket);
    await once(socket, 'data');
    await close(AbortSignal.timeout(300_000));
    assert.ok((await reading) > big.length, 'the response is not complete');
  });
}

test('close waits until a client has received a response that has ended, but was not sent yet', async (t) => {
  const { port, close } = await startPort(t, { listener: (_request, response) => response.end(big) });
  const socket = connect(port, '127.0.0.1', () => socket.write(head('GET /')));
  t.after(() => socket.destroy());
  await once(
    socket.on('error', () => undefined),
    'readable',
  );
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closing = close(AbortSignal.timeout(30_000), 0);
  t.mock.timers.tick(1);
  // Idle connections are closed in the next turn.
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  let bytes = 0;
  const isComplete = await new Promise((resolve) => {
    socket
      .on('close', () => resolve(false))
      .on('data', (part: Buffer) => {
        bytes += part.length;
        if (bytes > big.length) resolve(true);
      });
    socket.resume();
  });
  assert.ok(isComplete, 'the response is not complete');
  socket.destroy();
  await closing;
});

test('close ends the connection of a slow client at its deadline', async (t) => {
  const { port, close } = await startPort(t);
  const socket = connect(port, '127.0.0.1', () => socket.write(head('GET /big')));
  await once(socket, 'data');
  socket.on('error', () => undefined).pause();
  const startedAt = performance.now();
  await close(AbortSignal.timeout(300));
  const ms = performance.now() - startedAt;
  assert.ok(ms >= 290 && ms < 20_000, `${ms} ms`);
});

test('a TLS port closes connections of clients that send plain HTTP, or nothing', async (t) => {
  const { port } = await startPort(t, { tls: createCertificate(), headersTimeoutMs: 300 });
  for (const bytes of ['GET / HTTP/1.1\r\nHost: x\r\n\r\n', '\x16\x03\x01', '']) {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('error', () => undefined).resume();
    await new Promise((resolve) => socket.once('close', resolve));
  }
});

test('an error of an open port is reported as a failure', async (t) => {
  const { server, events } = await startPort(t);
  const cause = new Error('accept EMFILE');
  server.emit('error', cause);
  assert.deepEqual(events, [{ type: 'failure', where: 'http', cause }]);
});

for (const [what, bytes] of [
  ['a malformed request', 'GET\r\n\r\n'],
  ['a body that is not read', head('GET /small', 'Content-Length: 100000')],
] as const) {
  test(`the timer for the rest of ${what} ends with its connection`, async (t) => {
    const { port, server } = await startPort(t);
    const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = timers();
    const client = connect(port, '127.0.0.1', () => client.write(bytes));
    const [accepted] = await once(server, 'connection');
    await once(client, 'data');
    assert.equal(timers(), before + 1);
    client.resetAndDestroy();
    await new Promise((resolve) => accepted.once('close', resolve));
    assert.equal(timers(), before);
  });
}

test('at a stop, a request that has arrived before the end of the idle time is served', async (t) => {
  const { port, close } = await startPort(t);
  const wire = await Wire.open(t, port);
  assert.equal((await wire.write(head('GET /small')).next()).status, 204);
  const closed = close(AbortSignal.timeout(60_000), 20);
  wire.write(head('GET /small'));
  // The event loop is blocked until then.
  const end = performance.now() + 100;
  while (performance.now() < end);
  assert.equal((await wire.next()).status, 204);
  await closed;
});
