import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { constants, type OutgoingHttpHeaders, sensitiveHeaders } from 'node:http2';
import { type TestContext, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { until } from '../kit/until.ts';
import {
  callWire,
  connectFrames,
  connectWire,
  dataFrame,
  framed,
  headersFrame,
  resetFrame,
  roundTrip,
} from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

const one = Uint8Array.of(8, 1);
const check = '/grpc.health.v1.Health/Check';
const watch = '/grpc.health.v1.Health/Watch';
const reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
const users = '/Users/GetUser';

async function start(t: TestContext, repository = createMemoryStore()) {
  await repository.users.create({ name: 'Ann' });
  const running = await startService(t, { repository, grpcPort: 0 });
  const calls = () =>
    running.events.filter(
      (event): event is RequestEvent => event.type === 'request' && event.face === 'grpc',
    );
  return { ...running, calls };
}

const tooMuch = Buffer.concat([framed(one), framed(new Uint8Array(65_537))]);
const cases: readonly [what: string, path: string, body: Uint8Array, code: status][] = [
  ['with a response', users, framed(one), status.OK],
  ['for a missing user', users, framed(Uint8Array.of(8, 9)), status.NOT_FOUND],
  ['without a message', users, new Uint8Array(), status.UNIMPLEMENTED],
  ['with two messages', users, Buffer.concat([framed(one), framed(one)]), status.UNIMPLEMENTED],
  ['with too long a message', users, framed(new Uint8Array(65_537)), status.RESOURCE_EXHAUSTED],
  ['with a malformed message', users, framed(Uint8Array.of(8, 0x80)), status.INTERNAL],
  ['whose message is falsely marked as compressed', users, framed(one, 1), status.UNIMPLEMENTED],
  ['for a health check', check, framed(new Uint8Array()), status.OK],
  ['for the health of an unknown service', check, framed(Buffer.from('\n\x03abc')), status.NOT_FOUND],
  ['for the list of services', reflection, framed(Buffer.from(':\0')), status.OK],
  ['with a valid message and one that is too long', users, tooMuch, status.RESOURCE_EXHAUSTED],
];
for (const [what, path, body, code] of cases) {
  test(`a gRPC call ${what} is reported once, with its status and the request id of its trailer`, async (t) => {
    const { grpc, calls } = await start(t);
    const session = await connectWire(t, grpc);
    const headers = body[0] === 1 ? { 'grpc-encoding': 'snappy' } : {};
    const answer = await callWire(session, path, body, headers);
    assert.equal(answer.code, code);
    assert.equal({ ...answer.headers, ...answer.trailers }['x-request-id'], calls()[0]?.id);
    // A second event for the first call would arrive before the event of this call.
    assert.equal((await getUser(usersClient(t, grpc), 1)).code, status.OK);
    assert.deepEqual(
      calls().map((event) => [event.path, event.status, event.route]),
      [
        [path, code, path],
        [users, status.OK, users],
      ],
    );
  });
}

test('a gRPC call whose deadline passes in the store is reported once', async (t) => {
  const repository = createMemoryStore();
  const find = repository.users.get.bind(repository);
  let asked = 0;
  repository.users.get = async (wanted, options) => {
    asked += 1;
    if (asked === 1) await new Promise((resolve) => options?.signal?.addEventListener('abort', resolve));
    return await find(wanted, options);
  };
  const { grpc, calls } = await start(t, repository);
  const session = await connectWire(t, grpc);
  const answer = await callWire(session, users, framed(one), { 'grpc-timeout': '100m' });
  assert.equal(answer.code, status.DEADLINE_EXCEEDED);
  assert.equal((await getUser(usersClient(t, grpc), 1)).code, status.OK);
  const statuses = calls().map((event) => event.status);
  assert.deepEqual(statuses, [status.DEADLINE_EXCEEDED, status.OK]);
});

const unfinished: readonly [what: string, path: string, headers: OutgoingHttpHeaders, code: status][] = [
  ['whose deadline passes during its request', users, { 'grpc-timeout': '100m' }, status.DEADLINE_EXCEEDED],
  ['that arrives after its deadline', users, { 'grpc-timeout': '0n' }, status.DEADLINE_EXCEEDED],
  ['that its client cancels before its request is complete', users, {}, status.CANCELLED],
  ['that watches the health until its client cancels it', watch, {}, status.CANCELLED],
];
for (const [what, path, headers, code] of unfinished) {
  test(`a gRPC call ${what} is reported once, with its status`, async (t) => {
    const { grpc, calls } = await start(t);
    const session = await connectWire(t, grpc);
    const fields = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
    const stream = session.request({ ...fields, ...headers }).on('error', () => undefined);
    const closed = once(stream.resume(), 'close');
    if (path === watch) {
      stream.end(framed(new Uint8Array()));
      await once(stream, 'response');
    } else {
      stream.write(framed(one));
    }
    // A call that is cancelled in its first packet never starts.
    await new Promise((resolve) => session.ping(resolve));
    if (code === status.CANCELLED) stream.close(constants.NGHTTP2_CANCEL);
    else await once(stream, 'response');
    stream.end();
    await closed;
    await until(() => calls().length > 0, 'the call is reported');
    // A second event for the first call would arrive before the event of this call.
    await getUser(usersClient(t, grpc), 9);
    const ends = calls().filter((event) => event.status !== status.NOT_FOUND);
    const outcomes = ends.map((event) => [event.path, event.status]);
    assert.deepEqual(outcomes, [[path, code]]);
  });
}

for (const bytes of [0, 6, 7]) {
  for (const end of ['reset', 'reset without an error', 'cut off']) {
    test(`a gRPC call that is ${end} after ${bytes} of 7 bytes does not reach the store, and is reported as CANCELLED`, async (t) => {
      const repository = createMemoryStore();
      const get = t.mock.method(repository.users, 'get');
      const { grpc, calls } = await start(t, repository);
      const client = await connectFrames(t, grpc);
      client.write(headersFrame(1, users));
      client.write(dataFrame(1, framed(Uint8Array.of(8, 9)).subarray(0, bytes)));
      await roundTrip(client);
      if (end === 'reset') client.write(resetFrame(1));
      else if (end === 'reset without an error') client.write(resetFrame(1, constants.NGHTTP2_NO_ERROR));
      else client.destroy();
      await until(() => calls().length > 0, 'the call is reported');
      const statuses = calls().map((event) => event.status);
      assert.deepEqual(statuses, [status.CANCELLED]);
      assert.equal(get.mock.callCount(), 0);
    });
  }
}

test('a gRPC call that is reset in its first packet is reported once, as CANCELLED', async (t) => {
  const { grpc, calls } = await start(t);
  const client = await connectFrames(t, grpc);
  client.write(Buffer.concat([headersFrame(1, users), resetFrame(1)]));
  await roundTrip(client);
  // A second event for the first call would arrive before the event of this call.
  assert.equal((await getUser(usersClient(t, grpc), 1)).code, status.OK);
  const outcomes = calls().map((event) => `${event.path} ${event.status}`);
  assert.deepEqual(outcomes, [`${users} ${status.CANCELLED}`, `${users} ${status.OK}`]);
});

const connect = { ':method': 'CONNECT', ':authority': 'users', ':path': undefined };
const rejected = [
  ['an unknown method', '/Users/ListUsers', {}, status.UNIMPLEMENTED],
  ['an unknown method with a long name', `/${'x'.repeat(8_000)}`, {}, status.UNIMPLEMENTED],
  ['another media type', users, { 'content-type': 'application/json' }, status.UNKNOWN],
  ['an invalid media type', users, { 'content-type': 'application/grpc+\xe9' }, status.UNKNOWN],
  ['a query, which may contain names', '/users?name=Ada', {}, status.UNIMPLEMENTED],
  ['no path', '', { ...connect, 'content-type': 'application/json' }, status.UNKNOWN],
] as const;
for (const [what, path, headers, code] of rejected) {
  test(`a gRPC call with ${what} is rejected with its request id, and reported without a route`, async (t) => {
    const { grpc, calls } = await start(t);
    const session = await connectWire(t, grpc);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const sent = { ...headers, 'x-request-id': 'mine', traceparent };
    const answer = await callWire(session, path, framed(one), sent);
    assert.equal(answer.headers['x-request-id'], 'mine');
    if (code === status.UNIMPLEMENTED) {
      assert.equal(answer.details, `The server does not implement the method ${path}`);
    }
    assert.equal((await getUser(usersClient(t, grpc), 1)).code, status.OK);
    assert.deepEqual(
      calls().map((event) => [event.path, event.status, event.route, event.traceparent]),
      [
        [path.replace('?name=Ada', ''), code, undefined, traceparent],
        [users, status.OK, users, undefined],
      ],
    );
  });
}

test('a CONNECT, which has no path, and an unknown method that is reset at once do not disturb other calls', async (t) => {
  const { grpc } = await start(t);
  const session = await connectWire(t, grpc);
  const head = { ':method': 'CONNECT', ':authority': 'host:80', 'content-type': 'application/grpc' };
  await once(session.request(head).resume().end(), 'close');
  const client = await connectFrames(t, grpc);
  client.write(Buffer.concat([headersFrame(1, '/Users/Unknown'), resetFrame(1)]));
  await roundTrip(client);
  assert.equal((await callWire(session, users, framed(one))).code, status.OK);
});

test('every gRPC call is reported with the request id and trace context of its client', async (t) => {
  const { grpc, calls } = await start(t);
  const session = await connectWire(t, grpc);
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const rows = [
    ['answered', users, framed(one)],
    ['too-long', users, framed(new Uint8Array(65_537))],
    ['health', check, framed(new Uint8Array())],
  ] as const;
  for (const [id, path, body] of rows) {
    await callWire(session, path, body, { 'x-request-id': id, traceparent });
  }
  const traces = calls().map((event) => [event.id, event.traceparent]);
  const sent = rows.map(([id]) => [id, traceparent]);
  assert.deepEqual(traces, sent);
});

test('a gRPC call without a valid request id is reported with the id that its client receives', async (t) => {
  const { grpc, calls } = await start(t);
  const session = await connectWire(t, grpc);
  const { trailers } = await callWire(session, users, framed(one), { 'x-request-id': 'not valid!' });
  assert.match(String(trailers['x-request-id']), /^[\w-]+$/);
  assert.equal(calls()[0]?.id, trailers['x-request-id']);
});

test('header compression keeps no request id of the gRPC API, so that its table stays short', async (t) => {
  const { grpc } = await start(t);
  const session = await connectWire(t, grpc);
  const found = await callWire(session, users, framed(one));
  assert.deepEqual(Reflect.get(found.trailers, sensitiveHeaders), ['x-request-id']);
  const missing = await callWire(session, users, framed(Uint8Array.of(8, 9)));
  assert.deepEqual(Reflect.get(missing.headers, sensitiveHeaders), ['x-request-id']);
});

test('the gRPC API uses no private member of grpc-js, except the one that its credentials must have', () => {
  const folder = new URL('../../src/grpc/', import.meta.url);
  // Those of the streams of Node.js are documented for classes that extend them.
  const known = ['_equals', '_read', '_writev', '_final', '_destroy'];
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ts'))) {
    const names = readFileSync(new URL(file, folder), 'utf8').match(/\b_\w+/g) ?? [];
    const unknown = names.filter((name) => !known.includes(name));
    assert.deepEqual(unknown, [], file);
  }
});
