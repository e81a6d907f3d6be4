import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect, Server, type Socket } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { Worker } from 'node:worker_threads';
import { status } from '@grpc/grpc-js';
import type { Repository } from '../../src/domain/repository.ts';
import { acceptWaiting } from '../../src/service/ports.ts';
import type { ServiceOptions } from '../../src/service/service.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { until } from '../kit/until.ts';
import { head, Wire } from '../kit/wire.ts';
import { fetch } from '../support/fetch.ts';
import { gatedRepository } from '../support/gated.ts';
import { startService } from '../support/service.ts';

/** The duration in ms. Upper bounds in the tests are far above the expected value, for busy machines. */
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

/** A connection that has received a response and is idle. */
async function openIdle(t: TestContext, port: number): Promise<Wire> {
  const wire = await Wire.open(t, port);
  wire.write(head('GET /health'));
  assert.equal((await wire.next()).status, 200);
  return wire;
}

describe('a request under way when the service closes', () => {
  it('gets its response with Connection: close, and the service closes after it', async (t) => {
    const { service, port, entered, open, events } = await startGated(t, { drainIdleMs: 50 });
    const slow = await Wire.open(t, port);
    slow.write(head('GET /users/1'));
    await entered;
    const idle = await openIdle(t, port);
    const closing = measure(() => service.close({ timeoutMs: 60_000 }));
    assert.deepEqual(await idle.end(), [], 'the idle connection ends without a response');
    open();
    const { status, headers } = await slow.next();
    assert.deepEqual([status, headers['connection']], [200, 'close']);
    assert.ok((await closing) < 30_000, 'the service waited for the deadline');
    const types = events.map(({ type }) => type);
    assert.deepEqual(types, ['listening', 'request', 'draining', 'request', 'closed']);
  });

  it('is aborted together with its store call at the deadline', async (t) => {
    const aborted = Promise.withResolvers<void>();
    const { repository } = await gatedRepository();
    repository.users.get = (_id, options) => {
      options?.signal?.addEventListener('abort', () => aborted.resolve());
      return new Promise<never>(() => undefined);
    };
    const { service, port } = await startService(t, { repository });
    const wire = await Wire.open(t, port);
    wire.write(head('GET /users/1'));
    // Its response shows that the service has received the first request.
    await openIdle(t, port);
    const took = await measure(() => service.close({ timeoutMs: 300 }));
    assert.ok(took >= 290 && took < 30_000, `${took} ms`);
    assert.deepEqual(await wire.end(), []);
    await aborted.promise;
  });

  it('is closed at the deadline while its body is incomplete, and idle connections close earlier', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 0 });
    const half = await Wire.open(t, port);
    half.write(`${head('POST /users', 'Content-Type: application/json', 'Content-Length: 9')}{`);
    const idle = await openIdle(t, port);
    let closed = false;
    const closing = measure(() => service.close({ timeoutMs: 1_000 })).finally(() => {
      closed = true;
    });
    await idle.end();
    assert.equal(closed, false, 'the idle connection ends before the deadline');
    const took = await closing;
    assert.deepEqual(await half.end(), []);
    assert.ok(took >= 990 && took < 30_000, `${took} ms`);
  });
});

