import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { status } from '@grpc/grpc-js';
import type { ServiceOptions } from '../../src/service/service.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { getUser, type Outcome, usersClient } from '../kit/grpc.ts';
import { createCertificate } from '../support/certificate.ts';
import { callWire, connectWire, dataFrame, framed, headersFrame, openCall } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

const ann = { id: 1, name: 'Ann', version: 1 };

/** A service whose store resolves a call when the test resolves `answer`. */
async function startHeld(
  t: TestContext,
  options: Pick<ServiceOptions, 'drainDelayMs' | 'drainIdleMs' | 'tls'> = {},
) {
  const repository = createMemoryStore();
  const asked = Promise.withResolvers<AbortSignal | undefined>();
  const answer = Promise.withResolvers<typeof ann>();
  repository.users.get = (id, { signal } = {}) => {
    if (id !== 1) return Promise.resolve({ ...ann, id });
    asked.resolve(signal);
    return answer.promise;
  };
  const running = await startService(t, { repository, grpcPort: 0, ...options });
  return { ...running, asked: asked.promise, answer };
}

async function timed(work: Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work;
  return performance.now() - startedAt;
}

test('a watch, an endless call and an idle connection cannot delay the gRPC server beyond the deadline of close', async (t) => {
  const { grpc, service, asked } = await startHeld(t);
  const endless = getUser(usersClient(t, grpc), 1);
  const signal = await asked;
  const watching = await connectWire(t, grpc);
  const watch = callWire(watching, '/grpc.health.v1.Health/Watch', framed(new Uint8Array()));
  const idle = await connectWire(t, grpc);
  const half = connect(Number(grpc.split(':')[1]), '127.0.0.1');
  await once(half, 'connect');
  half.write('PRI * HTTP/2.0\r\n');
  half.on('error', () => undefined).resume();

  const closing = service.close({ timeoutMs: 600_000 });
  assert.equal((await watch).code, status.OK, 'the watch ends with OK before the deadline');
  // A later close may set an earlier deadline.
  const ms = await timed(Promise.all([closing, service.close({ timeoutMs: 500 })]));

  assert.ok(ms >= 450 && ms < 20_000, `${ms.toFixed()} ms`);
  // If the client sees the end of the stream before that of the connection, it reports INTERNAL.
  assert.ok([status.UNAVAILABLE, status.INTERNAL].includes((await endless).code));
  assert.equal(signal?.aborted, true, 'the signal of the store is aborted');
  assert.equal(idle.closed || idle.destroyed, true);
  if (!half.closed) await once(half, 'close');
});

test('a reflection stream ends with OK and does not delay close, also if another request arrives then', async (t) => {
  const { grpc, service } = await startHeld(t);
  const session = await connectWire(t, grpc);
  const set = (initialWindowSize: number) =>
    new Promise<unknown>((resolve) => session.settings({ initialWindowSize }, resolve));
  // Until the window opens, the response is not sent.
  await set(0);
  const stream = openCall(session, '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo');
  const trailers = once(stream, 'trailers');
  const listServices = framed(Uint8Array.of(0x3a, 0));
  stream.write(listServices);
  await once(stream, 'response');
  const goaway = once(session, 'goaway');
  const closing = timed(service.close({ timeoutMs: 30_000 }));
  await goaway;
  stream.write(listServices);
  stream.resume().on('trailers', () => stream.end());
  await set(65_535);
  const [{ 'grpc-status': code }] = await trailers;
  assert.equal(code, String(status.OK));
  assert.ok((await closing) < 20_000);
});

test('a gRPC server with only idle connections closes at once', async (t) => {
  const { grpc, service } = await startHeld(t);
  await getUser(usersClient(t, grpc), 2);
  await connectWire(t, grpc);
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 20_000);
});

/** The next connection of this process as its server sees it. */
function nextAccepted(t: TestContext): Promise<Socket> {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const accept = (message: unknown) => resolve((message as { socket: Socket }).socket);
  subscribe('net.server.socket', accept);
  t.after(() => unsubscribe('net.server.socket', accept));
  return promise;
}

/** A client that never closes its idle connection. */
async function connectLost(t: TestContext, grpc: string): Promise<Socket> {
  const lost = connect({ port: Number(grpc.split(':')[1]), host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => lost.destroy());
  const settings = '\0\0\0\x04\0\0\0\0\0';
  lost.on('error', () => undefined).write(`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${settings}`);
  await once(lost, 'data');
  return lost;
}

test('a client that never closes its idle connection does not delay close until the deadline', async (t) => {
  const { grpc, service } = await startHeld(t);
  await connectLost(t, grpc);
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 20_000);
});

test('while the gRPC server closes, the connection of a lost client does not wait for the call of another', async (t) => {
  const { grpc, service, asked, answer } = await startHeld(t);
  const session = await connectWire(t, grpc);
  const running = callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
  await asked;
  const accepted = nextAccepted(t);
  await connectLost(t, grpc);
  const closing = service.close({ timeoutMs: 600_000 });
  await once(await accepted, 'close');
  answer.resolve(ann);
  assert.equal((await running).code, status.OK);
  await closing;
});

