import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { Metrics, renderMetrics } from '../../src/telemetry/metrics.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { until } from '../kit/until.ts';
import { exchange, Wire } from '../kit/wire.ts';
import { send } from '../support/client.ts';
import { type Family, parseMetrics } from '../support/prometheus.ts';
import { startService } from '../support/service.ts';

const prefix = 'users_service_';

function find(
  families: Map<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>>,
): number | undefined {
  const family =
    families.get(`${prefix}${name.replace(/_(bucket|sum|count)$/, '')}`) ?? families.get(`${prefix}${name}`);
  return family?.samples.find(
    (sample) =>
      sample.name === `${prefix}${name}` &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )?.value;
}

function request(more: Partial<RequestEvent> = {}): RequestEvent {
  return {
    type: 'request',
    face: 'http',
    id: 'x',
    method: 'GET',
    route: '/users',
    path: '/users',
    status: 200,
    durationMs: 1,
    longLived: false,
    traceparent: undefined,
    key: undefined,
    ...more,
  };
}

test('/metrics counts the responses of both APIs by route and status', async (t) => {
  const { http, grpc } = await startService(t, { grpcPort: 0, expectFailures: true });
  await send(http, 'POST /users', { json: { name: 'Ann' } });
  for (const line of [
    'GET /users/1',
    'GET /users/1',
    'GET /users/2',
    'HEAD /users/1',
    'GET /no',
    'GET /no/2',
    'DELETE /users',
    'GET /boom',
    'GET /',
  ]) {
    await send(http, line);
  }
  const client = usersClient(t, grpc);
  for (const id of [1, 2, 2, 0]) await getUser(client, id);

  const { headers, text } = await send(http, 'GET /metrics');
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  assert.equal(headers['cache-control'], 'no-store');
  const families = parseMetrics(text);
  for (const [labels, value] of [
    [{ face: 'http', method: 'POST', route: '/users', status: '201' }, 1],
    [{ face: 'http', method: 'GET', route: '/users/{id}', status: '200' }, 2],
    [{ face: 'http', method: 'HEAD', route: '/users/{id}', status: '200' }, 1],
    [{ face: 'http', method: 'GET', route: '/users/{id}', status: '404' }, 1],
    [{ face: 'http', method: 'any', route: 'unmatched', status: '404' }, 2],
    [{ face: 'http', method: 'any', route: 'unmatched', status: '405' }, 1],
    [{ face: 'http', method: 'GET', route: '/boom', status: '500' }, 1],
    [{ face: 'http', method: 'GET', route: 'static', status: '200' }, 1],
    [{ face: 'grpc', method: 'POST', route: '/Users/GetUser', status: '0' }, 1],
    [{ face: 'grpc', method: 'POST', route: '/Users/GetUser', status: '5' }, 2],
    [{ face: 'grpc', method: 'POST', route: '/Users/GetUser', status: '3' }, 1],
  ] as const) {
    assert.equal(find(families, 'requests_total', labels), value, JSON.stringify(labels));
  }
  assert.equal(find(families, 'requests_in_flight', { face: 'http' }), 1, 'only the request for the metrics');
  assert.equal(find(families, 'requests_in_flight', { face: 'grpc' }), 0);
  assert.equal(find(families, 'failures_total', {}), 1, '/boom');
  assert.equal(find(families, 'request_duration_seconds_count', { face: 'http', route: '/users/{id}' }), 4);
  const calls = find(families, 'request_duration_seconds_count', { face: 'grpc', route: '/Users/GetUser' });
  assert.equal(calls, 4);
});

test('/metrics has the number of open connections of both APIs, until they close', async (t) => {
  const { http, grpc, port } = await startService(t, { grpcPort: 0 });
  const wires = await Promise.all([1, 2, 3].map(() => Wire.open(t, port)));
  await getUser(usersClient(t, grpc), 1);
  const count = async (face: string) =>
    find(parseMetrics((await send(http, 'GET /metrics')).text), 'connections', { face });
  assert.equal(await count('grpc'), 1);
  await until(async () => (await count('http')) === 4, 'three and that of the request for the metrics count');
  wires[0]?.socket.destroy();
  await until(async () => (await count('http')) === 3, 'a closed connection does not count');
});

