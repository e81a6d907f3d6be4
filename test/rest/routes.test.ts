import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RequestOptions, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const json = 'application/json; charset=utf-8';
const yo = { id: 2, userId: 2, title: 'Yo' };
const v1 = { etag: '"1"' };
const v2 = { etag: '"2"' };
const hi = { id: 1, userId: 1, title: 'Hi', body: 'there\n' };
const merge = { 'content-type': 'application/merge-patch+json' };
const ann = { name: 'Ann', role: 'admin' };

type Case = readonly [
  line: string,
  sent: RequestOptions,
  status: number,
  body: unknown,
  /** Headers of the response. */
  headers?: Readonly<Record<string, string>>,
];

// Each runs against a store that contains Ann (1, with post 1) and Bob (2, without a role).
const cases: readonly Case[] = [
  [
    'GET /users',
    {},
    200,
    [
      { id: 1, ...ann },
      { id: 2, name: 'Bob' },
    ],
    { link: '</users>; rel="first", </changes?after=3>; rel="monitor"', vary: 'prefer' },
  ],
  ['GET /users/1', {}, 200, { id: 1, ...ann }, v1],
  ['GET /users/2', {}, 200, { id: 2, name: 'Bob' }, v1],
  [
    'POST /users',
    { json: { name: 'Cy', role: 'dev' } },
    201,
    { id: 3, name: 'Cy', role: 'dev' },
    { location: '/users/3', etag: '"1"' },
  ],
  ['POST /users', { json: { name: 'Dee' } }, 201, { id: 3, name: 'Dee' }, { location: '/users/3' }],
  ['PUT /users/1', { json: { name: 'Anna' } }, 200, { id: 1, name: 'Anna' }, v2],
  ['PUT /users/1', { json: { id: 1, name: 'Anna', role: 'x' } }, 200, { id: 1, name: 'Anna', role: 'x' }, v2],
  ['PUT /users/1', { json: ann }, 200, { id: 1, ...ann }, v1],
  ['PATCH /users/1', { json: { name: 'Anna' } }, 200, { id: 1, name: 'Anna', role: 'admin' }, v2],
  ['PATCH /users/1', { json: { role: null }, headers: merge }, 200, { id: 1, name: 'Ann' }, v2],
  ['PATCH /users/1', { json: {} }, 200, { id: 1, ...ann }, v1],
  ['DELETE /users/1', {}, 204, undefined],
  ['GET /users/1/posts', {}, 200, [hi], { vary: 'prefer' }],
  ['GET /users/2/posts', {}, 200, []],
  [
    'POST /users/2/posts',
    { json: { title: 'Yo', body: 'x' } },
    201,
    { ...yo, body: 'x' },
    { location: '/users/2/posts/2', etag: '"1"' },
  ],
  ['POST /users/2/posts', { json: { title: 'Yo' } }, 201, { ...yo, body: '' }],
  ['GET /users/1/posts/1', {}, 200, hi, { etag: '"1"', 'cache-control': 'private, no-cache' }],
  [
    'PUT /users/1/posts/1',
    { json: { title: 'Ho', body: 'here' } },
    200,
    { ...hi, title: 'Ho', body: 'here' },
    v2,
  ],
  ['PUT /users/1/posts/1', { json: { id: 1, userId: 1, title: 'Hi' } }, 200, { ...hi, body: '' }, v2],
  ['PATCH /users/1/posts/1', { json: { title: 'Ho' } }, 200, { ...hi, title: 'Ho' }, v2],
  ['PATCH /users/1/posts/1', { json: { body: '' }, headers: merge }, 200, { ...hi, body: '' }, v2],
  ['PATCH /users/1/posts/1', { json: {} }, 200, hi, v1],
  ['DELETE /users/1/posts/1', {}, 204, undefined],
  ['GET /health', {}, 200, { ok: true }, { 'cache-control': 'no-store' }],
  ['GET /health/ready', {}, 200, { ok: true }],
  ['POST /echo', { json: { a: [1, null, 'x'] } }, 200, { youSent: { a: [1, null, 'x'] } }],
  ['POST /echo', { json: null }, 200, { youSent: null }],
  ['POST /echo', { json: 'text' }, 200, { youSent: 'text' }],
  ['GET /private', { headers: { 'x-api-key': 'k1' } }, 200, { secretData: 42 }],
  ['GET /private', { headers: { 'x-api-key': 'k2' } }, 200, { secretData: 42 }],
  ['GET /private', {}, 401, { error: 'x-api-key is required' }],
  ['GET /boom', {}, 500, { error: 'internal error' }],
];

for (const [line, sent, status, body, headers = {}] of cases) {
  test(`${line} ${JSON.stringify(sent)} returns ${status}`, async (t) => {
    const { http } = await startService(t, { apiKeys: ['k1', 'k2'], expectFailures: line.endsWith('/boom') });
    await send(http, 'POST /users', { json: ann });
    await send(http, 'POST /users', { json: { name: 'Bob' } });
    await send(http, 'POST /users/1/posts', { json: { title: 'Hi', body: 'there\n' } });

    const answer = await send(http, line, sent);

    assert.equal(answer.status, status);
    assert.deepEqual(answer.json, body);
    if (body !== undefined) {
      assert.equal(answer.headers['content-type'], json);
      assert.equal(Number(answer.headers['content-length']), Buffer.byteLength(answer.text));
    }
    assert.match(String(answer.headers['x-request-id']), /^[\w.-]{1,64}$/);
    for (const [name, value] of Object.entries(headers)) {
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
