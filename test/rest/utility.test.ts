import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DomainError } from '../../src/domain/errors.ts';
import type { Repository } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { exchange } from '../kit/wire.ts';
import { errorOf, send } from '../support/client.ts';
import { startService } from '../support/service.ts';
import { stubStore } from '../support/stub-store.ts';

test('/health does not call the store', async (t) => {
  const called: string[] = [];
  const repository = stubStore((name) => {
    called.push(name);
    throw new Error(`the store's ${name} was called`);
  });
  const { http } = await startService(t, { repository });
  for (const line of ['GET /health', 'HEAD /health', 'OPTIONS /health', 'GET /info', 'GET /private']) {
    assert.ok((await send(http, line)).status < 500, line);
  }
  assert.deepEqual(called, []);
});

const failures: readonly [what: string, ping: Repository['ping']][] = [
  ['is unavailable', () => Promise.reject(new DomainError('unavailable', 'secret address'))],
  ['is too slow to connect to', () => Promise.reject(new DomainError('deadline-exceeded', 'too late'))],
  ['fails in an unknown way', () => Promise.reject(new Error('secret'))],
  [
    'throws',
    () => {
      throw new Error('secret');
    },
  ],
];
for (const [what, ping] of failures) {
  test(`/health/ready returns 503 while the store ${what}, and then 200 again`, async (t) => {
    const store = createMemoryStore();
    const repository = Object.assign(createMemoryStore(), { ping });
    const { http, failures: reported } = await startService(t, { repository, expectFailures: true });
    const answer = await send(http, 'GET /health/ready');
    assert.deepEqual([answer.status, errorOf(answer)], [503, 'the store does not answer']);
    assert.equal(answer.headers['retry-after'], '1');
    assert.equal(answer.headers['cache-control'], 'no-store');
    const [failure, ...others] = reported();
    assert.deepEqual([failure?.where, others], ['store', []]);
    assert.match(String(failure?.cause), /secret|too late/);
    assert.equal((await send(http, 'GET /health')).status, 200, 'the service is still alive');
    repository.ping = () => store.ping();
    assert.equal((await send(http, 'GET /health/ready')).status, 200);
  });
}

test('/health/ready returns 503 when the store does not respond in time, and aborts its ping', async (t) => {
  let signal: AbortSignal | undefined;
  const repository = Object.assign(createMemoryStore(), {
    ping: (options: { signal?: AbortSignal } = {}) => {
      signal = options.signal;
      return new Promise<void>(() => undefined);
    },
  });
  const { http } = await startService(t, { repository, expectFailures: true });
  const answer = await send(http, 'GET /health/ready');
  assert.deepEqual([answer.status, errorOf(answer)], [503, 'the store does not answer']);
  assert.equal(signal?.aborted, true);
});

test('/health/ready returns 503 while draining without reporting a failure, and other routes still work', async (t) => {
  const { http, service, events } = await startService(t, { drainDelayMs: 60_000 });
  const closing = service.close();
  const answer = await send(http, 'GET /health/ready');
  assert.deepEqual([answer.status, errorOf(answer)], [503, 'the service is draining']);
  assert.equal(answer.headers['retry-after'], '1');
  assert.equal((await send(http, 'GET /health')).status, 200);
  assert.equal((await send(http, 'POST /users', { json: { name: 'Ann' } })).status, 201);
  await service.close({ timeoutMs: 0 });
  await closing;
  const failures = events.filter(({ type }) => type === 'failure');
  assert.deepEqual(failures, []);
});

test('/info returns the method, path and headers of the request', async (t) => {
  const { http, port } = await startService(t);
  const { json } = await send(http, 'GET /info?page=2&x=%20', {
    headers: { 'x-thing': ['a', 'b'], accept: '*/*' },
  });
  assert.deepEqual(json, {
    method: 'GET',
    path: '/info',
    headers: { host: `127.0.0.1:${port}`, 'x-thing': 'a, b', accept: '*/*', connection: 'keep-alive' },
  });
  const [response] = await exchange(
    port,
    'GET http://other.example/%69nfo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n',
  );
  assert.deepEqual(JSON.parse(response?.body ?? ''), {
    method: 'GET',
    path: '/%69nfo',
    headers: { host: 'x', connection: 'close' },
  });
});

test('/info is not cached, and browsers do not treat it as HTML', async (t) => {
  const { http } = await startService(t);
  const { headers, text } = await send(http, 'GET /info', {
    headers: { 'x-html': '<script>alert(1)</script>' },
  });
  assert.equal(headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(headers['cache-control'], 'no-store');
  assert.match(text, /<script>/);
});

const echoed: readonly string[] = [
  '{}',
  'null',
  '0',
  '"x"',
  '[]',
  ' {"b":1, "a":2}\n',
  '1.0',
  '12345678901234567890',
  '1e400',
  '{"a":1,"a":2}',
  '{"__proto__":{"x":1}}',
  '"\\u0000\\ud800"',
  '"\u2028😀"',
  `${'['.repeat(64)}${']'.repeat(64)}`,
];
for (const body of echoed) {
  test(`/echo returns ${JSON.stringify(body).slice(0, 30)} as it was sent`, async (t) => {
    const { http } = await startService(t);
    const { status, text, headers } = await send(http, 'POST /echo', {
      body,
      headers: { 'content-type': 'application/json' },
    });
    assert.deepEqual([status, text], [200, `{"youSent":${body}}`]);
    assert.doesNotThrow(() => JSON.parse(text));
    assert.equal(headers['content-type'], 'application/json; charset=utf-8');
  });
}

test('/echo accepts a byte order mark, a charset and a body in several chunks', async (t) => {
  const { http, port } = await startService(t);
  const type = { 'content-type': 'Application/JSON; Charset="UTF-8"' };
  const echoed = (await send(http, 'POST /echo', { body: '\ufeff[1]', headers: type })).text;
  assert.equal(echoed, '{"youSent":[1]}');
  const [response] = await exchange(
    port,
    'POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n' +
      '1\r\n[\r\n1\r\n1\r\n1\r\n]\r\n0\r\n\r\n',
  );
  assert.equal(response?.body, '{"youSent":[1]}');
});

test('/boom returns 500 without its cause, which is reported with the request id', async (t) => {
  const { http, failures: reported, events } = await startService(t, { expectFailures: true });
  const answer = await send(http, 'GET /boom', { headers: { 'x-request-id': 'bang' } });
  assert.deepEqual([answer.status, answer.json], [500, { error: 'internal error' }]);
  const [failure] = reported();
  assert.equal(failure?.requestId, 'bang');
  assert.equal(failure.where, 'http');
  assert.match(String(failure.cause), /\/boom was requested/);
  assert.ok(
    events.some((event) => event.type === 'request' && event.status === 500 && event.route === '/boom'),
  );
});

test('with utilityRoutes off only /info, /echo, /private and /boom return 404', async (t) => {
  const { http } = await startService(t, { utilityRoutes: 'off', apiKeys: ['key'] });
  const options = { headers: { 'x-api-key': 'key' }, undocumented: true };
  for (const line of ['GET /info', 'GET /private', 'GET /boom', 'OPTIONS /info']) {
    assert.equal((await send(http, line, options)).status, 404, line);
  }
  assert.equal((await send(http, 'POST /echo', { ...options, json: {} })).status, 404);
  for (const line of ['GET /users', 'GET /health', 'GET /health/ready', 'GET /metrics', 'GET /']) {
    assert.equal((await send(http, line)).status, 200, line);
  }
});
