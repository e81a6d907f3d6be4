import assert from 'node:assert/strict';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import type { GrpcLimits } from '../../src/grpc/app.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { until } from '../kit/until.ts';
import { fetch } from '../support/fetch.ts';
import { callWire, connectWire, framed } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

async function start(t: TestContext, grpcLimits: Partial<GrpcLimits> = {}) {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ann' });
  const { grpc, http, service, events } = await startService(t, { repository, grpcPort: 0, grpcLimits });
  const inFlight = async () =>
    /in_flight\{face="grpc"\} (\d+)/.exec(await (await fetch(`${http}/metrics`)).text())?.[1];
  const isWell = async () => {
    const { user } = await getUser(usersClient(t, grpc), 1, { deadline: Date.now() + 60_000 });
    assert.deepEqual(user, { id: 1, name: 'Ann' });
    assert.equal(await inFlight(), '0');
  };
  return { grpc, service, events, isWell };
}

const one = framed(Uint8Array.of(8, 1));
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const emptySettings = Buffer.from('000000040000000000', 'hex');
const settingsAck = Buffer.from('000000040100000000', 'hex');

/** A connection that opens HTTP/2 and then sends only what its test writes. */
async function connectDumb(t: TestContext, grpc: string): Promise<Socket> {
  const socket = connect(Number(grpc.split(':')[1]), '127.0.0.1');
  t.after(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(Buffer.concat([preface, emptySettings, settingsAck]));
  return socket;
}

test('all calls of a busy client succeed while its connections reach their maximum age', async (t) => {
  // The client sends a refused call only once again. So no connection may reach its age while the machine is so slow
  // that this second attempt has not arrived yet.
  const { grpc } = await start(t, { maxConnectionAgeMs: 1_000, maxConnectionAgeGraceMs: 5_000 });
  const client = usersClient(t, grpc);
  const end = performance.now() + 2_500;
  let calls = 0;
  const keepCalling = async (): Promise<void> => {
    // A slow machine needs longer for enough calls on several connections.
    while (performance.now() < end || calls < 100) {
      const { code, details } = await getUser(client, 1);
      assert.equal(code, status.OK, `call ${calls}: ${details}`);
      calls += 1;
      await sleep(5);
    }
  };
  await Promise.all(Array.from({ length: 8 }, keepCalling));
});

test('a connection at its maximum age receives GOAWAY, and closes when its calls have ended', async (t) => {
  const { grpc } = await start(t, { maxConnectionAgeMs: 200, maxConnectionAgeGraceMs: 5_000 });
  const session = await connectWire(t, grpc);
  const [code] = await once(session, 'goaway');
  assert.equal(code, constants.NGHTTP2_NO_ERROR);
  if (!session.destroyed) await once(session, 'close');
});

test('connections stay open with the highest maximum age of a timer', async (t) => {
  // grpc-js would take one more for no limit, and start no timer.
  const { grpc } = await start(t, { maxConnectionAgeMs: 2 ** 31 - 2 });
  let aged = 0;
  // The age of each connection is random.
  for (let i = 0; i < 20; i += 1) {
    const session = await connectWire(t, grpc);
    session.on('goaway', () => {
      aged += 1;
    });
    assert.equal((await callWire(session, '/Users/GetUser', one)).code, status.OK);
    await new Promise((resolve) => session.ping(resolve));
  }
  assert.equal(aged, 0);
});

test('a call that runs when its connection reaches its maximum age completes within the grace period', async (t) => {
  const repository = createMemoryStore();
  const held = Promise.withResolvers<void>();
  repository.users.get = async (id) => {
    await held.promise;
    return { id, name: 'Ann', version: 1 };
  };
  const grpcLimits = { maxConnectionAgeMs: 2_000, maxConnectionAgeGraceMs: 60_000 };
  const { grpc } = await startService(t, { repository, grpcPort: 0, grpcLimits });
  const session = await connectWire(t, grpc);
  const call = callWire(session, '/Users/GetUser', one);
  await once(session, 'goaway');
  await new Promise((resolve) => session.ping(resolve));
  held.resolve();
  assert.equal((await call).code, status.OK);
});

test('a call that runs longer than the grace period of its connection is ended', async (t) => {
  const repository = createMemoryStore();
  const held = Promise.withResolvers<undefined>();
  let asked = 0;
  repository.users.get = () => {
    asked += 1;
    return held.promise;
  };
  const grpcLimits = { maxConnectionAgeMs: 200, maxConnectionAgeGraceMs: 100 };
  const { grpc } = await startService(t, { repository, grpcPort: 0, grpcLimits });
  const client = usersClient(t, grpc, { 'grpc.enable_retries': 0 });
  // On a slow machine, the age of a connection may pass before its call begins.
  while (asked === 0) assert.equal((await getUser(client, 1)).code, status.UNAVAILABLE);
  held.resolve(undefined);
});

test('a connection that does not acknowledge pings is closed, and one that does stays open', async (t) => {
  const { grpc } = await start(t, { keepaliveTimeMs: 100, keepaliveTimeoutMs: 200 });
  const alive = await connectWire(t, grpc);
  const startedAt = performance.now();
  const dead = await connectDumb(t, grpc);
  dead.resume();
  await once(dead, 'close');
  const ms = performance.now() - startedAt;
  assert.ok(ms > 200 && ms < 20_000, `${ms.toFixed()} ms`);
  assert.equal((await callWire(alive, '/Users/GetUser', one)).code, status.OK);
});

test('calls beyond maxConcurrentStreams wait or are rejected, and other connections are not affected', async (t) => {
  const repository = createMemoryStore();
  const held = Promise.withResolvers<void>();
  let running = 0;
  repository.users.get = async (id) => {
    running += 1;
    await held.promise;
    return { id, name: 'late', version: 1 };
  };
  const grpcLimits = { maxConcurrentStreams: 3 };
  const { grpc } = await startService(t, { repository, grpcPort: 0, grpcLimits });
  const session = await connectWire(t, grpc);
  await new Promise((resolve) => session.ping(resolve));
  const answers = Array.from({ length: 6 }, () => callWire(session, '/Users/GetUser', one));
  const other = getUser(usersClient(t, grpc), 1);
  await until(() => running >= 4, 'four calls have reached the store');
  // The server handles the calls of the first connection in order, so a fourth one would run before this response.
  await new Promise((resolve) => session.ping(resolve));
  assert.equal(running, 4, 'three calls of the first connection, one of the second');
  held.resolve();
  const codes = (await Promise.all(answers)).map(({ code }) => code);
  assert.equal(codes.filter((code) => code === status.OK).length >= 3, true);
  assert.equal((await other).code, status.OK);
});

const ping = Buffer.from('00000806000000000000000000000000ff', 'hex');
const floods: readonly [what: string, frame: Buffer][] = [
  ['PING', ping],
  ['SETTINGS', emptySettings],
  ['empty DATA', Buffer.from('000000000000000001', 'hex')],
  ['PRIORITY', Buffer.from('000005020000000001000000000f', 'hex')],
  ['WINDOW_UPDATE', Buffer.from('00000408000000000000000001', 'hex')],
  ['RST_STREAM for unopened streams', Buffer.from('00000403000000000100000008', 'hex')],
];
for (const [what, frame] of floods) {
  test(`10,000 frames of ${what} from clients that read and that do not read do not block other clients`, async (t) => {
    const { grpc, isWell } = await start(t);
    const client = usersClient(t, grpc);
    await getUser(client, 1);
    const [reading, silent] = [await connectDumb(t, grpc), await connectDumb(t, grpc)];
    reading.resume();
    const frames = Buffer.concat(Array.from({ length: 10_000 }, () => frame));
    for (const socket of [reading, silent]) socket.write(frames);
    for (let i = 0; i < 20; i += 1) assert.equal((await getUser(client, 1)).code, status.OK);
    await isWell();
  });
}

test('5,000 calls that are reset at once do not block other clients, and leave no call running', async (t) => {
  const { grpc, isWell } = await start(t);
  const client = usersClient(t, grpc);
  await getUser(client, 1);
  const session = await connectWire(t, grpc);
  for (let i = 0; i < 5_000 && !session.destroyed; i += 1) {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/Users/GetUser',
      'content-type': 'application/grpc',
    });
    stream.on('error', () => undefined).end(one);
    stream.close(constants.NGHTTP2_CANCEL);
    if (i % 100 === 0) await new Promise(setImmediate);
  }
  assert.equal((await getUser(client, 1)).code, status.OK);
  await until(
    async () => (await callWire(await connectWire(t, grpc), '/Users/GetUser', one)).code === status.OK,
    'a call on a new connection succeeds',
  );
  await isWell();
});

test('100 connections of one call each, half of them cut off, do not delay close', async (t) => {
  const { grpc, service, isWell } = await start(t);
  for (let i = 0; i < 100; i += 20) {
    const batch = Array.from({ length: 20 }, async (_, j) => {
      const session = await connectWire(t, grpc);
      assert.equal((await callWire(session, '/Users/GetUser', one)).code, status.OK);
      if (j % 2 === 0) session.close();
      else session.destroy();
    });
    await Promise.all(batch);
  }
  await isWell();
  const startedAt = performance.now();
  await service.close({ timeoutMs: 30_000 });
  assert.ok(performance.now() - startedAt < 20_000, 'close waited although no connection was left');
});