describe('a connection without a complete head when the service closes', () => {
  it('gets one more response, with Connection: close', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 60_000 });
    const idle = await openIdle(t, port);
    const closing = service.close();
    await assertRefused(port);
    idle.write(head('GET /health'));
    const { status, headers } = await idle.next();
    assert.deepEqual([status, headers['connection']], [200, 'close']);
    assert.deepEqual(await idle.end(), []);
    assert.ok((await measure(() => closing)) < 30_000, 'the service waited for the rest of the idle time');
  });

  it('is closed after drainIdleMs', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 150 });
    await openIdle(t, port);
    const took = await measure(() => service.close());
    assert.ok(took >= 140 && took < 30_000, `${took} ms`);
  });

  it('is also closed when it has never sent a request', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 100 });
    const silent = await Wire.open(t, port);
    await openIdle(t, port);
    assert.ok((await measure(() => service.close({ timeoutMs: 60_000 }))) < 30_000);
    assert.deepEqual(await silent.end(), []);
  });

  it('is also closed when it has sent only a part of the head of its second request', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 100 });
    const half = await openIdle(t, port);
    half.write('GET /health HTTP/1.1\r\nHost:');
    assert.ok((await measure(() => service.close({ timeoutMs: 60_000 }))) < 30_000);
    assert.deepEqual(await half.end(), []);
  });

  it('is also closed when it has sent a part of a head, and does not wait for a request of another', async (t) => {
    const { service, port, entered, open } = await startGated(t, { drainIdleMs: 100 });
    const [partial, busy] = [await Wire.open(t, port), await Wire.open(t, port)];
    partial.write('GET /health HTTP/1.1\r\nHost:');
    busy.write(head('GET /users/1'));
    await entered;
    const closing = service.close({ timeoutMs: 600_000 });
    assert.deepEqual(await partial.end(), []);
    open();
    assert.equal((await busy.next()).status, 200);
    await closing;
  });

  it('gets a response when it completes its head in time', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 60_000 });
    const half = await Wire.open(t, port);
    half.write('GET /health HTTP/1.1\r\nHost:');
    await openIdle(t, port);
    const closing = service.close({ timeoutMs: 600_000 });
    await assertRefused(port);
    half.write(' x\r\n\r\n');
    const { status, headers } = await half.next();
    assert.deepEqual([status, headers['connection']], [200, 'close']);
    await service.close({ timeoutMs: 0 });
    await closing;
  });

  it('is kept while the rest of a body arrives after its response', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 0 });
    const wire = await Wire.open(t, port);
    wire.write(head('GET /health', 'Content-Length: 3'), 'a');
    assert.equal((await wire.next()).headers['connection'], 'keep-alive');
    const idle = await openIdle(t, port);
    const closing = service.close({ timeoutMs: 600_000 });
    // The service closes idle connections in the order in which they were opened.
    await idle.end();
    assert.equal(wire.socket.readableEnded, false, 'the connection was closed before the end of the body');
    wire.write('bc');
    assert.deepEqual(await wire.end(), []);
    assert.equal(wire.wasReset, false);
    await closing;
  });

  it('is kept after a malformed request until its client has had time to read the error', async (t) => {
    const { service, port } = await startService(t, { drainIdleMs: 0 });
    const accepted: Socket[] = [];
    const accept = (message: unknown) => accepted.push((message as { socket: Socket }).socket);
    subscribe('net.server.socket', accept);
    t.after(() => unsubscribe('net.server.socket', accept));
    const wire = await Wire.open(t, port);
    wire.write('FOO\r\n');
    assert.equal((await wire.next()).status, 501);
    const idle = await openIdle(t, port);
    const closing = service.close({ timeoutMs: 600_000 });
    // The service closes idle connections in the order in which they were opened.
    await idle.end();
    assert.equal(accepted[0]?.destroyed, false);
    wire.socket.end();
    await closing;
  });

  it('is closed soon after a response that started without Connection: close', async (t) => {
    const repository = await storeOfManyPosts();
    const { service, port } = await startService(t, { repository, drainIdleMs: 0 });
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(head('GET /users/1/posts'));
    await once(socket, 'readable');
    const closing = service.close({ timeoutMs: 60_000 });
    await assertRefused(port);
    const startedAt = performance.now();
    const text = Buffer.concat(await socket.toArray()).toString('latin1');
    assert.match(text, /^HTTP\/1.1 200 OK\r\n/);
    assert.doesNotMatch(text, /^connection: close\r$/im);
    assert.ok(text.endsWith(']\r\n0\r\n\r\n'), 'the response is not complete');
    await closing;
    const took = performance.now() - startedAt;
    assert.ok(took < 30_000, `${took} ms`);
  });
});

