import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const app = 'https://app.example';
const preflight = {
  origin: app,
  'access-control-request-method': 'PUT',
  'access-control-request-headers': 'if-match',
};

function corsOf(headers: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(headers).filter((name) => name.startsWith('access-control-'));
}

test('pages of an app, whose origin is not one of HTTP, may read responses if it is listed', async (t) => {
  const origin = 'capacitor://localhost';
  const { http } = await startService(t, { cors: [origin] });
  const allowed = async (sent: string) =>
    (await send(http, 'GET /users', { headers: { origin: sent } })).headers['access-control-allow-origin'];
  assert.deepEqual([await allowed(origin), await allowed('tauri://localhost')], [origin, undefined]);
});

test('without the option cors, responses have no CORS headers', async (t) => {
  const { http } = await startService(t);
  for (const line of ['GET /users', 'OPTIONS /users', 'GET /nowhere']) {
    const { headers } = await send(http, line, { headers: preflight });
    assert.deepEqual(corsOf(headers), [], line);
  }
});

test('pages of a listed origin may read all responses and their headers', async (t) => {
  const cors = [app, 'http://localhost:8080'];
  const { http } = await startService(t, { cors, auth: 'writes', expectFailures: true });
  for (const line of [
    'GET /users',
    'HEAD /users',
    'GET /',
    'GET /users/9',
    'GET /users?x=1',
    'POST /users',
    'DELETE /health',
    'GET /boom',
    'GET /nowhere',
    'TRACE /',
  ]) {
    for (const origin of [app, 'http://localhost:8080']) {
      // The header of a preflight request has a meaning only with OPTIONS.
      const sent = { origin, 'access-control-request-method': 'PUT' };
      const { headers } = await send(http, line, { headers: sent });
      assert.equal(headers['access-control-allow-origin'], origin, line);
      assert.match(String(headers.vary), /\borigin\b/, line);
      const exposed = String(headers['access-control-expose-headers']).toLowerCase().split(', ');
      for (const name of [
        'etag',
        'link',
        'location',
        'x-total-count',
        'retry-after',
        'idempotency-replayed',
        'allow',
        'www-authenticate',
        'accept',
        'accept-encoding',
        'accept-patch',
        'accept-post',
      ]) {
        assert.ok(exposed.includes(name), name);
      }
      assert.equal(headers['access-control-allow-credentials'], undefined);
    }
  }
});

test('an origin that is not listed, or only resembles one that is, receives no CORS headers', async (t) => {
  const { http } = await startService(t, { cors: [app] });
  for (const origin of [
    'https://evil.example',
    `${app}.evil.example`,
    'http://app.example',
    `${app}:444`,
    'null',
    '',
    `${app}, ${app}`,
    '*',
  ]) {
    for (const line of ['GET /users', 'OPTIONS /users']) {
      const { headers, status } = await send(http, line, { headers: { ...preflight, origin } });
      assert.ok(status < 300);
      assert.deepEqual(corsOf(headers), [], origin);
      assert.match(String(headers.vary), /\borigin\b/, 'a cache must not reuse it for the listed origin');
    }
  }
});

test('a preflight request allows every method and header of the API', async (t) => {
  const { http } = await startService(t, { cors: [app], auth: 'all' });
  for (const path of ['/users', '/users/1', '/users/1/posts', '/echo', '/private']) {
    const { status, headers, text } = await send(http, `OPTIONS ${path}`, { headers: preflight });
    assert.deepEqual([status, text], [204, ''], `${path}: browsers send no key with a preflight`);
    assert.equal(headers['access-control-allow-origin'], app);
    assert.deepEqual(String(headers['access-control-allow-methods']).split(', '), [
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
      'OPTIONS',
    ]);
    const allowed = String(headers['access-control-allow-headers']).toLowerCase().split(', ');
    for (const name of [
      'content-type',
      'cache-control',
      'if-match',
      'if-modified-since',
      'if-none-match',
      'if-range',
      'if-unmodified-since',
      'idempotency-key',
      'prefer',
      'x-api-key',
      'x-request-id',
      'traceparent',
      'tracestate',
      'baggage',
    ]) {
      assert.ok(allowed.includes(name), name);
    }
    assert.equal(headers['access-control-max-age'], '7200');
    assert.notEqual(headers.allow, undefined);
  }
  const plain = await send(http, 'OPTIONS /users', { headers: { origin: app } });
  const allowed = plain.headers['access-control-allow-methods'];
  assert.equal(allowed, undefined, 'OPTIONS without its headers is not a preflight');
});

test('a preflight request for an unknown path is allowed, so that the page can read the 404', async (t) => {
  const { http } = await startService(t, { cors: [app] });
  for (const path of ['/userz', '/users/1/post', '/']) {
    const { status, headers } = await send(http, `OPTIONS ${path}`, { headers: preflight });
    assert.deepEqual([status, headers['access-control-allow-origin']], [204, app], path);
    assert.match(String(headers['access-control-allow-methods']), /PUT/, path);
  }
  const actual = await send(http, 'PUT /userz', { headers: { origin: app } });
  assert.deepEqual([actual.status, actual.headers['access-control-allow-origin']], [404, app]);
  assert.equal((await send(http, 'OPTIONS /userz', { headers: { origin: app } })).status, 404);
  assert.equal((await send(http, 'OPTIONS /%', { headers: preflight })).status, 400);
  const { http: withoutCors } = await startService(t);
  assert.equal((await send(withoutCors, 'OPTIONS /userz', { headers: preflight })).status, 404);
});

test('with cors=*, pages of every origin may read the same response', async (t) => {
  const { http } = await startService(t, { cors: ['*'] });
  // A cache may give the response to a request without an origin to a page.
  for (const sent of [{ origin: app }, { origin: 'null' }, { origin: 'https://evil.example' }, {}]) {
    const { headers } = await send(http, 'GET /users', { headers: sent });
    assert.equal(headers['access-control-allow-origin'], '*');
    assert.match(String(headers['access-control-expose-headers']), /ETag.*Content-Range/);
    assert.equal(headers.vary, 'prefer');
  }
});
