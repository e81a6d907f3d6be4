import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, Server, Socket } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { status } from '@grpc/grpc-js';
import { options } from '../../src/config.ts';
import { createService } from '../../src/service/service.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { startProcess } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { head, post, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';

const maxConnections = 20;

/** Resolves when the server has ended or reset a connection. */
async function ended(socket: Socket): Promise<void> {
  socket.on('error', () => undefined).resume();
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
}

const json = 'Content-Type: application/json';
const unfinished = head('POST /echo', json, 'Content-Length: 2', 'Expect: 100-continue');

/** Opens as many connections as allowed. Each has a request that waits for its body, so none is idle. */
async function fill(t: TestContext, port: number): Promise<Wire[]> {
  const wires = await Promise.all(Array.from({ length: maxConnections }, () => Wire.open(t, port)));
  for (const wire of wires) assert.equal((await wire.write(unfinished).next()).status, 100);
  return wires;
}

async function finish(wire: Wire | undefined): Promise<void> {
  assert.equal((await wire?.write('{}').next())?.status, 200);
}

test('beyond maxConnections each new connection gets 503, and the open ones are served', async (t) => {
  const { port, events } = await startService(t, { maxConnections });
  const wires = await fill(t, port);
  const others = await Promise.all(Array.from({ length: 4 * maxConnections }, () => Wire.open(t, port)));
  for (const wire of others) {
    const { status, headers, body } = await wire.write(head('GET /health')).next();
    assert.deepEqual([status, headers['retry-after'], headers['connection']], [503, '1', 'close']);
    assert.deepEqual(JSON.parse(body), { error: 'too many connections are open' });
    assert.deepEqual(await wire.end(), []);
    assert.equal(wire.wasReset, false);
  }
  for (const wire of wires) {
    await finish(wire);
    wire.write(head('GET /metrics'));
    const { body } = await wire.next();
    assert.match(body, /^users_service_refused_total\{face="http",status="503"\} 80$/m);
  }
  const refused = events.filter((event) => event.type === 'refused');
  assert.deepEqual(new Set(refused.map(({ reason }) => reason)), new Set(['too many connections are open']));
});

test('after maxConnections was reached, a new connection is accepted when another has ended', async (t) => {
  const { port } = await startService(t, { maxConnections });
  const [first] = await fill(t, port);
  first?.socket.destroy();
  // The service detects the end of the connection a little later.
  await until(async () => {
    const { status } = await (await Wire.open(t, port)).write(head('GET /health')).next();
    return status === 200;
  }, 'a new connection is accepted');
});

const noTimeouts = { headersTimeoutMs: 0, requestTimeoutMs: 0 };

for (const secure of [false, true]) {
  const over = secure ? ' over TLS' : '';
  test(`beyond maxConnections, an idle connection is closed for a new one${over}`, async (t) => {
    const tls = secure && { tls: createCertificate() };
    const { port, events } = await startService(t, { maxConnections: 3, timeouts: noTimeouts, ...tls });
    const open = async (request = '', handshake = secure): Promise<Socket> => {
      const target = { port, host: '127.0.0.1', rejectUnauthorized: false };
      const socket = handshake ? connectTls(target) : connect(target);
      socket.on('error', () => undefined).write(request);
      t.after(() => socket.destroy());
      return socket;
    };
    const busy = await open(unfinished);
    await once(busy, 'data');
    const idle = await open(head('GET /health'));
    await once(idle, 'data');
    const silent = await open('', false);
    const isOpen = (socket: Socket) => !socket.closed && !socket.readableEnded;
    for (const socket of [idle, silent]) socket.resume();
    // Until they have been idle for a moment, new connections are rejected.
    const replaceIdle = async () => {
      const other = await open(head('GET /info'));
      const [answer] = await Promise.race([once(other, 'data'), once(other, 'close')]).catch(() => []);
      if (!String(answer).startsWith('HTTP/1.1 200')) other.destroy();
      return !isOpen(idle) && !isOpen(silent);
    };
    await until(replaceIdle, 'both idle connections are closed', 60_000);
    busy.write('{}');
    const [answer] = await once(busy, 'data');
    assert.match(String(answer), /^HTTP\/1.1 200/);
    const warnings = events.filter((event) => event.type === 'warning');
    const message = 'too many connections are open: idle ones are closed for new ones';
    assert.deepEqual(warnings, [{ type: 'warning', message }]);
  });
}

test('beyond maxConnections, the connection of a rejected request whose body arrives is not closed', async (t) => {
  const { port } = await startService(t, { maxConnections: 1 });
  // Without timers, the service waits for the rest of the body, however slow this client is.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const wire = (await Wire.open(t, port)).write(head('POST /users', json, 'Content-Length: 1000000'));
  assert.equal((await wire.next()).status, 413);
  const later = performance.now() + 60_000;
  t.mock.method(performance, 'now', () => later);
  const other = (await Wire.open(t, port)).write(head('GET /health'));
  assert.equal((await other.next()).status, 503);
  wire.write(Buffer.alloc(1_000_000));
  assert.deepEqual(await wire.end(), []);
  assert.equal(wire.wasReset, false);
});

test('the service survives a flood of connections, and closes most of them without a response', async (t) => {
  const { port, events } = await startService(t, { maxConnections });
  const [wire] = await fill(t, port);
  const flood = Array.from({ length: 400 }, (_, n) => {
    const socket = connect(port, '127.0.0.1', () => n % 2 === 0 && socket.resetAndDestroy());
    return ended(socket);
  });
  await Promise.all(flood);
  await finish(wire);
  assert.ok(events.filter((event) => event.type === 'refused').length > 0);
});

