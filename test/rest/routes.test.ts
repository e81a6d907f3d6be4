import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const json = 'application/json; charset=utf-8';
const yo = { id: 2, userId: 2, title: 'Yo' };
const ann = { name: 'Ann', role: 'admin' };

interface Case {
  readonly line: string;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status: number;
  readonly body: unknown;
  readonly answerHeaders?: Readonly<Record<string, string>>;
}

// Each runs against a store that contains Ann (1, with post 1) and Bob (2, without a role).
const cases: readonly Case[] = [
  {
    line: 'GET /users',
    status: 200,
    body: [
      { id: 1, ...ann },
      { id: 2, name: 'Bob' },
    ],
    answerHeaders: { link: '</users>; rel="first", </changes?after=3>; rel="monitor"', vary: 'prefer' },
  },
  { line: 'GET /users/1', status: 200, body: { id: 1, ...ann }, answerHeaders: { etag: '"1"' } },
  { line: 'GET /users/2', status: 200, body: { id: 2, name: 'Bob' }, answerHeaders: { etag: '"1"' } },
  {
    line: 'POST /users',
    json: { name: 'Cy', role: 'dev' },
    status: 201,
    body: { id: 3, name: 'Cy', role: 'dev' },
    answerHeaders: { location: '/users/3', etag: '"1"' },
  },
  {
    line: 'POST /users',
    json: { name: 'Dee' },
    status: 201,
    body: { id: 3, name: 'Dee' },
    answerHeaders: { location: '/users/3' },
  },
  {
    line: 'PUT /users/1',
    json: { name: 'Anna' },
    status: 200,
    body: { id: 1, name: 'Anna' },
    answerHeaders: { etag: '"2"' },
  },
  {
    line: 'PUT /users/1',
    json: { id: 1, name: 'Anna', role: 'x' },
    status: 200,
    body: { id: 1, name: 'Anna', role: 'x' },
    answerHeaders: { etag: '"2"' },
  },
  { line: 'PUT /users/1', json: ann, status: 200, body: { id: 1, ...ann }, answerHeaders: { etag: '"1"' } },
  {
    line: 'PATCH /users/1',
    json: { name: 'Anna' },
    status: 200,
    body: { id: 1, name: 'Anna', role: 'admin' },
    answerHeaders: { etag: '"2"' },
  },
  {
    line: 'PATCH /users/1',
    json: { role: null },
    headers: { 'content-type': 'application/merge-patch+json' },
    status: 200,
    body: { id: 1, name: 'Ann' },
    answerHeaders: { etag: '"2"' },
  },
  { line: 'PATCH /users/1', json: {}, status: 200, body: { id: 1, ...ann }, answerHeaders: { etag: '"1"' } },
  { line: 'DELETE /users/1', status: 204, body: undefined },
  {
    line: 'GET /users/1/posts',
    status: 200,
    body: [{ id: 1, userId: 1, title: 'Hi', body: 'there\n' }],
    answerHeaders: { vary: 'prefer' },
  },
  { line: 'GET /users/2/posts', status: 200, body: [] },
  {
    line: 'POST /users/2/posts',
    json: { title: 'Yo', body: 'x' },
    status: 201,
    body: { ...yo, body: 'x' },
    answerHeaders: { location: '/users/2/posts/2', etag: '"1"' },
  },
  { line: 'POST /users/2/posts', json: { title: 'Yo' }, status: 201, body: { ...yo, body: '' } },
  {
    line: 'GET /users/1/posts/1',
    status: 200,
    body: { id: 1, userId: 1, title: 'Hi', body: 'there\n' },
    answerHeaders: { etag: '"1"', 'cache-control': 'private, no-cache' },
  },
  {
    line: 'PUT /users/1/posts/1',
    json: { title: 'Ho', body: 'here' },
    status: 200,
    body: { id: 1, userId: 1, title: 'Ho', body: 'here' },
    answerHeaders: { etag: '"2"' },
  },
  {
    line: 'PUT /users/1/posts/1',
    json: { id: 1, userId: 1, title: 'Hi' },
    status: 200,
    body: { id: 1, userId: 1, title: 'Hi', body: '' },
    answerHeaders: { etag: '"2"' },
  },
  {
    line: 'PATCH /users/1/posts/1',
    json: { title: 'Ho' },
    status: 200,
    body: { id: 1, userId: 1, title: 'Ho', body: 'there\n' },
    answerHeaders: { etag: '"2"' },
  },
  {
    line: 'PATCH /users/1/posts/1',
    json: { body: '' },
    headers: { 'content-type': 'application/merge-patch+json' },
    status: 200,
    body: { id: 1, userId: 1, title: 'Hi', body: '' },
    answerHeaders: { etag: '"2"' },
  },
  {
    line: 'PATCH /users/1/posts/1',
    json: {},
    status: 200,
    body: { id: 1, userId: 1, title: 'Hi', body: 'there\n' },
    answerHeaders: { etag: '"1"' },
  },
  { line: 'DELETE /users/1/posts/1', status: 204, body: undefined },
  { line: 'GET /health', status: 200, body: { ok: true }, answerHeaders: { 'cache-control': 'no-store' } },
  { line: 'GET /health/ready', status: 200, body: { ok: true } },
  { line: 'POST /echo', json: { a: [1, null, 'x'] }, status: 200, body: { youSent: { a: [1, null, 'x'] } } },
  { line: 'POST /echo', json: null, status: 200, body: { youSent: null } },
  { line: 'POST /echo', json: 'text', status: 200, body: { youSent: 'text' } },
  { line: 'GET /private', headers: { 'x-api-key': 'k1' }, status: 200, body: { secretData: 42 } },
  { line: 'GET /private', headers: { 'x-api-key': 'k2' }, status: 200, body: { secretData: 42 } },
  { line: 'GET /private', status: 401, body: { error: 'x-api-key is required' } },
  { line: 'GET /boom', status: 500, body: { error: 'internal error' } },
];

