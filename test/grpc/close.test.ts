import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { getUser, type Outcome, usersClient } from '../kit/grpc.ts';
import { callWire, connectWire, framed } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

const ann = { id: 1, name: 'Ann', version: 1 };

/** A service whose store answers when it is let go. */
async function startHeld(t: TestContext, options: { drainDelayMs?: number } = {}) {
  const repository = createMemoryStore();
  const asked = Promise.withResolvers<AbortSignal | undefined>();
  const answer = Promise.withResolvers<typeof ann>();
  repository.getUser = (id, { signal } = {}) => {
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

test('a watch, a call that never ends and an idle connection do not hold it beyond its deadline', async (t) => {
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

  const ms = await timed(service.close({ timeoutMs: 500 }));

  assert.ok(ms >= 450 && ms < 9_000, `${ms.toFixed()} ms`);
  assert.equal((await endless).code, status.UNAVAILABLE);
  assert.equal(signal?.aborted, true, 'its store is told');
  assert.equal((await watch).code, status.OK, 'the watch had ended in order before');
  assert.equal(idle.closed || idle.destroyed, true);
  if (!half.closed) await once(half, 'close');
});

test('nothing but idle connections is closed at once', async (t) => {
  const { grpc, service } = await startHeld(t);
  await getUser(usersClient(t, grpc), 2);
  await connectWire(t, grpc);
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 20_000);
});

test('a port nobody has called is closed at once', async (t) => {
  const { service } = await startHeld(t);
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 20_000);
});

test('calls under way are answered, those after are not taken', async (t) => {
  const { grpc, service, asked, answer } = await startHeld(t);
  const client = usersClient(t, grpc, { 'grpc.enable_retries': 0 });
  const running = getUser(client, 1);
  await asked;
  const session = await connectWire(t, grpc);
  const goaway = once(session, 'goaway');
  const closing = service.close({ timeoutMs: 5_000 });
  const [code] = await goaway;
  assert.equal(code, 0, 'asked to leave in good order');
  const refused = connect(Number(grpc.split(':')[1]), '127.0.0.1');
  const [error] = await once(refused, 'error');
  assert.equal(error.code, 'ECONNREFUSED');
  answer.resolve(ann);
  assert.deepEqual((await running).user, { id: 1, name: 'Ann' });
  assert.ok((await timed(closing)) < 3_000);
});

test('during the drain delay calls on old and new connections are answered', async (t) => {
  // Longer than the calls can take on any machine: it is ended by hand.
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

test('a connection that arrives while it closes is not left hanging', async (t) => {
  const { grpc, service } = await startHeld(t);
  // The first connection is what loads the face: here it arrives a moment before the end.
  const socket = connect(Number(grpc.split(':')[1]), '127.0.0.1');
  socket.on('error', () => undefined).resume();
  await once(socket, 'connect');
  assert.ok((await timed(service.close({ timeoutMs: 30_000 }))) < 20_000);
  if (!socket.closed) await once(socket, 'close');
});

test('a port in use fails the start, and gives up the other one', async (t) => {
  const { grpc } = await startHeld(t);
  const taken = Number(grpc.split(':')[1]);
  await assert.rejects(startService(t, { grpcPort: taken }), /EADDRINUSE|in use/);
});
