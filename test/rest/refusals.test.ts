import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Store } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { head, Wire } from '../kit/wire.ts';
import { errorOf, type RequestOptions, send } from '../support/client.ts';
import { type RunningService, startService } from '../support/service.ts';

// Every error that a request can have, and its response. Each runs against a store that contains Ann (1) with
// one post, and must not change it.

type Refusal = readonly [what: string, value: unknown, message: string | RegExp];

const names: readonly Refusal[] = [
  ['a number', 1, 'name must be a string'],
  ['true', true, 'name must be a string'],
  ['an array', ['Ann'], 'name must be a string'],
  ['an object', {}, 'name must be a string'],
  ['empty', '', 'name must not be blank'],
  ['blank', ' \u3000', 'name must not be blank'],
  ['too long', 'x'.repeat(201), 'name must be at most 200 characters'],
  ['too many characters of two units', '😀'.repeat(201), 'name must be at most 200 characters'],
  ['U+0000', 'a\u0000b', 'name must not contain control characters (it has U+0000)'],
  ['a newline', 'a\nb', 'name must not contain control characters (it has U+000A)'],
  ['an escape', 'a\u001b[31m', 'name must not contain control characters (it has U+001B)'],
  ['a C1 control', 'a\u009b', 'name must not contain control characters (it has U+009B)'],
  ['a lone surrogate', 'a\ud800', /^name must be well-formed Unicode/],
];
const roleRule = 'role must be a lower-case letter, then at most 49 of a-z, 0-9, _ and -';
const roles: readonly Refusal[] = [
  ['a number', 1, 'role must be a string'],
  ['an array', ['admin'], 'role must be a string'],
  ['empty', '', roleRule],
  ['capitals', 'Admin', roleRule],
  ['a digit first', '1a', roleRule],
  ['a newline behind', 'admin\n', roleRule],
  ['too long', 'x'.repeat(51), roleRule],
];
const titles = names.map(([what, value, message]): Refusal => {
  const about = message instanceof RegExp ? new RegExp(message.source.replace('name', 'title')) : message;
  return [what, value, typeof about === 'string' ? about.replace('name', 'title') : about];
});
const bodies: readonly Refusal[] = [
  ['null', null, 'body must be a string'],
  ['a number', 1, 'body must be a string'],
  ['too long', 'x'.repeat(10_001), 'body must be at most 10,000 characters'],
  ['U+0000', '\u0000', 'body must not contain control characters (it has U+0000)'],
  ['a carriage return', 'a\r\n', 'body must not contain control characters (it has U+000D)'],
  ['a lone surrogate', '\udc00', /^body must be well-formed Unicode/],
];
const nulls = (field: string): Refusal => ['null', null, `${field} must be a string`];
const objects: readonly Refusal[] = [
  ['null', null, 'the body must be a JSON object'],
  ['an array', [{ name: 'Ann' }], 'the body must be a JSON object'],
  ['text', 'Ann', 'the body must be a JSON object'],
  ['a number', 1, 'the body must be a JSON object'],
];

const post = (title: unknown) => ({ title });
const user = (name: unknown) => ({ name });
const withRole = (role: unknown) => ({ name: 'Bob', role });
const withBody = (body: unknown) => ({ title: 'Hi', body });
const itself = (value: unknown) => value;
type Make = (value: unknown) => unknown;
// All routes share one parser of bodies, so each field has all of its rows on one route.
const table: readonly [line: string, field: string, make: Make, rows: readonly Refusal[]][] = [
  ['POST /users', 'name', user, [nulls('name'), ...names]],
  ['PUT /users/1', 'name', user, [nulls('name')]],
  ['PATCH /users/1', 'name', user, [nulls('name')]],
  ['POST /users', 'role', withRole, [nulls('role'), ...roles]],
  ['PUT /users/1', 'role', withRole, [nulls('role')]],
  ['PATCH /users/1', 'role', withRole, roles.slice(0, 1)],
  ['POST /users/1/posts', 'title', post, [nulls('title'), ...titles]],
  ['PUT /users/1/posts/1', 'title', post, [nulls('title')]],
  ['PATCH /users/1/posts/1', 'title', post, [nulls('title')]],
  ['POST /users/1/posts', 'body', withBody, bodies],
  ['PUT /users/1/posts/1', 'body', withBody, bodies.slice(0, 1)],
  ['PATCH /users/1/posts/1', 'body', withBody, bodies.slice(0, 1)],
  ['POST /users', 'the body', itself, objects],
  ['PUT /users/1', 'the body', itself, objects.slice(0, 1)],
  ['PATCH /users/1', 'the body', itself, objects.slice(0, 1)],
  ['POST /users/1/posts', 'the body', itself, objects.slice(0, 1)],
  ['PUT /users/1/posts/1', 'the body', itself, objects.slice(0, 1)],
  ['PATCH /users/1/posts/1', 'the body', itself, objects.slice(0, 1)],
];

