import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { status } from '@grpc/grpc-js';
import type { Repository } from '../../src/domain/repository.ts';
import type { ServiceOptions } from '../../src/service.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { head, Wire } from '../kit/wire.ts';
import { fetch } from '../support/fetch.ts';
import { gatedRepository } from '../support/gated.ts';
import { startService } from '../support/service.ts';

async function measure(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** A service whose GET /users/1 lasts until the gate opens. */
async function startGated(t: TestContext, options: ServiceOptions = {}) {
  const gate = await gatedRepository();
  t.after(gate.open);
  const running = await startService(t, { repository: gate.repository, ...options });
  return { ...gate, ...running };
}

/** A connection that has had an answer and is idle. */
async function openIdle(t: TestContext, port: number): Promise<Wire> {
  const wire = await Wire.open(t, port);
  wire.write(head('GET /health'));
  assert.equal((await wire.next()).status, 200);
  return wire;
}

describe('a request under way when the service closes', () => {
  it('is answered, told to reconnect, and the last thing before the end', async (t) => {
    const { service, port, entered, open, events } = await startGated(t, { drainIdleMs: 50 });
    const slow = await Wire.open(t, port);
    slow.write(head('GET /users/1'));
    await entered;
    const idle = await openIdle(t, port);
    const closing = measure(() => service.close({ timeoutMs: 5_000 }));
    assert.deepEqual(await idle.end(), [], 'the idle connection ends without a word');
    const untilAnswered = await measure(async () => {
      setTimeout(open, 100);
      const { status, headers } = await slow.next();
      assert.equal(status, 200);
      assert.equal(headers['connection'], 'close');
    });
    assert.ok((await closing) < 50 + untilAnswered + 200);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['listening', 'request', 'draining', 'request', 'closed'],
    );
  });

  it('ends at the deadline when it lasts longer, and its store call is told', async (t) => {
    const aborted = Promise.withResolvers<void>();
    const { repository } = await gatedRepository();
    const patient = new Proxy<Repository>(repository, {
      get(target, name) {
        if (name !== 'getUser') return Reflect.get(target, name);
        return async (...[, options]: Parameters<Repository['getUser']>) => {
          options?.signal?.addEventListener('abort', () => aborted.resolve());
          return await new Promise<never>(() => undefined);
        };
      },
    });
    const { service, port } = await startService(t, { repository: patient });
    const wire = await Wire.open(t, port);
    wire.write(head('GET /users/1'));
    // Its own answer shows that the first was taken.
    await openIdle(t, port);
    const took = await measure(() => service.close({ timeoutMs: 300 }));
    assert.ok(took >= 290 && took < 5_000, `${took} ms`);
    assert.deepEqual(await wire.end(), []);
    await aborted.promise;
  });

  it('that is only half there holds up nobody but itself, and is cut at the deadline', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 0 });
    const half = await Wire.open(t, port);
    half.write('GET /health HTTP/1.1\r\nHost:');
    const idle = await openIdle(t, port);
    const closing = measure(() => service.close({ timeoutMs: 2_000 }));
    const untilIdleEnds = await measure(() => idle.end());
    const took = await closing;
    assert.deepEqual(await half.end(), []);
    assert.ok(untilIdleEnds < 1_500, `${untilIdleEnds} ms`);
    assert.ok(took >= 1_990 && took < 9_000, `${took} ms`);
  });

  it('that becomes whole in time is answered', async (t) => {
    const { service, port } = await startService(t);
    const half = await Wire.open(t, port);
    half.write('GET /health HTTP/1.1\r\nHost:');
    await openIdle(t, port);
    const closing = service.close({ timeoutMs: 5_000 });
    half.write(' x\r\n\r\n');
    const { status, headers } = await half.next();
    assert.deepEqual([status, headers['connection']], [200, 'close']);
    await closing;
  });
});

describe('a connection without a request when the service closes', () => {
  it('gets an answer to one more, and is asked to go elsewhere for the next', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 5_000 });
    const idle = await openIdle(t, port);
    const closing = service.close();
    await assertRefused(port);
    idle.write(head('GET /health'));
    const { status, headers } = await idle.next();
    assert.deepEqual([status, headers['connection']], [200, 'close']);
    assert.deepEqual(await idle.end(), []);
    assert.ok((await measure(() => closing)) < 4_500, 'nobody else is waited for');
  });

  it('has had its last answer when its pause is over', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 150 });
    await openIdle(t, port);
    const took = await measure(() => service.close());
    assert.ok(took >= 140 && took < 5_000, `${took} ms`);
  });

  it('ends too when it never sent anything', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 100 });
    const silent = await Wire.open(t, port);
    await openIdle(t, port);
    assert.ok((await measure(() => service.close())) < 5_000);
    assert.deepEqual(await silent.end(), []);
  });

  it('ends soon after a reply that had begun before it could say so', async (t) => {
    const repository = await storeOfManyPosts();
    const { service, port } = await startService(t, { repository, drainIdleMs: 0 });
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(head('GET /users/1/posts'));
    await once(socket, 'readable');
    const closing = service.close({ timeoutMs: 20_000 });
    await assertRefused(port);
    const startedAt = performance.now();
    const text = Buffer.concat(await socket.toArray()).toString('latin1');
    assert.match(text, /^HTTP\/1.1 200 OK\r\n/);
    assert.doesNotMatch(text, /^connection: close\r$/im);
    assert.ok(text.endsWith(']\r\n0\r\n\r\n'), 'it is whole');
    await closing;
    const took = performance.now() - startedAt;
    assert.ok(took < 10_000, `${took} ms`);
  });
});

