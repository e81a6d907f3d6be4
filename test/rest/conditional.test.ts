import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { errorOf, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const post = { id: 1, userId: 1, title: 'Hello', body: '' };
/** Each resource with a version, with its values before and after a change by PUT or PATCH. */
const resources = [
  { path: '/users/1', record: 'user', now: { id: 1, name: 'Anna' }, change: { name: 'Bea' } },
  { path: '/users/1/posts/1', record: 'post', now: post, change: { title: 'Hey' } },
] as const;

/** A service with user 1 and its post 1 at version 2. */
async function startAtVersion2(t: TestContext, options: { requirePreconditions?: boolean } = {}) {
  const repository = createMemoryStore();
  const [user, post] = resources;
  await repository.importRows('users', [{ ...user.now, version: 2 }]);
  await repository.importRows('posts', [{ ...post.now, version: 2 }]);
  return (await startService(t, { repository, publicDir: false, ...options })).http;
}

const reads: readonly [headers: Record<string, string>, status: number][] = [
  [{ 'if-none-match': '"2"' }, 304],
  [{ 'if-none-match': 'W/"2"' }, 304],
  [{ 'if-none-match': '*' }, 304],
  [{ 'if-none-match': '"1", "2"' }, 304],
  [{ 'if-none-match': '"1",W/"2" , "x,y"' }, 304],
  [{ 'if-none-match': '"1"' }, 200],
  [{ 'if-none-match': '"x"' }, 200],
  [{ 'if-none-match': '2' }, 200],
  [{ 'if-none-match': '"2' }, 200],
  [{ 'if-none-match': '' }, 200],
  [{ 'if-none-match': '"1" "2"' }, 200],
  [{ 'if-match': '"2"' }, 200],
  [{ 'if-match': '*' }, 200],
  [{ 'if-match': '"1"' }, 412],
  [{ 'if-match': 'W/"2"' }, 412],
  [{ 'if-match': '"2-gzip"' }, 412],
  [{ 'if-match': '2' }, 400],
  [{ 'if-match': '"2"', 'if-none-match': '"2"' }, 304],
  [{ 'if-match': '"1"', 'if-none-match': '"2"' }, 412],
];
for (const [index, { path }] of resources.entries()) {
  // Both resources share their handlers.
  for (const [headers, status] of index === 0 ? reads : reads.slice(0, 1)) {
    test(`GET ${path} with ${JSON.stringify(headers)} returns ${status}`, async (t) => {
      const http = await startAtVersion2(t);
      for (const method of ['GET', 'HEAD']) {
        const answer = await send(http, `${method} ${path}`, { headers });
        assert.equal(answer.status, status, method);
        if (status < 400) assert.equal(answer.headers.etag, '"2"', method);
        if (status === 304) {
          assert.equal(answer.text, '');
          assert.equal(answer.headers['content-type'], undefined);
          assert.equal(answer.headers['cache-control'], 'private, no-cache');
        }
      }
      const missing = await send(http, `GET ${path.replace(/1$/, '9')}`, {
        headers: { 'if-none-match': '*' },
      });
      assert.equal(missing.status, 404, 'a missing user is not an unmodified one');
    });
  }
}

const unexpected = '1 does not have the expected version';
const malformed = 'If-Match must be * or a list of entity tags such as "1"';
const changes: readonly [headers: Record<string, string | string[]>, status: number, message?: string][] = [
  [{ 'if-match': '"2"' }, 200],
  [{ 'if-match': '"1"' }, 412, unexpected],
  [{}, 200],
  [{ 'if-match': '*' }, 200],
  [{ 'if-match': '"1", "2"' }, 200],
  [{ 'if-match': ['"1"', '"2"'] }, 200],
  [{ 'if-match': ' "7" ,, "2"' }, 200],
  [{ 'if-match': '"3"' }, 412, unexpected],
  [{ 'if-match': 'W/"2"' }, 412, unexpected],
  [{ 'if-match': '"2-gzip"' }, 412, unexpected],
  [{ 'if-match': '"02"' }, 412, unexpected],
  [{ 'if-match': '"2.0"' }, 412, unexpected],
  [{ 'if-match': '"99999999999999999999999"' }, 412, unexpected],
  [{ 'if-match': '""' }, 412, unexpected],
  [{ 'if-match': '"a,b"' }, 412, unexpected],
  [{ 'if-match': '2' }, 400, malformed],
  [{ 'if-match': '' }, 400, malformed],
  [{ 'if-match': ',' }, 400, malformed],
  [{ 'if-match': '"2' }, 400, malformed],
  [{ 'if-match': '*, "2"' }, 400, malformed],
  [{ 'if-match': 'w/"2"' }, 400, malformed],
  [{ 'if-none-match': '*' }, 412, unexpected],
  [{ 'if-none-match': '"2"' }, 400, 'If-None-Match must be * in a change; use If-Match'],
];
const changeLines = resources.flatMap(({ path, change, ...resource }) => {
  const after = { ...resource.now, ...change };
  return [
    { line: `PUT ${path}`, path, options: { json: change }, after, ...resource },
    { line: `PATCH ${path}`, path, options: { json: change }, after, ...resource },
    { line: `DELETE ${path}`, path, options: {}, after: undefined, ...resource },
  ];
});
for (const [index, { line, path, options, after, now, record }] of changeLines.entries()) {
  // All changes share one parser of their conditions.
  for (const [headers, status, message] of index === 0 ? changes : changes.slice(0, 2)) {
    test(`${line} with ${JSON.stringify(headers)} returns ${status}`, async (t) => {
      const http = await startAtVersion2(t);
      const answer = await send(http, line, {
        ...options,
        headers: { ...('json' in options && { 'content-type': 'application/json' }), ...headers },
      });
      assert.equal(answer.status, status === 200 && after === undefined ? 204 : status);
      const then = await send(http, `GET ${path}`);
      if (message !== undefined) {
        assert.equal(errorOf(answer), message === unexpected ? `${record} ${unexpected}` : message);
        assert.deepEqual([then.json, then.headers.etag], [now, '"2"'], 'unchanged');
      } else if (after === undefined) {
        assert.equal(then.status, 404);
      } else {
        assert.deepEqual([then.json, then.headers.etag], [after, '"3"']);
        assert.equal(answer.headers.etag, '"3"');
      }
    });
  }
}

test('a condition on a missing user or post returns 404, not 412', async (t) => {
  const { http } = await startService(t);
  for (const headers of [{ 'if-match': '"1"' }, { 'if-match': '*' }, { 'if-none-match': '*' }]) {
    for (const { line, options } of changeLines) {
      const answer = await send(http, line, {
        ...options,
        headers: { 'content-type': 'application/json', ...headers },
      });
      assert.equal(answer.status, 404, `${line} ${JSON.stringify(headers)}`);
    }
  }
});

test('an invalid body returns 400 even when the condition would fail', async (t) => {
  const http = await startAtVersion2(t);
  const headers = { 'if-match': '"1"', 'content-type': 'application/json' };
  const answer = await send(http, 'PUT /users/1', { json: { name: '' }, headers });
  assert.deepEqual([answer.status, errorOf(answer)], [400, 'name must not be blank']);
});

test('a change of a part, with Content-Range, returns 400 and does not replace the whole', async (t) => {
  const http = await startAtVersion2(t);
  for (const { line, options, path, now } of changeLines.filter(({ after }) => after !== undefined)) {
    const headers = { 'content-range': 'bytes 0-1/9', 'content-type': 'application/json' };
    const answer = await send(http, line, { ...options, headers });
    assert.deepEqual([answer.status, errorOf(answer)], [400, 'Content-Range must be absent'], line);
    assert.deepEqual((await send(http, `GET ${path}`)).json, now);
  }
});

test('requirePreconditions requires If-Match for each change of a user or post, and for no other request', async (t) => {
  const http = await startAtVersion2(t, { requirePreconditions: true });
  for (const { line, options } of changeLines) {
    const answer = await send(http, line, options);
    assert.deepEqual([answer.status, errorOf(answer)], [428, 'If-Match is required'], line);
  }
  assert.equal((await send(http, 'POST /users', { json: { name: 'Bob' } })).status, 201);
  assert.equal((await send(http, 'POST /users/1/posts', { json: { title: 'Hi' } })).status, 201);
  assert.equal((await send(http, 'GET /users/1')).status, 200);
  const post = { headers: { 'if-match': '"2"' } };
  assert.equal((await send(http, 'DELETE /users/1/posts/1', post)).status, 204);
  for (const match of ['"2"', '*']) {
    const headers = { 'if-match': match, 'content-type': 'application/json' };
    assert.equal((await send(http, 'PUT /users/1', { json: { name: 'Bea' }, headers })).status, 200, match);
  }
  assert.equal((await send(http, 'DELETE /users/1', { headers: { 'if-match': '"3"' } })).status, 204);
});