for (const [line, field, make, rows] of table) {
  for (const [what, value, message] of rows) {
    test(`${line} with ${field} ${what} returns 400`, async () =>
      void (await refuse(line, { json: make(value) }, 400, message)));
  }
}

const fields: readonly [line: string, body: unknown, message: string][] = [
  ['POST /users', {}, 'name is required'],
  ['POST /users', { role: 'admin' }, 'name is required'],
  ['PUT /users/1', {}, 'name is required'],
  ['POST /users/1/posts', {}, 'title is required'],
  ['POST /users', { name: 'Bob', id: 7 }, '"id" is not a known field'],
  ['POST /users', { name: 'Bob', Name: 'Bob' }, '"Name" is not a known field'],
  ['POST /users', { name: 'Bob', version: 3 }, '"version" is not a known field'],
  ['PUT /users/1', { name: 'Bob', nick: 'x' }, '"nick" is not a known field'],
  ['PUT /users/1', { name: 'Bob', id: 2 }, 'id must be 1, the one in the path'],
  ['PUT /users/1', { name: 'Bob', id: '1' }, 'id must be 1, the one in the path'],
  ['PATCH /users/1', { id: 1 }, '"id" is not a known field'],
  ['PATCH /users/1', { 'na\nme': 1 }, '"na\\nme" is not a known field'],
  ['PUT /users/1/posts/1', {}, 'title is required'],
  ['PUT /users/1/posts/1', { body: 'x' }, 'title is required'],
  ['PUT /users/1/posts/1', { title: 'x', id: 2 }, 'id must be 1, the one in the path'],
  ['PUT /users/1/posts/1', { title: 'x', id: '1' }, 'id must be 1, the one in the path'],
  ['PUT /users/1/posts/1', { title: 'x', userId: 2 }, 'userId must be 1, the one in the path'],
  ['PUT /users/1/posts/1', { title: 'x', userId: null }, 'userId must be 1, the one in the path'],
  ['PUT /users/1/posts/1', { title: 'x', version: 1 }, '"version" is not a known field'],
  ['PATCH /users/1/posts/1', { id: 1 }, '"id" is not a known field'],
  ['PATCH /users/1/posts/1', { userId: 1 }, '"userId" is not a known field'],
  ['POST /users/1/posts', { title: 'x', userId: 1 }, '"userId" is not a known field'],
  ['POST /users/1/posts', { title: 'x', id: 1 }, '"id" is not a known field'],
];
for (const [line, json, message] of fields) {
  test(`${line} ${JSON.stringify(json)} returns 400`, async () =>
    void (await refuse(line, { json }, 400, message)));
}

test('__proto__, constructor and toString are rejected as unknown fields', async () => {
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    const body = `{"name":"Bob","${name}":{"polluted":true}}`;
    const headers = { 'content-type': 'application/json' };
    await refuse('POST /users', { body, headers }, 400, `"${name}" is not a known field`);
  }
  assert.equal('polluted' in {}, false);
});