describe('while it drains', () => {
  it('it serves as ever, but says on both faces that it is not ready', async (t) => {
    const { service, http, port, grpc } = await startService(t, { grpcPort: 0, drainDelayMs: 60_000 });
    const client = usersClient(t, grpc);
    await getUser(client, 1);
    const closing = service.close({ timeoutMs: 1_000 });
    const fresh = await Wire.open(t, port);
    fresh.write(head('GET /health'));
    const answer = await fresh.next();
    assert.equal(answer.status, 200);
    assert.notEqual(answer.headers['connection'], 'close');
    const ready = await fetch(`${http}/health/ready`);
    assert.equal(ready.status, 503);
    assert.deepEqual(await ready.json(), { error: 'the service is draining' });
    assert.equal((await getUser(client, 1)).code, status.NOT_FOUND);
    client.close();
    // Another call may hasten what would take a minute.
    assert.ok((await measure(() => service.close({ timeoutMs: 0 }))) < 20_000);
    await closing;
  });

  it('another close without a time of its own changes nothing', async (t) => {
    const { service } = await startService(t, { drainDelayMs: 200 });
    const closing = measure(() => service.close({ timeoutMs: 0 }));
    await service.close();
    assert.ok((await closing) >= 190);
  });
});

describe('gRPC when the service closes', () => {
  it('a call under way is answered, a new one refused', async (t) => {
    const { service, grpc, entered, open } = await startGated(t, { grpcPort: 0 });
    const client = usersClient(t, grpc);
    const call = getUser(client, 1);
    await entered;
    const closing = service.close({ timeoutMs: 5_000 });
    await assertRefused(Number(grpc.split(':')[1]));
    open();
    assert.equal((await call).user?.name, 'Ada');
    await closing;
    assert.equal((await getUser(client, 1)).code, status.UNAVAILABLE);
  });

  it('a call without end, an idle session and a silent socket go at the deadline at the latest', async (t) => {
    const { service, grpc, entered } = await startGated(t, { grpcPort: 0 });
    const call = getUser(usersClient(t, grpc), 1);
    await entered;
    const session = connectHttp2(`http://${grpc}`);
    await once(session, 'connect');
    const silent = connect(Number(grpc.split(':')[1]), '127.0.0.1');
    await once(silent, 'connect');
    const gone = Promise.all([once(session, 'close'), once(silent.resume(), 'close')]);
    const took = await measure(() => service.close({ timeoutMs: 500 }));
    assert.ok(took < 5_000, `${took} ms`);
    assert.notEqual((await call).code, status.OK);
    await gone;
  });
});

describe('a connection that leaks', () => {
  it('is noticed by the teardown: close lasts until its deadline, then it is gone', async (t) => {
    const { service, port } = await startService(t);
    const leak = connect(port, '127.0.0.1');
    await once(leak, 'connect');
    t.after(() => leak.destroy());
    leak.write(
      'POST /users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    );
    await openIdle(t, port);
    const took = await measure(() => service.close({ timeoutMs: 300 }));
    assert.ok(took >= 290 && took < 5_000, `${took} ms`);
  });

  it('is reported as a client that left, not as a failure', async (t) => {
    const events: ServiceEvent[] = [];
    const { service, port, entered } = await startGated(t, { observe: (event) => events.push(event) });
    const wire = await Wire.open(t, port);
    wire.write(head('GET /users/1'));
    await entered;
    await service.close({ timeoutMs: 0 });
    const request = events.find(({ type }) => type === 'request');
    assert.ok(request?.type === 'request');
    assert.equal(request.status, 499);
    assert.equal(events.at(-1)?.type, 'closed');
  });
});

/** Resolves when new connections are refused: the port is closed. */
async function assertRefused(port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const connected = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.on('error', () => undefined).destroy();
    if (!connected) return;
  }
}

/** A memory store whose user 1 has more posts than the buffers of a connection hold. */
async function storeOfManyPosts(): Promise<Repository> {
  const store = createMemoryStore();
  await store.createUser({ name: 'Ada' });
  const body = 'x'.repeat(10_000);
  for (let n = 0; n < 1_500; n += 1) await store.createPost(1, { title: `${n}`, body });
  return store;
}
