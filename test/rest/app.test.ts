import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import { type TestContext, test } from 'node:test';
import express from 'express';
import { createRequestListener, type RequestListenerOptions } from '../../src/service/request-listener.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { errorOf, send } from '../support/client.ts';
import { listen } from '../support/listen.ts';

async function serve(t: TestContext, listener: RequestListener): Promise<string> {
  return (await listen(t, createServer(listener))).http;
}

async function mount(t: TestContext, options: Partial<RequestListenerOptions> = {}): Promise<string> {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ann' });
  return serve(t, createRequestListener({ repository, ...options }));
}

test('a listener created with only a store serves all routes on a server of node:http', async (t) => {
  const base = await mount(t);
  assert.deepEqual((await send(base, 'GET /users')).json, [{ id: 1, name: 'Ann' }]);
  assert.equal((await send(base, 'POST /users', { json: { name: 'Bob' } })).headers.location, '/users/2');
  assert.equal((await send(base, 'GET /health/ready')).status, 200);
  assert.match((await send(base, 'GET /metrics')).text, /route="\/users"/);
});

test('with a basePath, every address in a response begins with it', async (t) => {
  const basePath = '/api/v1';
  const base = await mount(t, { basePath });
  const created = await send(base, 'POST /api/v1/users', { json: { name: 'Bob' }, basePath });
  assert.equal(created.headers.location, '/api/v1/users/2');
  const post = await send(base, 'POST /api/v1/users/2/posts', { json: { title: 'Hi' }, basePath });
  assert.equal(post.headers.location, '/api/v1/users/2/posts/1');
  const { headers } = await send(base, 'GET /api/v1/users?limit=1', { basePath });
  const [, next] = /<([^>]*)>; rel="next"/.exec(String(headers['link'])) ?? [];
  assert.match(String(headers['link']), /^<\/api\/v1\/users\?limit=1>; rel="first", /);
  assert.deepEqual((await send(base, `GET ${next}`, { basePath })).json, [{ id: 2, name: 'Bob' }]);
  assert.equal(
    (await send(base, 'GET /api/v1/info', { basePath })).json?.['path' as keyof object],
    '/api/v1/info',
  );
  const description = await fetch(`${base}/api/v1/openapi.json`);
  const { servers } = (await description.json()) as { servers: [{ url: string }] };
  assert.equal(new URL(servers[0].url, description.url).href, `${base}/api/v1/`);
  for (const path of ['/users', '/api/v1x/users', '/api/users', '/api/v1users', '/']) {
    assert.equal((await fetch(base + path)).status, 404, path);
  }
  assert.notEqual((await send(base, 'GET /api/v1/', { basePath })).status, 500);
});

test('a request to an unknown path goes to the next handler of the host, all others are handled', async (t) => {
  const repository = createMemoryStore();
  const listener = createRequestListener({ repository, basePath: '/api', publicDir: false });
  const base = await serve(t, (request, response) => {
    listener(request, response, () => response.writeHead(200, { 'x-host': 'yes' }).end('host page'));
  });
  for (const path of ['/', '/other', '/apix', '/api/unknown', '/api/users/1/x']) {
    assert.equal((await fetch(base + path)).headers.get('x-host'), 'yes', path);
  }
  for (const [line, status] of [
    ['GET /api/users', 200],
    ['GET /api/users/9', 404],
    ['DELETE /api/users', 405],
    ['GET /api/users/%zz', 400],
  ] as const) {
    const answer = await send(base, line, { basePath: '/api' });
    assert.deepEqual([answer.status, answer.headers['x-host']], [status, undefined], line);
  }
});

test('the basePath without a trailing slash redirects to the page with one', async (t) => {
  const listener = createRequestListener({ repository: createMemoryStore(), basePath: '/api' });
  const alone = await serve(t, listener);
  const inHost = await serve(t, (request, response) => {
    listener(request, response, () => response.writeHead(404, { 'x-host': 'yes' }).end());
  });
  const app = express();
  app.use('/api', createRequestListener({ repository: createMemoryStore() }));
  const inExpress = await serve(t, app);
  for (const base of [alone, inHost, inExpress]) {
    const redirect = await fetch(`${base}/api?tab=posts`, { redirect: 'manual' });
    assert.deepEqual([redirect.status, redirect.headers.get('location')], [308, '/api/?tab=posts']);
    // Otherwise, browsers may keep the redirect for ever (RFC 9110, 15.4.9).
    assert.equal(redirect.headers.get('cache-control'), 'no-cache');
    assert.equal((await fetch(`${base}/api`, { method: 'HEAD', redirect: 'manual' })).status, 308);
    const page = await fetch(`${base}/api`);
    assert.deepEqual([page.url, page.status], [`${base}/api/`, 200]);
    const link = '</api/openapi.json>; rel="service-desc"';
    for (const response of [redirect, page, await fetch(`${base}/api/users`, { method: 'OPTIONS' })]) {
      assert.equal(response.headers.get('link'), link);
    }
    const [, script = ''] = /<script[^>]* src="([^"]+)"/.exec(await page.text()) ?? [];
    assert.equal((await fetch(new URL(script, page.url))).status, 200, script);
    assert.equal((await fetch(`${base}/api`, { method: 'POST' })).status, 405);
  }
});