for (const { line, status, body, answerHeaders, ...options } of cases) {
  test(`${line} ${JSON.stringify(options)} returns ${status}`, async (t) => {
    const { http } = await startService(t, { apiKeys: ['k1', 'k2'], expectFailures: line.endsWith('/boom') });
    await send(http, 'POST /users', { json: ann });
    await send(http, 'POST /users', { json: { name: 'Bob' } });
    await send(http, 'POST /users/1/posts', { json: { title: 'Hi', body: 'there\n' } });

    const answer = await send(http, line, options);

    assert.equal(answer.status, status);
    assert.deepEqual(answer.json, body);
    if (body !== undefined) {
      assert.equal(answer.headers['content-type'], json);
      assert.equal(Number(answer.headers['content-length']), Buffer.byteLength(answer.text));
    }
    assert.match(String(answer.headers['x-request-id']), /^[\w.-]{1,64}$/);
    for (const [name, value] of Object.entries(answerHeaders ?? {})) {
      assert.equal(answer.headers[name], value, name);
    }
  });
}

test('a changed user is returned as changed, and a deleted user and their posts return 404', async (t) => {
  const { http } = await startService(t);
  await send(http, 'POST /users', { json: ann });
  await send(http, 'POST /users/1/posts', { json: { title: 'Hi' } });
  await send(http, 'PATCH /users/1', { json: { role: null } });
  assert.deepEqual((await send(http, 'GET /users/1')).json, { id: 1, name: 'Ann' });
  assert.equal((await send(http, 'DELETE /users/1')).status, 204);
  for (const line of ['GET /users/1', 'GET /users/1/posts', 'GET /users/1/posts/1', 'DELETE /users/1']) {
    assert.equal((await send(http, line)).status, 404, line);
  }
  const next = await send(http, 'POST /users', { json: ann });
  assert.deepEqual(next.json, { id: 2, ...ann }, 'ids are not reused');
});

test('the Location of a created post is its address, and the same post id of another user returns 404', async (t) => {
  const { http } = await startService(t);
  for (const name of ['Ann', 'Bob']) await send(http, 'POST /users', { json: { name } });
  const { headers } = await send(http, 'POST /users/2/posts', { json: { title: 'Hi' } });
  assert.equal(headers.location, '/users/2/posts/1');
  const post = { id: 1, userId: 2, title: 'Hi', body: '' };
  assert.deepEqual((await send(http, `GET ${headers.location}`)).json, post);
  for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
    const json = method === 'PUT' || method === 'PATCH' ? { json: { title: 'Ho' } } : {};
    const answer = await send(http, `${method} /users/1/posts/1`, json);
    assert.deepEqual([answer.status, answer.json], [404, { error: 'post 1 of user 1 not found' }], method);
  }
  assert.deepEqual((await send(http, `GET ${headers.location}`)).json, post, 'unchanged');
  assert.equal((await send(http, `DELETE ${headers.location}`)).status, 204);
  assert.equal((await send(http, `DELETE ${headers.location}`)).status, 404);
});

