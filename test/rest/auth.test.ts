import assert from 'node:assert/strict';
import { after, describe, it, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { type AuthMode, authModes } from '../../src/domain/access.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { errorOf, type RequestOptions, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

// Every route and method of both APIs, and the keys that each accepts.
const reads = [
  'GET /users',
  'HEAD /users',
  'GET /users/1',
  'HEAD /users/1',
  'GET /users/1/posts',
  'HEAD /users/1/posts',
  'GET /users/1/posts/1',
  'HEAD /users/1/posts/1',
];
const writes = [
  'POST /users',
  'POST /users/1/posts',
  'PUT /users/1/posts/1',
  'PATCH /users/1/posts/1',
  'DELETE /users/1/posts/1',
  'PUT /users/1',
  'PATCH /users/1',
  'DELETE /users/1',
];
const open = [
  'GET /health',
  'GET /health/ready',
  'GET /info',
  'POST /echo',
  'OPTIONS /users',
  'OPTIONS /users/1',
  'OPTIONS /private',
  'GET /',
];
const privates = ['GET /private', 'HEAD /private'];
const operators = ['GET /metrics', 'HEAD /metrics'];

const bodies: Readonly<Record<string, unknown>> = {
  'POST /users': { name: 'Bob' },
  'PUT /users/1': { name: 'Bob' },
  'PATCH /users/1': { name: 'Bob' },
  'POST /users/1/posts': { title: 'Hi' },
  'PUT /users/1/posts/1': { title: 'Hi' },
  'PATCH /users/1/posts/1': { title: 'Hi' },
  'POST /echo': {},
};

/** One for each of the lists above. */
const examples = ['GET /users', 'POST /users', 'GET /health', 'GET /private', 'GET /metrics'];

const required = 'x-api-key is required';
const wrong = 'x-api-key is not a valid key';
type Key = string | readonly string[] | undefined;
const credentials: readonly [what: string, key: Key, refusal: string | undefined][] = [
  ['no key', undefined, required],
  ['the right key', 'right', undefined],
  ['a wrong key', 'wrong', wrong],
  ['the second valid key', 'next', undefined],
  ['an empty key', '', wrong],
  ['the key in upper case', 'RIGHT', wrong],
  ['a part of the key', 'righ', wrong],
  ['the two keys in one value', 'right,next', wrong],
  ['two keys', ['right', 'next'], wrong],
  ['the right key twice', ['right', 'right'], wrong],
];

function isGuarded(line: string, auth: AuthMode): boolean {
  if (privates.includes(line)) return true;
  if (operators.includes(line)) return auth !== 'none';
  if (writes.includes(line)) return auth !== 'none';
  return reads.includes(line) && auth === 'all';
}

for (const auth of authModes) {
  for (const [index, [what, key, refusal]] of credentials.entries()) {
    const lines = index < 3 ? [...reads, ...open, ...privates, ...operators, ...writes] : examples;
    test(`HTTP requests with ${what} are accepted or rejected as auth=${auth} requires`, async (t) => {
      const { http } = await startService(t, { auth, apiKeys: ['right', 'next'] });
      const headers = json({ 'x-api-key': 'right' });
      await send(http, 'POST /users', { json: { name: 'Ann' }, headers });
      await send(http, 'POST /users/1/posts', { json: { title: 'Hi' }, headers });
      for (const line of lines) {
        const options: RequestOptions = {
          ...(line in bodies && { json: bodies[line] }),
          headers: json({ ...(key !== undefined && { 'x-api-key': key }) }),
        };
        const answer = await send(http, line, options);
        if (refusal === undefined || !isGuarded(line, auth)) {
          assert.ok(answer.status < 300, `${line} must be accepted: ${answer.status} ${answer.text}`);
        } else {
          assert.equal(answer.status, 401, line);
          assert.equal(answer.headers['www-authenticate'], 'ApiKey realm="users-service"', line);
          if (!line.startsWith('HEAD')) assert.equal(errorOf(answer), refusal, line);
        }
      }
      const users = await send(http, 'GET /users', { headers: { 'x-api-key': 'right' } });
      const untouched = refusal !== undefined && auth !== 'none';
      if (untouched) assert.deepEqual(users.json, [{ id: 1, name: 'Ann' }], 'no user was written');
    });
  }

  describe(`gRPC calls with auth=${auth}`, async () => {
    const { http, grpc } = await startService({ after }, { auth, apiKeys: ['right', 'next'], grpcPort: 0 });
    const client = usersClient({ after }, grpc);
    await send(http, 'POST /users', { json: { name: 'Ann' }, headers: json({ 'x-api-key': 'right' }) });
    for (const [what, key, refusal] of credentials) {
      it(`gRPC calls with ${what} are accepted or rejected as auth=${auth} requires`, async () => {
        const metadata = key === undefined ? {} : { 'x-api-key': key };
        const outcome = await getUser(client, 1, { metadata });
        if (refusal === undefined || auth !== 'all') {
          assert.deepEqual([outcome.code, outcome.user], [status.OK, { id: 1, name: 'Ann' }]);
        } else {
          assert.deepEqual(
            [outcome.code, outcome.details, outcome.user],
            [status.UNAUTHENTICATED, refusal, undefined],
          );
        }
      });
    }
  });
}

test('without configured keys, every route that requires a key rejects all requests', async (t) => {
  const { http, grpc } = await startService(t, { auth: 'all', grpcPort: 0 });
  for (const key of ['', 'undefined', 'null', 'x']) {
    for (const line of ['GET /private', 'GET /users', 'GET /metrics']) {
      assert.equal((await send(http, line, { headers: { 'x-api-key': key } })).status, 401, `${line} ${key}`);
    }
    const { code } = await getUser(usersClient(t, grpc), 1, { metadata: { 'x-api-key': key } });
    assert.equal(code, status.UNAUTHENTICATED);
  }
});

test('without a key, a response reveals neither which users exist nor other errors of the request', async (t) => {
  const { http } = await startService(t, { auth: 'all', apiKeys: ['right'] });
  for (const [line, options] of [
    ['GET /users/999', {}],
    ['GET /users/abc', {}],
    ['GET /users?nonsense=1', {}],
    ['POST /users', { body: '{' }],
    ['PUT /users/1', { json: {}, headers: json({ 'if-match': 'nonsense' }) }],
  ] as const) {
    const answer = await send(http, line, options);
    assert.deepEqual([answer.status, errorOf(answer)], [401, required], line);
  }
});

test('other spellings of the path /private do not bypass its key', async (t) => {
  const { http } = await startService(t, { apiKeys: ['right'] });
  for (const target of [
    '/private',
    '/%70rivate',
    '/private?x-api-key=right',
    '/private?',
    '//private',
    '/private/',
    '/./private',
    '/Private',
    '/private%00',
    '/x/../private',
    '/private;x',
  ]) {
    const answer = await send(http, `GET ${target}`);
    assert.ok(answer.status === 401 || answer.status === 404, `${target}: ${answer.status}`);
    assert.doesNotMatch(answer.text, /secretData/);
  }
});

test('a key in another header, in the query or in a cookie is not accepted', async (t) => {
  const { http } = await startService(t, { apiKeys: ['right'] });
  for (const headers of [
    { authorization: 'Bearer right' },
    { cookie: 'x-api-key=right' },
    { 'x-api_key': 'right' },
    { 'api-key': 'right' },
  ]) {
    assert.equal((await send(http, 'GET /private?x-api-key=right', { headers })).status, 401);
  }
});

function json(headers: Readonly<Record<string, string | readonly string[]>>) {
  return { 'content-type': 'application/json', ...headers };
}
