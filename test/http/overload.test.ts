import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { scheduler } from '../../src/http/scheduler.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import type { RawResponse } from '../kit/raw.ts';
import { until } from '../kit/until.ts';
import { exchange, Wire } from '../kit/wire.ts';
import { gatedRepository } from '../support/gated.ts';
import { startService } from '../support/service.ts';

const limits = { maxInFlight: 2 };
const head = (line: string, headers = '') => `${line} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`;
const closing = 'Connection: close\r\n';
const json = 'Content-Type: application/json\r\nContent-Length: 14\r\n';

/** A service with maxInFlight running requests, which end when the gate opens. */
async function startFull(t: Parameters<typeof startService>[0]) {
  const { repository, open, calls } = await gatedRepository();
  // Release the requests before the service closes, because close waits for them.
  t.after(open);
  const running = await startService(t, { repository, limits, grpcPort: 0, expectFailures: true });
  const holders = Array.from({ length: limits.maxInFlight }, () =>
    exchange(running.port, head('GET /users/1', closing)),
  );
  await until(() => calls() === limits.maxInFlight, 'all running requests have reached the store');
  return { ...running, open, calls, holders };
}

async function ask(port: number, line: string, headers = '', body = ''): Promise<RawResponse> {
  const isHead = line.startsWith('HEAD');
  const [response] = await exchange(port, head(line, closing + headers) + body, { isHead });
  assert.ok(response !== undefined, `${line} got no response`);
  return response;
}