test('the connection of a lost client is closed soon after its last call while the gRPC server closes', async (t) => {
  const { grpc, service, asked, answer } = await startHeld(t);
  const accepted = nextAccepted(t);
  const lost = await connectLost(t, grpc);
  const endOfCall = Buffer.from('000000000100000001', 'hex');
  lost.write(headersFrame(1, '/Users/GetUser'));
  lost.write(Buffer.concat([dataFrame(1, framed(Uint8Array.of(8, 1))), endOfCall]));
  await asked;
  const closing = service.close({ timeoutMs: 600_000 });
  await once(await accepted, 'timeout');
  answer.resolve(ann);
  await closing;
});

test('while the gRPC server closes, a connection may be quiet for as long as drainIdleMs allows', async (t) => {
  const { grpc, service, asked, answer } = await startHeld(t, { drainIdleMs: 5_000 });
  const accepted = nextAccepted(t);
  const session = await connectWire(t, grpc);
  const running = callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
  await asked;
  const goaway = once(session, 'goaway');
  const closing = service.close({ timeoutMs: 60_000 });
  await goaway;
  assert.equal((await accepted).timeout, 5_000);
  answer.resolve(ann);
  assert.equal((await running).code, status.OK);
  await closing;
});

test('a client that stops in the middle of its TLS handshake does not delay close until its time limit', async (t) => {
  const { grpc, service } = await startHeld(t, { tls: createCertificate() });
  const socket = connect(Number(grpc.split(':')[1]), '127.0.0.1');
  t.after(() => socket.destroy());
  const [client, wire] = duplexPair();
  connectTls({ socket: client, rejectUnauthorized: false, ALPNProtocols: ['h2'] }).on(
    'error',
    () => undefined,
  );
  const [hello]: Buffer[] = await once(wire, 'data');
  assert.ok(hello);
  socket.on('error', () => undefined).write(hello);
  await once(socket, 'data');
  // The handshake itself may take 10 s.
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 8_000);
});

for (const scheme of ['http', 'https']) {
  test(`close waits for a gRPC call whose ${scheme} connection is quiet for longer than that of a lost client may be`, async (t) => {
    const tls = createCertificate();
    const { grpc, service, asked, answer } = await startHeld(t, scheme === 'https' ? { tls } : {});
    const accepted = nextAccepted(t);
    const session = connectHttp2(`${scheme}://${grpc}`, { ca: tls.cert });
    t.after(() => session.destroy());
    const running = callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
    await asked;
    const socket = await accepted;
    const closing = service.close({ timeoutMs: 60_000 });
    await once(socket, 'timeout');
    answer.resolve(ann);
    assert.equal((await running).code, status.OK);
    await closing;
  });
}

test('a gRPC server without any connection closes at once', async (t) => {
  const { service } = await startHeld(t);
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 20_000);
});

test('close completes running gRPC calls and rejects new connections', async (t) => {
  const { grpc, service, asked, answer } = await startHeld(t);
  const client = usersClient(t, grpc, { 'grpc.enable_retries': 0 });
  const running = getUser(client, 1);
  await asked;
  const session = await connectWire(t, grpc);
  const goaway = once(session, 'goaway');
  const closing = service.close({ timeoutMs: 30_000 });
  const [code] = await goaway;
  assert.equal(code, 0, 'GOAWAY with NO_ERROR');
  const refused = connect(Number(grpc.split(':')[1]), '127.0.0.1');
  const [error] = await once(refused, 'error');
  assert.equal(error.code, 'ECONNREFUSED');
  answer.resolve(ann);
  assert.deepEqual((await running).user, { id: 1, name: 'Ann' });
  assert.ok((await timed(closing)) < 20_000);
});

test('gRPC calls on old and new connections succeed during the drain delay', async (t) => {
  // Longer than the calls can take on any machine. The second close ends it.
  const { grpc, service } = await startHeld(t, { drainDelayMs: 600_000 });
  const old = usersClient(t, grpc);
  await getUser(old, 2);
  const closing = service.close();
  const outcomes: Outcome[] = [];
  for (let i = 0; i < 5; i += 1) {
    outcomes.push(await getUser(old, 2), await getUser(usersClient(t, grpc), 2));
  }
  assert.deepEqual([...new Set(outcomes.map(({ code }) => code))], [status.OK]);
  service.close({ timeoutMs: 0 });
  await closing;
});

test('the client of a connection that arrives just before close receives GOAWAY instead of a reset', async (t) => {
  const { grpc, service } = await startHeld(t);
  const closed = Promise.withResolvers<void>();
  const close = () => closed.resolve(service.close({ timeoutMs: 30_000 }));
  // Node.js publishes it at the moment in which the server has accepted the connection.
  subscribe('net.server.socket', close);
  t.after(() => unsubscribe('net.server.socket', close));
  const session = connectHttp2(`http://${grpc}`);
  t.after(() => session.destroy());
  const [code] = await once(session, 'goaway');
  assert.equal(code, 0, 'NO_ERROR');
  assert.ok((await timed(closed.promise)) < 20_000);
});