test('with TLS, a connection beyond maxConnections is closed before its handshake', async (t) => {
  const { port, events } = await startService(t, { maxConnections: 1, tls: createCertificate() });
  const first = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(first, 'secureConnect');
  t.after(() => first.destroy());
  first.write(unfinished);
  await once(first, 'data');
  const second = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  let wasSecure = false;
  second.on('secureConnect', () => {
    wasSecure = true;
  });
  await ended(second);
  assert.equal(wasSecure, false);
  assert.equal(events.filter((event) => event.type === 'refused').length, 1);
});

test('gRPC connections beyond maxConnections are closed, and the open ones are served', async (t) => {
  const { service, grpc, events } = await startService(t, { maxConnections: 2, grpcPort: 0 });
  const clients = [usersClient(t, grpc), usersClient(t, grpc)];
  const call = async (client: (typeof clients)[number]) => (await getUser(client, 1)).code;
  for (const client of clients) assert.equal(await call(client), status.NOT_FOUND);
  for (let i = 0; i < 8; i += 1) await ended(connect(Number(grpc.split(':')[1]), '127.0.0.1'));
  assert.equal(await call(usersClient(t, grpc, { 'grpc.enable_retries': 0 })), status.UNAVAILABLE);
  for (const client of clients) assert.equal(await call(client), status.NOT_FOUND);
  // Read at the same moment as the events, because a client may retry at any time.
  const metrics = service.metrics();
  const [, refused] = /^users_service_refused_total\{face="grpc",status="14"\} (\d+)$/m.exec(metrics) ?? [];
  assert.ok(Number(refused) >= 9, metrics);
  const reasons = events.flatMap((event) => (event.type === 'refused' ? [event.reason] : []));
  assert.deepEqual(reasons, Array(Number(refused)).fill('too many connections are open'));
});

test('a gRPC connection that has ended no longer counts for maxConnections', async (t) => {
  const { service, grpc } = await startService(t, { maxConnections: 1, grpcPort: 0 });
  for (let i = 0; i < 3; i += 1) {
    const client = usersClient(t, grpc);
    assert.equal((await getUser(client, 1)).code, status.NOT_FOUND);
    client.close();
    // The service detects the end of the connection a little later.
    const isEmpty = () => service.metrics().includes('users_service_connections{face="grpc"} 0\n');
    await until(isEmpty, 'no gRPC connection is open');
  }
});

test('with maxConnections 0, both ports accept more connections at once than the default limit', async (t) => {
  const listen = t.mock.method(Server.prototype, 'listen');
  const { events } = await startService(t, { maxConnections: 0, grpcPort: 0 });
  assert.equal(listen.mock.callCount(), 2);
  for (const { this: server } of listen.mock.calls) {
    assert.ok(server instanceof Server);
    // These connections have no file descriptors, of which there are too few.
    const sockets = Array.from({ length: options['max-connections'].default + 1 }, () => new Socket());
    for (const socket of sockets) server.emit('connection', socket);
    await Promise.all(sockets.map((socket) => once(socket.destroy(), 'close')));
  }
  const types = events.map(({ type }) => type);
  assert.deepEqual(types, ['listening']);
});

const isLinux = process.platform === 'linux';
test('a thousand clients can connect to each port while the process is busy', {
  // Other systems limit the queue of new connections to fewer.
  skip: !isLinux && 'only Linux has a queue of this length',
}, async (t) => {
  const { child, http, grpc } = await startProcess(t, ['--database', 'memory:']);
  child.kill('SIGSTOP');
  for (const address of [http, grpc]) {
    let connected = 0;
    for (let i = 0; i < 1_000; i += 1) {
      const socket = connect(Number(/\d+$/.exec(address)?.[0]), '127.0.0.1', () => {
        connected += 1;
      });
      socket.on('error', () => undefined);
      t.after(() => socket.destroy());
    }
    await until(() => connected === 1_000, `all clients are connected to ${address}`);
  }
});

test('on a small heap, fewer writes may wait for a lock, because they stay when their clients disconnect', async (t) => {
  const folder = temporaryFolder();
  const path = join(folder, 'users.db');
  // Some 280 connections and as many waiting writes fit.
  const env = { NODE_OPTIONS: '--max-old-space-size=32 --max-semi-space-size=1' };
  const { http } = await startProcess(t, ['--database', `sqlite:${path}`], env);
  const db = new DatabaseSync(path);
  t.after(() => db.close());
  db.exec('BEGIN IMMEDIATE');
  // Twice as many can be connected, so those that have just disconnected keep no others out.
  const clients = 130;
  const isRunning = async () => {
    const metrics = await (await fetch(`${http}/metrics`)).text();
    return Number(/^users_service_requests_in_flight{face="http"} (\d+)$/m.exec(metrics)?.[1]) > clients;
  };
  const isRejected = (wire: Wire) => wire.received.includes('too many writes are waiting');
  const port = Number(new URL(http).port);
  await until(
    async () => {
      const wires = await Promise.all(Array.from({ length: clients }, () => Wire.open(t, port)));
      for (const wire of wires) wire.write(post('/users', '{"name":"Ada"}'));
      const hasResponse = () => wires.some(({ received }) => received.length > 0);
      await until(async () => hasResponse() || (await isRunning()), 'the writes wait', 100_000);
      for (const { socket } of wires) socket.destroy();
      return wires.some(isRejected);
    },
    'a write is rejected',
    100_000,
  );
});

test('createService rejects an invalid maxConnections', () => {
  for (const wrong of [-1, 1.5, Number.NaN]) {
    assert.throws(() => createService({ maxConnections: wrong }), /maxConnections must be a whole number/);
  }
});