async function open(port: number, bytes: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

const refused: readonly [line: string, headers?: string, body?: string][] = [
  ['GET /users/1'],
  ['HEAD /users'],
  ['POST /users', json, '{"name":"Ada"}'],
  ['POST /users', `${json}Expect: 100-continue\r\n`],
];
for (const [line, headers, body] of refused) {
  test(`${line}${headers?.includes('Expect') ? ' with Expect' : ''} returns 503 beyond maxInFlight`, async (t) => {
    const { port, events } = await startFull(t);
    const response = await ask(port, line, headers, body);
    assert.deepEqual([response.status, response.headers['retry-after']], [503, '1']);
    assert.equal(response.headers['cache-control'], 'no-store');
    if (!line.startsWith('HEAD')) {
      assert.deepEqual(JSON.parse(response.body), { error: 'too many requests are under way' });
    }
    const failure = events.findLast((event) => event.type === 'failure');
    assert.equal(failure?.cause, 'maxInFlight requests are under way');
    const [method, path] = line.split(' ');
    const reported = events.findLast((event) => event.type === 'request');
    assert.deepEqual([reported?.method, reported?.path, reported?.status], [method, path, 503]);
  });
}

const answered: readonly [line: string, status: number][] = [
  ['GET /health', 200],
  ['HEAD /health', 200],
  ['GET /health/ready', 200],
  ['GET /metrics', 200],
  ['GET /', 200],
  ['GET /openapi.json', 200],
  ['OPTIONS /users', 204],
  ['GET /nowhere', 404],
  ['DELETE /users', 405],
];
test('probes, metrics, files and errors are served also beyond maxInFlight', async (t) => {
  const { port } = await startFull(t);
  for (const [line, expected] of answered) assert.equal((await ask(port, line)).status, expected, line);
  assert.equal((await ask(port, 'GET /users')).status, 503);
  const { body } = await ask(port, 'GET /metrics');
  assert.match(body, /^users_service_requests_in_flight\{face="http"\} 3$/m, 'with this request');
  assert.match(body, /^users_service_failures_total 0$/m, 'a rejected request is no failure');
});

test('probes, metrics and errors do not wait for the requests before them, but files do', async (t) => {
  const { port } = await startService(t);
  t.mock.method(scheduler, 'admit', () => false);
  const wait = t.mock.method(scheduler, 'addTask');
  const waited: string[] = [];
  for (const [line] of answered) {
    wait.mock.resetCalls();
    await ask(port, line);
    if (wait.mock.callCount() > 0) waited.push(line);
  }
  assert.deepEqual(waited, ['GET /', 'GET /openapi.json']);
});

test('a probe on a new connection gets its response before the waiting requests', async (t) => {
  const store = createMemoryStore();
  await store.users.create({ name: 'Ada' });
  const { get } = store.users;
  store.users.get = (...args) => {
    const end = performance.now() + 5;
    while (performance.now() < end);
    return get(...args);
  };
  const { port, events } = await startService(t, { repository: store });
  const ask = (path: string) => exchange(port, head(`GET ${path}`, closing));
  const ended = () => events.flatMap((event) => (event.type === 'request' ? [event.path] : []));
  const requests = Array.from({ length: 100 }, () => ask('/users/1'));
  // By now, the service has accepted all connections.
  await until(() => ended().length >= 30, 'some requests have ended');
  const before = ended().length;
  const answers = await Promise.all([ask('/health'), ...requests]);
  for (const [response] of answers) assert.equal(response?.status, 200);
  const waited = ended().indexOf('/health') - before;
  assert.ok(waited < 4, `${waited} requests ended before the probe`);
});

test('slow downloads of files do not count as requests in flight', async (t) => {
  const { repository, entered, open: release } = await gatedRepository();
  t.after(release);
  const { port } = await startService(t, { repository, limits: { maxInFlight: 1 }, expectFailures: true });
  // These clients read nothing, so more data waits than fits into the socket buffers.
  const files = await Promise.all([1, 2, 3].map(() => open(port, head('GET /openapi.json').repeat(100))));
  t.after(() => files.map((socket) => socket.destroy()));
  for (const socket of files) socket.pause();
  const admitted = exchange(port, head('GET /users/1', closing));
  await entered;
  release();
  assert.equal((await admitted)[0]?.status, 200);
});

test('after maxInFlight was reached, a new request is accepted for each one that ends', async (t) => {
  const { port, open: release, holders } = await startFull(t);
  assert.equal((await ask(port, 'GET /users')).status, 503);
  release();
  for (const [response] of await Promise.all(holders)) assert.equal(response?.status, 200);
  for (let round = 0; round < 5; round += 1) assert.equal((await ask(port, 'GET /users/1')).status, 200);
});

test('after maxInFlight was reached, a new request is accepted when a client disconnects', async (t) => {
  const { repository, open: release } = await gatedRepository();
  t.after(release);
  const left = Promise.withResolvers<void>();
  const { port } = await startService(t, {
    repository,
    limits: { maxInFlight: 1 },
    expectFailures: true,
    observe: (event) => event.type === 'request' && event.status === 499 && left.resolve(),
  });
  const holder = await open(port, head('GET /users/1'));
  await until(async () => (await ask(port, 'GET /users')).status === 503, 'the limit is reached');
  holder.destroy();
  await left.promise;
  assert.equal((await ask(port, 'GET /users')).status, 200);
});

test('a hundred rejected requests do not count as in flight, and do not block later requests', async (t) => {
  const { port, open: release, holders } = await startFull(t);
  // Their bodies never arrive, so each connection stays open until its client has read the response.
  const body = 'Content-Type: application/json\r\nContent-Length: 100000\r\n';
  const sockets = await Promise.all(Array.from({ length: 100 }, () => open(port, head('POST /users', body))));
  t.after(() => sockets.map((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'data')));
  release();
  await Promise.all(holders);
  assert.equal((await ask(port, 'GET /users/1')).status, 200);
});

const asked: readonly [line: string, bytes: string][] = [
  ['GET', head('GET /users')],
  ['POST', `${head('POST /users', json)}{"name":"Ada"}`],
  ['POST without a body', head('POST /echo', 'Content-Length: 0\r\n')],
];
for (const [what, bytes] of asked) {
  test(`a rejected ${what} delays no other request on its connection`, async (t) => {
    const { port } = await startFull(t);
    // Without timers, the connection can only close because all its requests have ended.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const wire = await Wire.open(t, port);
    // The running requests do not end, so only requests without a limit can succeed.
    wire.write(bytes, head('GET /health'), bytes, head('GET /health', closing));
    const statuses = (await wire.end()).map(({ status }) => status);
    assert.deepEqual(statuses, [503, 200, 503, 200]);
    t.mock.timers.reset();
  });
}

test('maxInFlight counts requests of the HTTP and the gRPC API separately', async (t) => {
  const { grpc, calls, open: release } = await startFull(t);
  const answer = getUser(usersClient(t, grpc), 1);
  await until(() => calls() === limits.maxInFlight + 1, 'the call has reached the store');
  release();
  assert.equal((await answer).code, status.OK);
});