describe('while it drains', () => {
  it('requests are served, but both APIs report that the service is not ready', async (t) => {
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
    // A second call shortens a drain of one minute.
    assert.ok((await measure(() => service.close({ timeoutMs: 0 }))) < 20_000);
    await closing;
  });

  it('a second close without timeoutMs has no effect', async (t) => {
    const { service, port } = await startService(t, { drainDelayMs: 60_000 });
    const timeout = t.mock.method(AbortSignal, 'timeout');
    const closing = [service.close({ timeoutMs: 60_000 }), service.close()];
    assert.equal(timeout.mock.callCount(), 0, 'the second call has a deadline');
    const wire = await openIdle(t, port);
    wire.write(head('GET /health'));
    assert.notEqual((await wire.next()).headers['connection'], 'close');
    await service.close({ timeoutMs: 0 });
    await Promise.all(closing);
  });
});

describe('connections that wait to be accepted when the service closes', () => {
  // An empty SETTINGS frame. The server sends a short one of its own.
  const preface = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${'\0\0\0\x04'.padEnd(9, '\0')}`;
  for (const [face, sent, answer] of [
    ['HTTP', head('GET /health'), 'HTTP/1.1 200 '],
    ['gRPC', preface, '\0\0'],
  ] as const) {
    it(`are all served over ${face}`, async (t) => {
      const { service, port, grpc } = await startService(t, { grpcPort: 0, drainIdleMs: 60_000 });
      const replies = connectWhileBusy(face === 'HTTP' ? port : Number(grpc.split(':')[1]), 10, sent);
      await service.close({ timeoutMs: 60_000 });
      for (const reply of await replies) assert.ok(reply.startsWith(answer), reply);
    });
  }

  for (const [what, waiting, signal, accepted] of [
    ['are all accepted', 5, new AbortController().signal, 5],
    ['are accepted up to 1,000 of a flood', 3_000, new AbortController().signal, 1_000],
    ['are not accepted after the deadline', 5, AbortSignal.abort(), 0],
  ] as const) {
    it(what, async () => {
      const server = new Server();
      let count = 0;
      const accept = (): void => {
        count += 1;
        server.emit('connection');
        if (count < waiting) setImmediate(accept);
      };
      // The first turn of the event loop has accepted its connection before.
      setImmediate(() => setImmediate(accept));
      await acceptWaiting(server, signal);
      assert.equal(count, accepted);
      assert.equal(server.listenerCount('connection'), 0);
    });
  }

  it('are left to the other processes that accept them', async () => {
    const server = new Server();
    let turns = 0;
    await acceptWaiting(server, new AbortController().signal, async () => {
      turns += 1;
      server.emit('connection');
      return false;
    });
    assert.equal(turns, 1);
  });

  it('are waited for during a few turns of the event loop if there are none', async () => {
    let turns = 0;
    let next = setImmediate(function count() {
      turns += 1;
      next = setImmediate(count);
    });
    await acceptWaiting(new Server(), new AbortController().signal);
    clearImmediate(next);
    assert.ok(turns < 10, `${turns} turns`);
  });
});

describe('gRPC when the service closes', () => {
  it('a running call is completed, and a new one is rejected', async (t) => {
    const { service, grpc, entered, open } = await startGated(t, { grpcPort: 0 });
    const client = usersClient(t, grpc);
    const call = getUser(client, 1);
    await entered;
    const closing = service.close({ timeoutMs: 60_000 });
    await assertRefused(Number(grpc.split(':')[1]));
    open();
    assert.equal((await call).user?.name, 'Ada');
    await closing;
    assert.equal((await getUser(client, 1)).code, status.UNAVAILABLE);
  });

  it('an endless call, an idle session and a silent socket are closed at the deadline at the latest', async (t) => {
    const { service, grpc, entered } = await startGated(t, { grpcPort: 0 });
    const call = getUser(usersClient(t, grpc), 1);
    await entered;
    const session = connectHttp2(`http://${grpc}`);
    await once(session, 'connect');
    const silent = connect(Number(grpc.split(':')[1]), '127.0.0.1');
    await once(silent, 'connect');
    const gone = Promise.all([once(session, 'close'), once(silent.resume(), 'close')]);
    const took = await measure(() => service.close({ timeoutMs: 500 }));
    assert.ok(took < 30_000, `${took} ms`);
    assert.notEqual((await call).code, status.OK);
    await gone;
  });
});