const jsonType = { 'content-type': 'application/json' };
const deep = `${'['.repeat(65)}${']'.repeat(65)}`;
const texts: readonly [what: string, body: string | Uint8Array, message: string][] = [
  ['empty', '', 'the body must be JSON, and is empty'],
  ['white space', ' \n', 'the body must be JSON, and is empty'],
  ['cut short', '{"name":"Bob"', 'the body must be well-formed JSON'],
  ['single-quoted', "{'name':'Bob'}", 'the body must be well-formed JSON'],
  ['followed by more', '{"name":"Bob"}{}', 'the body must be well-formed JSON'],
  ['NaN', '{"name":NaN}', 'the body must be well-formed JSON'],
  ['with a raw U+0000', '{"name":"a\u0000"}', 'the body must be well-formed JSON'],
  ['no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'the body must be well-formed UTF-8'],
  ['overlong UTF-8', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), 'the body must be well-formed UTF-8'],
  ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'the body must be well-formed UTF-8'],
  ['65 levels deep', `{"name":${deep.slice(1, -1)}}`, 'the body must be at most 64 levels deep'],
  ['100,000 levels deep', '['.repeat(100_000), 'the body must be at most 64 levels deep'],
];
const bodyLines = [
  'POST /users',
  'PUT /users/1',
  'PATCH /users/1',
  'POST /users/1/posts',
  'PUT /users/1/posts/1',
  'PATCH /users/1/posts/1',
  'POST /echo',
];

for (const [index, line] of bodyLines.entries()) {
  // All routes share one parser of JSON.
  for (const [what, body, message] of index === 0 ? texts : texts.slice(0, 1)) {
    test(`${line} with a body that is ${what} returns 400`, async () =>
      void (await refuse(line, { body, headers: jsonType }, 400, message)));
  }
  const most = line === 'POST /echo' ? 1024 * 1024 : 128 * 1024;
  test(`${line} with a body over ${most} bytes returns 413, with Content-Length or in chunks`, async () => {
    const body = `"${'x'.repeat(most)}"`;
    const message = `the body must be at most ${most} bytes`;
    await refuse(line, { body, headers: jsonType }, 413, message);
    const chunked = { ...jsonType, 'transfer-encoding': 'chunked' };
    await refuse(line, { body, headers: chunked }, 413, message);
  });
}

const types = [
  undefined,
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/json; charset=latin1',
  'application/jsonx',
  'json',
  'application/json, text/plain',
  'application/problem+json',
];
for (const [index, line] of bodyLines.entries()) {
  const patch = line.startsWith('PATCH');
  const taken = patch ? 'application/merge-patch+json, application/json' : 'application/json';
  for (const type of index === 0 ? types : [patch ? 'text/plain' : 'application/merge-patch+json']) {
    test(`${line} with the type ${type} returns 415 and lists the accepted types`, async () => {
      const headers = type === undefined ? {} : { 'content-type': type };
      const message = `Content-Type must be ${taken.replace(', ', ' or ')} in UTF-8`;
      const options = { body: '{"name":"Bob"}', headers };
      const { headers: responseHeaders } = await refuse(line, options, 415, message);
      const accept = patch ? 'accept-patch' : line.startsWith('POST') ? 'accept-post' : 'accept';
      assert.equal(responseHeaders[accept], taken);
    });
  }
}

test('a body with a content coding returns 415, and the accepted one', async () => {
  const sent = { body: 'x', headers: { ...jsonType, 'content-encoding': 'gzip' } };
  const { headers } = await refuse('POST /users', sent, 415, 'Content-Encoding must be identity');
  assert.equal(headers['accept-encoding'], 'identity');
});

