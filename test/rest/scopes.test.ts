import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { Access, parseKey, parseKeys, type Scope, scopes } from '../../src/domain/access.ts';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { errorOf, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

// Every route and method that requires a key, with the required scope and a valid body.
const routes: readonly (readonly [line: string, scope: Scope, body?: unknown])[] = [
  ['GET /users', 'read'],
  ['HEAD /users', 'read'],
  ['GET /users/1', 'read'],
  ['HEAD /users/1', 'read'],
  ['GET /users/1/posts', 'read'],
  ['HEAD /users/1/posts', 'read'],
  ['POST /users', 'write', { name: 'Bob' }],
  ['POST /users/1/posts', 'write', { title: 'Hi' }],
  ['GET /users/1/posts/1', 'read'],
  ['HEAD /users/1/posts/1', 'read'],
  ['PUT /users/1/posts/1', 'write', { title: 'Ho' }],
  ['PATCH /users/1/posts/1', 'write', { title: 'Ha' }],
  ['DELETE /users/1/posts/1', 'write'],
  ['PUT /users/1', 'write', { name: 'Bob' }],
  ['PATCH /users/1', 'write', { name: 'Eve' }],
  ['DELETE /users/1', 'write'],
  ['GET /metrics', 'metrics'],
  ['HEAD /metrics', 'metrics'],
];

const digest = createHash('sha256').update('secret-of-digest').digest('hex');
const keys = [
  'plain',
  'reader:read=r1',
  'writer:write=w1',
  'app:read+write=a1',
  'prom:metrics=m1',
  `hashed:read=sha256:${digest}`,
];
const callers: readonly (readonly [key: string, name: string | undefined, allowed: readonly Scope[]])[] = [
  ['plain', undefined, scopes],
  ['r1', 'reader', ['read']],
  ['w1', 'writer', ['write']],
  ['a1', 'app', ['read', 'write']],
  ['m1', 'prom', ['metrics']],
  ['secret-of-digest', 'hashed', ['read']],
];

for (const auth of ['writes', 'all'] as const) {
  for (const [key, name, allowed] of callers) {
    test(`with auth=${auth}, the key ${name ?? 'without a name'} may ${allowed.join(' and ')}`, async (t) => {
      const { http, grpc, events } = await startService(t, { auth, apiKeys: keys, grpcPort: 0 });
      const headers = { 'content-type': 'application/json', 'x-api-key': key };
      await send(http, 'POST /users', {
        json: { name: 'Ann' },
        headers: { ...headers, 'x-api-key': 'plain' },
      });
      await send(http, 'POST /users/1/posts', {
        json: { title: 'Hi' },
        headers: { ...headers, 'x-api-key': 'plain' },
      });
      for (const [line, scope, body] of routes) {
        const answer = await send(http, line, { headers, ...(body !== undefined && { json: body }) });
        const isOpen = auth === 'writes' && scope === 'read';
        if (isOpen || allowed.includes(scope)) {
          assert.ok(answer.status < 300, `${line}: ${answer.status} ${answer.text}`);
        } else {
          assert.equal(answer.status, 403, line);
          if (!line.startsWith('HEAD')) assert.equal(errorOf(answer), `this key has no ${scope} scope`, line);
        }
        const event = events.findLast((one): one is RequestEvent => one.type === 'request');
        assert.equal(event?.key, isOpen ? undefined : name, line);
      }
      const { code } = await getUser(usersClient(t, grpc), 2, { metadata: { 'x-api-key': key } });
      const isAllowed = auth === 'writes' || allowed.includes('read');
      assert.notEqual(code, status.UNAUTHENTICATED);
      assert.equal(code === status.PERMISSION_DENIED, !isAllowed);
      const event = events.findLast((one): one is RequestEvent => one.type === 'request');
      assert.deepEqual([event?.face, event?.key], ['grpc', auth === 'writes' ? undefined : name]);
    });
  }
}

test('the log event, the metrics and the gRPC event contain the name of a key, and never its secret', async (t) => {
  const { http, grpc, events } = await startService(t, { auth: 'all', apiKeys: keys, grpcPort: 0 });
  await send(http, 'GET /users', { headers: { 'x-api-key': 'a1' } });
  await getUser(usersClient(t, grpc), 1, { metadata: { 'x-api-key': 'a1' } });
  const named = events.filter((event) => event.type === 'request').map(({ face, key }) => [face, key]);
  assert.deepEqual(named, [
    ['http', 'app'],
    ['grpc', 'app'],
  ]);
  const { text } = await send(http, 'GET /metrics', { headers: { 'x-api-key': 'm1' } });
  assert.match(text, /^users_service_key_requests_total\{face="http",key="app"\} 1$/m);
  assert.match(text, /^users_service_key_requests_total\{face="grpc",key="app"\} 1$/m);
  assert.doesNotMatch(JSON.stringify(events) + text, /"a1"/);
});

test('clients with different keys can use the same Idempotency-Key', async (t) => {
  const apiKeys = ['one:write=k1', 'two:write=k2', 'one:write=k3'];
  const { http } = await startService(t, { auth: 'writes', apiKeys });
  const create = async (key: string, name: string) => {
    const headers = { 'x-api-key': key, 'idempotency-key': 'same', 'content-type': 'application/json' };
    return await send(http, 'POST /users', { json: { name }, headers });
  };
  assert.deepEqual((await create('k1', 'Ann')).json, { id: 1, name: 'Ann' });
  assert.deepEqual((await create('k2', 'Bob')).json, { id: 2, name: 'Bob' });
  const rotated = await create('k3', 'Ann');
  assert.deepEqual([rotated.json, rotated.headers['idempotency-replayed']], [{ id: 1, name: 'Ann' }, 'true']);
});

/** Checks a key, and returns its name in a list, which is empty without a name. */
function namesOf(access: Access, key: string, scope: Scope = 'read'): readonly string[] {
  const names: string[] = [];
  access.check(scope, key, (name) => names.push(name));
  return names;
}

test('new keys replace the old ones at once, and a malformed list changes no key', () => {
  const access = new Access('all', ['old']);
  access.setKeys(['a:read=new']);
  assert.deepEqual(namesOf(access, 'new'), ['a']);
  assert.throws(() => namesOf(access, 'old'), /not a valid key/);
  assert.throws(() => access.setKeys(['fine', 'a:raed=x']), TypeError);
  const text: unknown = 'key';
  assert.throws(() => access.setKeys(text as string[]), /^TypeError: API keys must be a list$/);
  assert.deepEqual(namesOf(access, 'new'), ['a']);
});

for (const [key, problem] of [
  ['a:raed=secret', /an API key with a name must have scopes of read, write, metrics/],
  ['a:=secret', /an API key with a name must have scopes/],
  ['a:read+read=secret', /an API key with a name must have scopes/],
  ['a:read+=secret', /an API key with a name must have scopes/],
  ['a:read=', /visible ASCII/],
  ['', /visible ASCII/],
  // The parts of `a:read,write=secret`.
  ['a:read', /NAME:SCOPES=KEY, its scopes joined by \+/],
  ['write=secret', /NAME:SCOPES=KEY/],
  ['a:write+read', /NAME:SCOPES=KEY/],
  ['a:READ', /NAME:SCOPES=KEY/],
  ['a:read=sha256:secret', /64 hexadecimal digits after sha256:/],
  [`a:read=sha256:${digest.slice(1)}`, /64 hexadecimal digits/],
  [`a:read=sha256:${digest}0`, /64 hexadecimal digits/],
  [`SHA256:${digest.slice(1)}`, /64 hexadecimal digits/],
] as const) {
  test(`the key ${JSON.stringify(key)} is rejected, and the error does not contain its secret`, () => {
    assert.throws(
      () => parseKey(key),
      (error: Error) => problem.test(error.message) && !/secret|[0-9a-f]{63}/.test(error.message),
    );
  });
}

for (const list of [
  ['secret', 'secret'],
  ['a:read=secret', 'secret'],
  ['a:read=secret', 'b', 'a:write=secret'],
  ['secret-of-digest', `a:read=sha256:${digest.toUpperCase()}`],
]) {
  test(`the keys ${list.join(' ')} are rejected because they have one secret`, () => {
    const access = new Access('all', ['old']);
    for (const use of [() => new Access('all', list), () => access.setKeys(list)]) {
      assert.throws(use, { name: 'TypeError', message: 'each API key must have a different secret' });
    }
    assert.deepEqual(namesOf(access, 'old'), []);
  });
}

test('the time to parse keys rises with their number, not with its square', () => {
  const keys = Array.from({ length: 30_000 }, (_, i) => `user:read=secret${i}`);
  const startedAt = performance.now();
  assert.equal(parseKeys(keys).length, keys.length);
  // They take less than a second. To compare each key with all earlier ones would take minutes.
  assert.ok(performance.now() - startedAt < 20_000);
});

test('a name may have several secrets, so that a key can be replaced', () => {
  const access = new Access('all', ['a:read=old', 'a:read=new']);
  for (const key of ['old', 'new']) assert.deepEqual(namesOf(access, key), ['a']);
});

for (const secret of ['a/b:read=c', 'a:b/read=c', 'a:b:read=c', `${'a'.repeat(65)}:read=c`]) {
  test(`the key ${secret.slice(0, 10)} has no name and no scopes, so all of it is the secret`, () => {
    const access = new Access('all', [secret]);
    for (const scope of scopes) assert.deepEqual(namesOf(access, secret, scope), []);
    assert.throws(() => namesOf(access, 'c'), /not a valid key/);
  });
}