test('without publicDir, the basePath without a trailing slash goes to the host', async (t) => {
  const options = { repository: createMemoryStore(), basePath: '/api', publicDir: false } as const;
  const listener = createRequestListener(options);
  assert.equal((await fetch(`${await serve(t, listener)}/api`)).status, 404);
  const inHost = await serve(t, (request, response) => {
    listener(request, response, () => response.writeHead(200, { 'x-host': 'yes' }).end());
  });
  assert.equal((await fetch(`${inHost}/api`)).headers.get('x-host'), 'yes');
});

test('two listeners in one process share no keys, data or metrics', async (t) => {
  const first = await mount(t, { auth: 'all', apiKeys: ['k'] });
  const second = await mount(t);
  assert.equal((await send(first, 'GET /users')).status, 401);
  await send(second, 'POST /users', { json: { name: 'Bob' } });
  assert.deepEqual((await send(first, 'GET /users', { headers: { 'x-api-key': 'k' } })).json, [
    { id: 1, name: 'Ann' },
  ]);
  assert.doesNotMatch((await send(second, 'GET /metrics')).text, /status="401"/);
});

test('a listener copies its options, so later changes of the objects have no effect', async (t) => {
  const apiKeys = ['k'];
  const cors = ['https://app.example'];
  const limits = { maxBodyBytes: 10 };
  const base = await mount(t, { auth: 'all', apiKeys, cors, limits });
  apiKeys.push('thief');
  cors.push('https://evil.example');
  limits.maxBodyBytes = 1_000_000;
  const headers = { origin: 'https://evil.example', 'content-type': 'application/json' };
  assert.equal(
    (await send(base, 'GET /users', { headers: { ...headers, 'x-api-key': 'thief' } })).status,
    401,
  );
  const refused = await send(base, 'POST /users', {
    json: { name: 'too long' },
    headers: { ...headers, 'x-api-key': 'k' },
  });
  assert.deepEqual([refused.status, errorOf(refused)], [413, 'the body must be at most 10 bytes']);
  assert.equal(refused.headers['access-control-allow-origin'], undefined);
});

const wrong: readonly [what: string, options: object | undefined, message: RegExp][] = [
  ['a call without options', undefined, /repository must be a store/],
  ['a missing store', { repository: undefined }, /repository must be a store/],
  ['an object that is not a store', { repository: {} }, /repository must be a store/],
  ['an observer that is not a function', { observe: console }, /observe must be a function/],
  ['API keys that are not a list', { apiKeys: 'key' }, /apiKeys must be a list of keys/],
  ['a requirePreconditions that is a text', { requirePreconditions: 'yes' }, /requirePreconditions must be/],
  ['origins that are not a list', { cors: '*' }, /cors must be a list of .* not "\*"$/],
  ['host names that are not a list', { allowedHosts: '*' }, /allowedHosts must be a list of .* not "\*"$/],
  ['a host name with a port', { allowedHosts: ['a.example:80'] }, /allowedHosts must be/],
  ['a utilityRoutes that is not a boolean', { utilityRoutes: false }, /utilityRoutes must be one of on, off/],
  ['a limit below 0', { limits: { maxInFlight: -1 } }, /limits\.maxInFlight must be a whole number/],
  ['a missing folder', { publicDir: '/nowhere/at/all' }, /^publicDir cannot be read: ENOENT.*\/nowhere/],
];
for (const [what, options, message] of wrong) {
  test(`createRequestListener rejects ${what}`, () => {
    // As a caller without types could pass it.
    const given = options && { repository: createMemoryStore(), ...options };
    assert.throws(() => Reflect.apply(createRequestListener, undefined, [given]), { message });
  });
}