describe('a connection that never ends its request', () => {
  it('is closed at the deadline, and no handle is left', async (t) => {
    // The connections of the earlier tests may still be closing.
    await until(() => openHandles().length === 0, 'no handle is open');
    const { service, port } = await startService(t);
    const leak = connect(port, '127.0.0.1')
      .on('error', () => undefined)
      .resume();
    const { promise: gone, resolve } = Promise.withResolvers<void>();
    leak.once('close', () => resolve());
    leak.write(
      'POST /users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    );
    const idle = await openIdle(t, port);
    // One handle for the server, and two for each connection.
    assert.equal(openHandles().length, 5);
    const took = await measure(() => service.close({ timeoutMs: 300 }));
    assert.ok(took >= 290 && took < 30_000, `${took} ms`);
    await Promise.all([gone, idle.end()]);
    await until(() => openHandles().length === 0, 'no handle is left');
  });

  it('is reported with the status 499, not as a failure', async (t) => {
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

// Runs in its own thread, and posts what each connection has received, or the code of its error.
const clientsSource = `
  const { connect } = require('node:net');
  const { parentPort, workerData: { port, count, sent, connected } } = require('node:worker_threads');
  const replies = Array.from({ length: count }, () => new Promise((resolve) => {
    let reply = '';
    connect(port, '127.0.0.1')
      .once('connect', function () {
        this.write(sent, () => {
          Atomics.add(connected, 0, 1);
          Atomics.notify(connected, 0);
        });
      })
      .setEncoding('latin1')
      .on('data', (text) => { reply += text; })
      .on('error', ({ code }) => { reply = code; })
      .once('close', () => resolve(reply));
  }));
  Promise.all(replies).then((all) => parentPort.postMessage(all));
`;

/** Blocks this thread until `count` clients have connected and sent a text. Returns the promise of their replies. */
async function connectWhileBusy(port: number, count: number, sent: string): Promise<readonly string[]> {
  const connected = new Int32Array(new SharedArrayBuffer(4));
  const clients = new Worker(clientsSource, { eval: true, workerData: { port, count, sent, connected } });
  for (let seen = 0; seen < count; seen = Atomics.load(connected, 0))
    assert.notEqual(Atomics.wait(connected, 0, seen, 30_000), 'timed-out');
  const [replies] = await once(clients, 'message');
  return replies;
}

/** The sockets and servers that keep this process alive. */
function openHandles(): string[] {
  return process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP'));
}

/** Resolves when new connections are refused: the port is closed. */
async function assertRefused(port: number): Promise<void> {
  const isRefused = async () => {
    const socket = connect(port, '127.0.0.1');
    const refused = await once(socket, 'connect').then(
      () => false,
      () => true,
    );
    socket.on('error', () => undefined).destroy();
    return refused;
  };
  await until(isRefused, 'the port refuses connections');
}

/** A memory store whose user 1 has more posts than the buffers of a connection hold. */
async function storeOfManyPosts(): Promise<Repository> {
  const store = createMemoryStore();
  await store.users.create({ name: 'Ada' });
  const body = 'x'.repeat(10_000);
  for (let n = 0; n < 1_500; n += 1) await store.posts(1).create({ title: `${n}`, body });
  return store;
}
