import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { Server, status } from '@grpc/grpc-js';
import { readOptions } from '../../src/config.ts';
import { Access } from '../../src/domain/access.ts';
import { DomainError } from '../../src/domain/errors.ts';
import type { Repository } from '../../src/domain/repository.ts';
import { GrpcServer } from '../../src/grpc/server.ts';
import { openPort } from '../../src/service/ports.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { createCertificate } from '../support/certificate.ts';
import { callWire, framed } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

type GetUser = Repository['users']['get'];
const ann = { id: 1, name: 'Ann', version: 1 };

/** A thenable that breaks the rules of promises. */
function thenable(
  then: (resolve: (value: unknown) => void, reject: (error: unknown) => void) => void,
): GetUser {
  return (() => ({ then })) as unknown as GetUser;
}

// On most of these, grpc-js alone would never end the call, or would end the process.
const misbehaviours: readonly [what: string, getUser: GetUser, code: status, failures: number][] = [
  ['rejects', () => Promise.reject(new Error('secret')), status.INTERNAL, 1],
  [
    'throws synchronously',
    () => {
      throw new Error('secret');
    },
    status.INTERNAL,
    1,
  ],
  ['rejects with undefined', () => Promise.reject(undefined), status.INTERNAL, 1],
  [
    'rejects with a gRPC status',
    () => Promise.reject(Object.assign(new Error('secret'), { code: 5, details: 'secret' })),
    status.INTERNAL,
    1,
  ],
  ['resolves to null', async () => null as never, status.INTERNAL, 1],
  [
    'resolves twice',
    thenable((resolve) => {
      resolve(ann);
      resolve({ ...ann, name: 'Bob' });
    }),
    status.OK,
    0,
  ],
  [
    'throws after it has resolved',
    thenable((resolve) => {
      resolve(ann);
      throw new Error('secret');
    }),
    status.OK,
    0,
  ],
  [
    'rejects after it has resolved',
    thenable((resolve, reject) => {
      resolve(ann);
      reject(new Error('secret'));
    }),
    status.OK,
    0,
  ],
  [
    'resolves after it has rejected',
    thenable((resolve, reject) => {
      reject(new Error('secret'));
      resolve(ann);
    }),
    status.INTERNAL,
    1,
  ],
  [
    'returns a name that is too long for a message',
    async () => ({ ...ann, name: 'x'.repeat(70_000) }),
    status.RESOURCE_EXHAUSTED,
    0,
  ],
  [
    'rejects with a message that ends within a character',
    () => Promise.reject(new DomainError('conflict', '\u{1f600}'.slice(0, 1))),
    status.ABORTED,
    0,
  ],
];
for (const [what, find, code, failed] of misbehaviours) {
  test(`a call whose store ${what} ends once and soon with ${status[code]}, and the next call succeeds`, async (t) => {
    const repository = createMemoryStore();
    repository.users.get = find;
    const options = { repository, grpcPort: 0, expectFailures: true };
    const { grpc, failures, events } = await startService(t, options);
    const client = usersClient(t, grpc);
    await getUser(client, 1, { metadata: { 'x-request-id': 'warm-up' } });
    const before = failures().length;

    const startedAt = performance.now();
    const outcome = await getUser(client, 1, {
      deadline: Date.now() + 30_000,
      metadata: { 'x-request-id': 'r' },
    });
    assert.ok(performance.now() - startedAt < 20_000, 'the call took too long');
    assert.equal(outcome.code, code);
    assert.doesNotMatch(`${outcome.details}${JSON.stringify(outcome.trailer)}`, /secret/);
    assert.equal(failures().length - before, failed);
    if (failed > 0) assert.deepEqual([failures().at(-1)?.where, failures().at(-1)?.requestId], ['grpc', 'r']);

    repository.users.get = async () => ann;
    assert.deepEqual((await getUser(client, 1)).user, { id: 1, name: 'Ann' });
    assert.equal(events.filter(({ type }) => type === 'request').length, 3, 'one event a call');
  });
}

const pushbacks: readonly [name: string, error: DomainError, pushbackMs: string | undefined][] = [
  ['a client may retry an overloaded call after a second', new DomainError('overloaded', 'busy'), '1000'],
  ['a client may retry an unavailable call after a second', new DomainError('unavailable', 'away'), '1000'],
  [
    'a client may not retry an unavailable call that can never succeed',
    new DomainError('unavailable', 'gone', { isFinal: true }),
    '-1',
  ],
  ['a call with another error has no pushback', new DomainError('conflict', 'changed'), undefined],
];
for (const [name, error, pushbackMs] of pushbacks) {
  test(name, async (t) => {
    const repository = createMemoryStore();
    repository.users.get = () => Promise.reject(error);
    const { grpc } = await startService(t, { repository, grpcPort: 0, expectFailures: true });
    const { trailer } = await getUser(usersClient(t, grpc), 1);
    assert.equal(trailer['grpc-retry-pushback-ms'], pushbackMs);
  });
}

const serverOptions = {
  repository: createMemoryStore(),
  access: new Access('none', []),
  gate: { inFlight: 0, maxInFlight: 0 },
  limits: readOptions({}).grpcLimits,
  maxConnections: 0,
  pacer: { admit: () => true, pause: async () => undefined },
};

