import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { RequestEvent, ServiceEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { fetch } from '../support/fetch.ts';
import { callWire, connectWire, framed } from '../support/grpc-wire.ts';
import { type StartOptions, startService } from '../support/service.ts';

async function startWithAnn(t: TestContext, options: StartOptions = {}) {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ann', role: 'admin' });
  await repository.importRows('users', [{ id: 2 ** 31 - 1, name: 'the last', version: 1 }]);
  const service = await startService(t, { repository, grpcPort: 0, ...options });
  const requests = () => service.events.filter((event): event is RequestEvent => event.type === 'request');
  return { ...service, requests };
}

const positive = 'id must be a positive integer';
const calls: readonly [id: number | undefined, code: status, details: string, name?: string][] = [
  [1, status.OK, 'OK', 'Ann'],
  [2 ** 31 - 1, status.OK, 'OK', 'the last'],
  [2, status.NOT_FOUND, 'user 2 not found'],
  [2 ** 31 - 2, status.NOT_FOUND, 'user 2147483646 not found'],
  [0, status.INVALID_ARGUMENT, positive],
  [undefined, status.INVALID_ARGUMENT, positive],
  [-1, status.INVALID_ARGUMENT, positive],
  [-(2 ** 31), status.INVALID_ARGUMENT, positive],
];
for (const [id, code, details, name] of calls) {
  test(`GetUser with the id ${id} returns ${status[code]}`, async (t) => {
    const { grpc, requests } = await startWithAnn(t);
    const sentAt = performance.now();
    const outcome = await getUser(usersClient(t, grpc), id, { metadata: { 'x-request-id': 'r-1' } });
    assert.deepEqual([outcome.code, outcome.details], [code, details]);
    assert.deepEqual(outcome.user, name === undefined ? undefined : { id, name });
    assert.equal(outcome.trailer['x-request-id'], 'r-1');
    const [event] = requests();
    const fields = [event?.face, event?.id, event?.route, event?.path, event?.status];
    assert.deepEqual(fields, ['grpc', 'r-1', '/Users/GetUser', '/Users/GetUser', code]);
    const { durationMs = -1 } = event ?? {};
    assert.ok(durationMs >= 0 && durationMs <= performance.now() - sentAt);
  });
}

// The bytes of the contract, written without a library.
const ann = Buffer.from([0x08, 1, 0x12, 3, 0x41, 0x6e, 0x6e]);
const requests: readonly [what: string, bytes: readonly number[], code: status, answer?: Buffer][] = [
  ['id 1', [0x08, 1], status.OK, ann],
  ['id 1 in more bytes than it needs', [0x08, 0x81, 0x80, 0x80, 0x00], status.OK, ann],
  ['a repeated id, of which the last counts', [0x08, 7, 0x08, 1], status.OK, ann],
  ['fields of a later version', [0x12, 1, 0x78, 0x08, 1, 0x18, 5, 0x25, 0, 0, 0, 0], status.OK, ann],
  ['2^32 + 1, of which int32 takes the low 32 bits', [0x08, 0x81, 0x80, 0x80, 0x80, 0x10], status.OK, ann],
  ['an empty message', [], status.INVALID_ARGUMENT],
  [
    '-1 in ten bytes',
    [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    status.INVALID_ARGUMENT,
  ],
  ['2^31, which int32 reads as negative', [0x08, 0x80, 0x80, 0x80, 0x80, 0x08], status.INVALID_ARGUMENT],
];
for (const [what, bytes, code, answer] of requests) {
  test(`a GetUser request with ${what} returns ${status[code]}`, async (t) => {
    const { grpc } = await startWithAnn(t);
    const session = await connectWire(t, grpc);
    const outcome = await callWire(session, '/Users/GetUser', framed(Uint8Array.from(bytes)));
    assert.deepEqual([outcome.httpStatus, outcome.code], [200, code]);
    assert.deepEqual(outcome.messages, answer === undefined ? [] : [answer], 'only id and name');
    assert.match(String(outcome.headers['content-type']), /^application\/grpc/);
    assert.match(String({ ...outcome.headers, ...outcome.trailers }['x-request-id']), /^[\w.-]+$/);
  });
}

test('the gRPC API returns each change of the HTTP API at once', async (t) => {
  const { http, grpc } = await startService(t, { grpcPort: 0 });
  const client = usersClient(t, grpc);
  const change = async (method: string, path: string, body?: object) => {
    await fetch(`${http}${path}`, {
      method,
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    return (await getUser(client, 1)).user?.name;
  };
  assert.equal(await change('POST', '/users', { name: 'Ann' }), 'Ann');
  assert.equal(await change('PATCH', '/users/1', { name: 'Anna' }), 'Anna');
  assert.equal(await change('PUT', '/users/1', { name: 'Bea' }), 'Bea');
  assert.equal(await change('DELETE', '/users/1'), undefined);
});

test('gRPC calls beyond maxInFlight return RESOURCE_EXHAUSTED until earlier calls have ended', async (t) => {
  const repository = createMemoryStore();
  const held = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  let running = 0;
  repository.users.get = async (id) => {
    running += 1;
    if (running === 2) began.resolve();
    await held.promise;
    return { id, name: 'late', version: 1 };
  };
  const options = { repository, limits: { maxInFlight: 2 }, expectFailures: true };
  const { http, grpc, requests } = await startWithAnn(t, options);
  const client = usersClient(t, grpc);
  const slow = [getUser(client, 1), getUser(client, 2)];
  await began.promise;
  const { code, details } = await getUser(client, 3);
  assert.deepEqual([code, details], [status.RESOURCE_EXHAUSTED, 'too many requests are under way']);
  const inFlight = async () =>
    /in_flight\{face="grpc"\} (\d+)/.exec(await (await fetch(`${http}/metrics`)).text())?.[1];
  assert.equal(await inFlight(), '2');
  held.resolve();
  for (const outcome of await Promise.all(slow)) assert.equal(outcome.code, status.OK);
  assert.equal((await getUser(client, 4)).code, status.OK);
  assert.equal(await inFlight(), '0');
  const statuses = requests()
    .filter(({ face }) => face === 'grpc')
    .map((event) => event.status);
  assert.deepEqual(statuses.sort(), [0, 0, 0, 8]);
});

test('a client with a retry policy repeats a call that was rejected as overloaded a second later', async (t) => {
  const repository = createMemoryStore();
  const held = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  repository.users.get = async (id) => {
    began.resolve();
    await held.promise;
    return { id, name: 'late', version: 1 };
  };
  const observe = (event: ServiceEvent): void => {
    if (event.type === 'request' && event.status === status.RESOURCE_EXHAUSTED) held.resolve();
  };
  const limits = { maxInFlight: 1 };
  const { grpc } = await startWithAnn(t, { repository, limits, observe, expectFailures: true });
  const backoff = { initialBackoff: '0.001s', maxBackoff: '0.001s', backoffMultiplier: 1 };
  const retryPolicy = { maxAttempts: 2, ...backoff, retryableStatusCodes: ['RESOURCE_EXHAUSTED'] };
  const methodConfig = [{ name: [{ service: 'Users' }], retryPolicy }];
  const client = usersClient(t, grpc, { 'grpc.service_config': JSON.stringify({ methodConfig }) });
  const first = getUser(client, 1);
  await began.promise;
  const startedAt = performance.now();
  assert.equal((await getUser(client, 2)).user?.name, 'late');
  const ms = performance.now() - startedAt;
  assert.ok(ms >= 900, `${ms.toFixed()} ms`);
  assert.equal((await first).code, status.OK);
});

test('with grpcPort false no gRPC port is open, and the listening event has none', async (t) => {
  const { grpc, events } = await startService(t, { grpcPort: false });
  assert.equal(grpc, '');
  const [listening] = events;
  assert.ok(listening?.type === 'listening' && listening.grpc === undefined);
});