test('HEAD returns the headers of GET without a body on every route', async (t) => {
  const { http } = await startService(t, { apiKeys: ['k1'], expectFailures: true });
  await send(http, 'POST /users', { json: ann });
  await send(http, 'POST /users/1/posts', { json: { title: 'Hi' } });
  const paths = [
    '/users',
    '/users?limit=0',
    '/users/1',
    '/users/9',
    '/users/x',
    '/users/1/posts',
    '/users/1/posts/1',
    '/users/1/posts/9',
    '/health',
    '/health/ready',
    '/info',
    '/private',
    '/boom',
    '/nowhere',
    '/metrics',
  ];
  const headers = { 'x-request-id': 'same' };
  for (const path of paths) {
    const [get, head] = [
      await send(http, `GET ${path}`, { headers }),
      await send(http, `HEAD ${path}`, { headers }),
    ];
    assert.equal(head.status, get.status, path);
    assert.equal(head.text, '', path);
    // The metrics have changed between the two requests.
    const varying = path === '/metrics' ? { 'content-length': 'any' } : {};
    const { date: _a, ...expected } = { ...get.headers, ...varying };
    const { date: _b, ...actual } = { ...head.headers, ...varying };
    assert.deepEqual(actual, expected, path);
  }
});

const allowed = {
  '/users': 'GET, HEAD, OPTIONS, POST',
  '/users/1': 'DELETE, GET, HEAD, OPTIONS, PATCH, PUT',
  '/users/not-an-id': 'DELETE, GET, HEAD, OPTIONS, PATCH, PUT',
  '/users/1/posts': 'GET, HEAD, OPTIONS, POST',
  '/users/1/posts/1': 'DELETE, GET, HEAD, OPTIONS, PATCH, PUT',
  '/health': 'GET, HEAD, OPTIONS',
  '/health/ready': 'GET, HEAD, OPTIONS',
  '/metrics': 'GET, HEAD, OPTIONS',
  '/info': 'GET, HEAD, OPTIONS',
  '/echo': 'OPTIONS, POST',
  '/private': 'GET, HEAD, OPTIONS',
  '/boom': 'GET, HEAD, OPTIONS',
};
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

for (const [path, allow] of Object.entries(allowed)) {
  test(`${path} allows ${allow}, and lists them in Allow`, async (t) => {
    const { http } = await startService(t);
    const options = await send(http, `OPTIONS ${path}`);
    assert.equal(options.status, 204);
    assert.equal(options.headers.allow, allow);
    const patches = allow.includes('PATCH') ? 'application/merge-patch+json, application/json' : undefined;
    assert.equal(options.headers['accept-patch'], patches, 'RFC 5789, 3.1');
    for (const method of methods.filter((name) => !allow.split(', ').includes(name))) {
      const refused = await send(http, `${method} ${path}`);
      assert.equal(refused.status, 405, method);
      assert.equal(refused.headers.allow, allow, method);
      if (method !== 'HEAD')
        assert.deepEqual(refused.json, { error: `method not allowed; allowed: ${allow}` });
    }
  });
}

test('paths with verbs, unknown nouns or another spelling return 404', async (t) => {
  const { http } = await startService(t);
  for (const path of [
    '/getUsers',
    '/users/',
    '/Users',
    '//users',
    '/users//posts',
    '/users/1/posts/1/comments',
    '/posts/1',
    '/products',
  ]) {
    const answer = await send(http, `GET ${path}`);
    assert.deepEqual([answer.status, answer.json], [404, { error: 'no such resource' }], path);
  }
});

test('a method that no route has returns 501', async (t) => {
  const { http } = await startService(t);
  for (const method of ['TRACE', 'PROPFIND', 'PURGE']) {
    const answer = await send(http, `${method} /users`);
    assert.deepEqual([answer.status, answer.json], [501, { error: `method ${method} is not implemented` }]);
  }
});