test('a connection ends with a failure when its server cannot be created, and the next one tries again', async (t) => {
  const events: ServiceEvent[] = [];
  const cause = new Error('a module is missing');
  const limits = t.mock.fn(() => readOptions({}).grpcLimits);
  limits.mock.mockImplementationOnce(() => {
    throw cause;
  });
  const options = {
    ...serverOptions,
    observe: (event: ServiceEvent) => events.push(event),
    get limits() {
      return limits();
    },
  };
  const server = new GrpcServer(options);
  const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
  const before = timers();
  server.setServing(false);
  assert.equal(timers(), before, 'a service that ends does not load grpc-js');
  const { port } = await openPort('grpcPort', '127.0.0.1', 0, server.server);
  t.after(() => server.close({ idleMs: 0, signal: AbortSignal.abort() }));
  const closed = once(connect(port).resume(), 'close');
  await once(server.server, 'connection');
  // While grpc-js is loaded.
  server.setServing(true);
  await closed;
  assert.deepEqual(events, [{ type: 'failure', where: 'grpc', cause }]);
  const client = usersClient(t, `127.0.0.1:${port}`);
  assert.equal((await getUser(client, 1)).code, status.NOT_FOUND);
  server.server.emit('error', cause);
  assert.deepEqual(events.at(-1), { type: 'failure', where: 'grpc', cause }, 'an error of the open port');
});

test('a server that closes soon after its start does not load grpc-js', async () => {
  const server = new GrpcServer({ ...serverOptions, observe: () => undefined });
  await openPort('grpcPort', '127.0.0.1', 0, server.server);
  const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
  const before = timers();
  server.setServing(true);
  const isLoadingLater = timers() > before;
  const closed = server.close({ idleMs: 0, signal: new AbortController().signal });
  assert.deepEqual([isLoadingLater, timers()], [true, before]);
  await closed;
});

test('a server whose creation fails while it closes is closed in order', async () => {
  const cause = new Error('a module is missing');
  const events: ServiceEvent[] = [];
  const server = new GrpcServer({
    ...serverOptions,
    observe: (event) => events.push(event),
    tls() {
      throw cause;
    },
  });
  const { port } = await openPort('grpcPort', '127.0.0.1', 0, server.server);
  connect(port).resume();
  await once(server.server, 'connection');
  await server.close({ idleMs: 0, signal: new AbortController().signal });
  assert.deepEqual(events, [{ type: 'failure', where: 'grpc', cause }]);
});

for (const [idleMs, isClosed] of [
  [0, true],
  [600_000, false],
] as const) {
  test(`a connection before its TLS handshake is ${isClosed ? 'closed' : 'open'} 50 ms after close with ${idleMs} ms for it`, async (t) => {
    const accepted = Promise.withResolvers<void>();
    const tls = () => {
      accepted.resolve();
      return createCertificate();
    };
    const server = new GrpcServer({ ...serverOptions, observe: () => undefined, tls });
    const { port } = await openPort('grpcPort', '127.0.0.1', 0, server.server);
    connect(port).resume();
    const [socket] = await once(server.server, 'connection');
    await accepted.promise;
    t.mock.timers.enable({ apis: ['setInterval'] });
    const closed = server.close({ idleMs, signal: t.signal });
    await setImmediate();
    t.mock.timers.tick(50);
    assert.equal(socket.destroyed, isClosed);
    socket.destroy();
    await closed;
  });
}

test('a connection that is reset while grpc-js is loaded does not reach it, and does not end the process', async (t) => {
  const injectConnection = t.mock.fn((connection: Duplex) => void connection.end('served'));
  const injector = { injectConnection, drain() {}, destroy() {} };
  t.mock.method(Server.prototype, 'createConnectionInjector', () => injector);
  const events: ServiceEvent[] = [];
  const observe = (event: ServiceEvent) => void events.push(event);
  const server = new GrpcServer({ ...serverOptions, observe });
  const { port } = await openPort('grpcPort', '127.0.0.1', 0, server.server);
  t.after(() => server.close({ idleMs: 0, signal: AbortSignal.abort() }));
  // Its error is emitted before any promise of this turn resolves.
  server.server.once('connection', (socket: Socket) => socket.destroy(new Error('reset')));
  await once(connect(port).resume(), 'close');
  assert.equal(await text(connect(port)), 'served');
  assert.equal(injectConnection.mock.callCount(), 1);
  assert.deepEqual(events, []);
});

test('a gRPC connection whose handshake ends during a stop may be used for the idle time, and is then asked to close', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const certificate = createCertificate();
  const server = new GrpcServer({ ...serverOptions, observe: () => undefined, tls: () => certificate });
  const { port } = await openPort('grpcPort', '127.0.0.1', 0, server.server);
  const socket = connect(port);
  await once(server.server, 'connection');
  t.mock.timers.enable({ apis: ['setInterval'] });
  const closed = server.close({ idleMs: 600_000, signal: t.signal });
  const session = connectHttp2('https://localhost', {
    createConnection: () => connectTls({ socket, ALPNProtocols: ['h2'], rejectUnauthorized: false }),
  });
  t.after(() => session.destroy());
  await once(session, 'remoteSettings');
  const goaway = once(session, 'goaway');
  now = 599_999;
  t.mock.timers.tick(50);
  const { code } = await callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
  assert.equal(code, status.NOT_FOUND);
  // A frame that was sent before the response has arrived before it.
  assert.equal(session.closed, false);
  now = 600_000;
  t.mock.timers.tick(50);
  await goaway;
  await closed;
});