test('histograms are consistent: buckets increase, the last one equals the count, and the sum is in seconds', () => {
  const metrics = new Metrics();
  for (const durationMs of [0, 0.5, 0.51, 3, 40, 999, 1_000, 29_999, 31_000])
    metrics.observe(request({ durationMs }));
  const families = parseMetrics(renderMetrics(metrics.snapshot()));
  const samples = families.get(`${prefix}request_duration_seconds`)?.samples ?? [];
  const buckets = samples.filter(({ name }) => name.endsWith('_bucket'));
  const bounds = buckets.map(({ labels }) => Number(labels['le']?.replace('Inf', 'Infinity')));
  assert.deepEqual(
    bounds,
    bounds.toSorted((a, b) => a - b),
  );
  const counts = buckets.map(({ value }) => value);
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => a - b),
  );
  assert.equal(
    bounds.join(),
    `0.0005,0.001,0.0025,0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,${1 / 0}`,
  );
  const below = (le: string) => find(families, 'request_duration_seconds_bucket', { le });
  assert.deepEqual(['0.0005', '0.001', '0.005', '1', '30', '+Inf'].map(below), [2, 3, 4, 7, 8, 9]);
  assert.equal(find(families, 'request_duration_seconds_count', {}), 9);
  assert.ok(Math.abs((find(families, 'request_duration_seconds_sum', {}) ?? 0) - 63.042) < 0.001);
});

test('the reads of a standby are counted with their outcome, their wait in seconds and their lag in bytes', () => {
  const metrics = new Metrics();
  for (const outcome of ['answered', 'late'])
    metrics.standbyRead({ host: 'a', outcome, waitMs: 1_500, lagBytes: 7 });
  const families = parseMetrics(renderMetrics(metrics.snapshot()));
  assert.equal(find(families, 'standby_reads_total', { host: 'a', outcome: 'late' }), 1);
  assert.equal(find(families, 'standby_wait_seconds_total', { host: 'a' }), 3);
  assert.equal(find(families, 'standby_lag_bytes_total', { host: 'a' }), 14);
});

test('each API has a separate histogram even for routes with the same name', () => {
  const metrics = new Metrics();
  metrics.observe(request({ route: '/same' }));
  metrics.observe(request({ route: '/same', face: 'grpc' }));
  metrics.observe(request({ route: '/same', face: 'grpc' }));
  const families = parseMetrics(renderMetrics(metrics.snapshot()));
  assert.equal(find(families, 'request_duration_seconds_count', { face: 'http' }), 1);
  assert.equal(find(families, 'request_duration_seconds_count', { face: 'grpc' }), 2);
});

test('values that clients choose never become labels', async (t) => {
  const { http } = await startService(t);
  await send(http, 'GET /metrics');
  const before = (await send(http, 'GET /metrics')).text.split('\n').length;
  for (let i = 0; i < 50; i += 1) {
    for (const method of ['GET', 'PROPFIND']) {
      await send(http, `${method} /nowhere/${i}"\\?${i}`, { headers: { 'x-request-id': `id-${i}` } });
    }
    await send(http, `GET /users/${1000 + i}`);
  }
  const { text } = await send(http, 'GET /metrics');
  parseMetrics(text);
  const added = text.split('\n').length - before;
  assert.ok(added < 60, `${added} lines for 150 requests`);
});

test('label values are escaped', () => {
  const metrics = new Metrics();
  metrics.observe(request({ route: 'a"b\\c\nd' }));
  const families = parseMetrics(renderMetrics(metrics.snapshot()));
  assert.equal(find(families, 'requests_total', { route: 'a"b\\c\nd' }), 1);
});

test('failures of the store and rejected connections are counted', async (t) => {
  const repository = createMemoryStore();
  const { http, port } = await startService(t, { repository, expectFailures: true });
  await repository.close();
  assert.equal((await send(http, 'GET /users')).status, 503);
  assert.equal((await send(http, 'GET /users/1')).status, 503);
  await exchange(port, 'GET / HTTP/1.1\r\nno colon\r\n\r\n');
  const families = parseMetrics((await send(http, 'GET /metrics')).text);
  assert.equal(find(families, 'store_failures_total', {}), 2);
  assert.equal(find(families, 'failures_total', {}), 0);
  assert.equal(find(families, 'refused_total', { face: 'http', status: '400' }), 1);
});

test('all metrics are listed with their type and help before the first request', () => {
  const families = parseMetrics(renderMetrics({}));
  for (const [name, type] of [
    ['start_time_seconds', 'gauge'],
    ['requests_total', 'counter'],
    ['request_duration_seconds', 'histogram'],
    ['requests_in_flight', 'gauge'],
    ['key_requests_total', 'counter'],
    ['standby_lag_bytes_total', 'counter'],
  ] as const)
    assert.equal(families.get(`${prefix}${name}`)?.type, type, name);
  for (const { help } of families.values()) assert.match(help, /^[A-Z].*\.$/);
});