const idLines = ['GET', 'PUT', 'PATCH', 'DELETE'].map((method) => `${method} /users/ID`);
const ids: readonly [id: string, status: number, message: string][] = [
  ['0', 400, 'id must be a positive integer'],
  ['-1', 400, 'id must be a positive integer'],
  ['01', 400, 'id must be a positive integer'],
  ['+1', 400, 'id must be a positive integer'],
  ['1.0', 400, 'id must be a positive integer'],
  ['1e0', 400, 'id must be a positive integer'],
  ['0x1', 400, 'id must be a positive integer'],
  ['abc', 400, 'id must be a positive integer'],
  ['%31%00', 400, 'id must be a positive integer'],
  ['%D9%A1', 400, 'id must be a positive integer'],
  ['%20', 400, 'id must be a positive integer'],
  ['1%2F', 400, 'id must be a positive integer'],
  ['%zz', 400, 'the path has malformed percent-encoding'],
  ['%', 400, 'the path has malformed percent-encoding'],
  ['%ff', 400, 'the path has malformed percent-encoding'],
  ['2', 404, 'user 2 not found'],
  ['2147483647', 404, 'user 2147483647 not found'],
  ['2147483648', 404, 'no user has an id above 2147483647'],
  ['9'.repeat(1_000), 404, 'no user has an id above 2147483647'],
];
for (const [index, line] of [...idLines, 'GET /users/ID/posts', 'POST /users/ID/posts'].entries()) {
  // All routes share one parser of ids.
  for (const [id, status, message] of index === 0 ? ids : ids.filter(([id]) => id === '0' || id === '2')) {
    test(`${line.replace('ID', id.slice(0, 20))} returns ${status}`, async () => {
      const json = line.endsWith('posts') ? { title: 'x' } : { name: 'x' };
      await refuse(line.replace('ID', id), /^P/.test(line) ? { json } : {}, status, message);
    });
  }
}

for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
  for (const [path, status, message] of [
    ['/users/0/posts/1', 400, 'id must be a positive integer'],
    ['/users/1/posts/0', 400, 'postId must be a positive integer'],
    ['/users/2147483648/posts/1', 404, 'no user has an id above 2147483647'],
    ['/users/1/posts/2147483648', 404, 'no post has an id above 2147483647'],
    ['/users/1/posts/2', 404, 'post 2 of user 1 not found'],
    ['/users/2/posts/1', 404, 'post 1 of user 2 not found'],
  ] as const) {
    test(`${method} ${path} returns ${status}`, async () => {
      const options = method.startsWith('P') ? { json: { title: 'x' } } : {};
      await refuse(`${method} ${path}`, options, status, message);
    });
  }
}

interface Shared {
  readonly repository: Store;
  readonly running: RunningService;
}

// All tests share a service, but the test after a failed one gets another.
let shared: Shared | undefined;
const closing: (() => void | Promise<void>)[] = [];
after(async () => {
  for (const close of closing) await close();
});

async function start(): Promise<Shared> {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ann', role: 'admin' });
  await repository.posts(1).create({ title: 'Hi', body: '' });
  return {
    repository,
    running: await startService({ after: (close) => closing.push(close) }, { repository }),
  };
}

async function refuse(line: string, options: RequestOptions, status: number, message: string | RegExp) {
  const current = shared ?? (await start());
  shared = undefined;
  const { repository, running } = current;

  const answer = await send(running.http, line, options);

  assert.equal(answer.status, status, answer.text);
  if (message instanceof RegExp) assert.match(errorOf(answer), message);
  else assert.equal(errorOf(answer), message);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.deepEqual(running.failures(), []);
  const stored = {
    users: await repository.exportRows('users', 0, 10),
    posts: await repository.exportRows('posts', 0, 10),
  };
  const before = {
    users: [{ id: 1, name: 'Ann', role: 'admin', version: 1 }],
    posts: [{ id: 1, userId: 1, title: 'Hi', body: '', version: 1 }],
  };
  assert.deepEqual(stored, before, 'the stored data has not changed');
  shared = current;
  return answer;
}

const unfinished: readonly [what: string, lines: readonly string[], body: string, status: number][] = [
  ['malformed', ['Transfer-Encoding: chunked'], 'ZZ\r\n', 400],
  ['late', ['Content-Length: 5'], 'ab', 408],
  ['too long', ['Content-Length: 200000'], '', 413],
  ['too long, as its client asks first', ['Content-Length: 200000', 'Expect: 100-continue'], '', 413],
];
for (const [what, lines, body, status] of unfinished) {
  test(`a DELETE whose body is ${what} deletes nothing`, async (t) => {
    const timeouts = { headersTimeoutMs: 200, requestTimeoutMs: 400, checkingIntervalMs: 50 };
    const { http, port } = await startService(t, { timeouts });
    await send(http, 'POST /users', { json: { name: 'Ann' } });
    const wire = (await Wire.open(t, port)).write(head('DELETE /users/1', ...lines), body);
    assert.equal((await wire.next()).status, status);
    assert.equal((await send(http, 'GET /users/1')).status, 200);
  });
}
