import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { DomainError, type ErrorKind } from '../../src/domain/errors.ts';
import type { Position } from '../../src/domain/list-query.ts';
import { postFields } from '../../src/domain/post.ts';
import { userFields } from '../../src/domain/user.ts';
import type { HttpRequest } from '../../src/http/request.ts';
import { allRows, memoize, monitorLinks } from '../../src/rest/paging.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { type Answer, errorOf, send } from '../support/client.ts';
import { storeWithFeed } from '../support/feed-store.ts';
import { startService } from '../support/service.ts';

const people = [
  { name: 'b', role: 'dev' },
  { name: 'a', role: 'admin' },
  { name: 'c' },
  { name: 'a', role: 'dev' },
  { name: 'B', role: 'dev' },
];

async function startWithUsers(t: TestContext, drafts: readonly { name: string; role?: string }[] = people) {
  const repository = createMemoryStore();
  for (const draft of drafts) await repository.users.create(draft);
  await repository.posts(1).create({ title: 'z', body: '' });
  await repository.posts(1).create({ title: 'y', body: '' });
  await repository.posts(1).create({ title: 'x', body: '' });
  return await startService(t, { repository });
}

function idsOf({ json }: Answer): unknown[] {
  assert.ok(Array.isArray(json), 'a bare array');
  return json.map((item: { id: unknown }) => item.id);
}

/** The targets of a Link header by their relation. */
function linksOf({ headers }: Answer): Record<string, string> {
  const found = String(headers['link'] ?? '').matchAll(/<([^>]*)>; rel="(\w+)"(?:, |$)/g);
  return Object.fromEntries([...found].map(([, target = '', rel = '']) => [rel, target]));
}

const lists: readonly [target: string, ids: readonly number[]][] = [
  ['/users', [1, 2, 3, 4, 5]],
  ['/users?', [1, 2, 3, 4, 5]],
  ['/users?sort=id', [1, 2, 3, 4, 5]],
  ['/users?sort=-id', [5, 4, 3, 2, 1]],
  ['/users?sort=name', [5, 2, 4, 1, 3]],
  ['/users?sort=-name', [3, 1, 4, 2, 5]],
  ['/users?sort=role', [3, 2, 1, 4, 5]],
  ['/users?sort=-role', [5, 4, 1, 2, 3]],
  ['/users?sort=name,-role', [5, 4, 2, 1, 3]],
  ['/users?sort=name,-id', [5, 4, 2, 1, 3]],
  ['/users?sort=name%2C-id', [5, 4, 2, 1, 3]],
  ['/users?role=dev', [1, 4, 5]],
  ['/users?r%6Fle=d%65v', [1, 4, 5]],
  ['/users?role=nobody', []],
  ['/users?limit=2', [1, 2]],
  ['/users?limit=2&page=2', [3, 4]],
  ['/users?limit=2&page=3', [5]],
  ['/users?limit=2&page=4', []],
  ['/users?limit=100', [1, 2, 3, 4, 5]],
  ['/users?page=1', [1, 2, 3, 4, 5]],
  ['/users?&page=1&&', [1, 2, 3, 4, 5]],
  ['/users?role=dev&sort=-name&limit=1&page=2', [4]],
  ['/users/1/posts', [1, 2, 3]],
  ['/users/1/posts?sort=title', [3, 2, 1]],
  ['/users/1/posts?sort=-id', [3, 2, 1]],
  ['/users/1/posts?limit=2&page=2', [3]],
  ['/users/1/posts?limit=2&page=9', []],
];
for (const [target, ids] of lists) {
  test(`GET ${target} returns the ids ${ids.join(', ') || '(none)'}`, async (t) => {
    const { http } = await startWithUsers(t);
    const answer = await send(http, `GET ${target}`);
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(idsOf(answer), ids);
  });
}

const number = 'must be a whole number from 1';
const beyond = 'page starts beyond 100000 rows: follow the "next" link and its cursor instead';
const sortRule = 'sort must be a comma list of FIELDS; - before a field sorts it in descending order';
// One query for each message: the parser has its own tests.
const refusals: readonly [query: string, message: string][] = [
  ['sort=id%20desc', sortRule],
  ['cursor=x', 'cursor does not belong to this list, filter and sort'],
  ['page=0', `page ${number}`],
  ['page=99999999999999999999', beyond],
  ['limit=101', `limit ${number} to 100`],
  ['sort=id,-id', 'sort names id twice'],
  ['page=1&page=2', 'page must be given once'],
  ['page=1&cursor=x', 'page and cursor exclude each other'],
  ['__proto__=1', '"__proto__" is not a known parameter'],
  ['a%0Ab=1', '"a\\nb" is not a known parameter'],
  [`${'x'.repeat(61)}=1`, `"${'x'.repeat(60)}…" is not a known parameter`],
  ['page=%', 'the query has malformed percent-encoding'],
  ['%ff=1', 'the query has malformed percent-encoding'],
  ['page=%E0%A4', 'the query has malformed percent-encoding'],
];
for (const [path, fields, rows] of [
  ['/users', userFields, refusals],
  ['/users/1/posts', postFields, refusals.slice(0, 2)],
] as const) {
  for (const [query, message] of rows) {
    test(`GET ${path}?${query} returns 400`, async (t) => {
      const { http } = await startWithUsers(t);
      const answer = await send(http, `GET ${path}?${query}`);
      assert.equal(answer.status, 400);
      assert.equal(errorOf(answer), message.replace('FIELDS', Object.keys(fields).join(', ')));
    });
  }
}

test('GET /users with an invalid role returns 400', async (t) => {
  const { http } = await startWithUsers(t);
  const message = 'role must be a lower-case letter, then at most 49 of a-z, 0-9, _ and -';
  for (const query of ['role=a+b', "role='%20OR%201=1"]) {
    const answer = await send(http, `GET /users?${query}`);
    assert.deepEqual([answer.status, errorOf(answer)], [400, message]);
  }
});

test('Link contains those of first, prev, next and monitor that apply, with filter, sort and limit', async (t) => {
  const { http } = await startWithUsers(t);
  const first = linksOf(await send(http, 'GET /users?limit=2&sort=-name&role=dev'));
  assert.equal(first['first'], '/users?limit=2&sort=-name&role=dev');
  assert.equal(first['prev'], undefined);
  assert.match(String(first['next']), /^\/users\?limit=2&sort=-name&role=dev&cursor=[\w-]+$/);

  const second = linksOf(await send(http, 'GET /users?page=2&limit=2'));
  assert.deepEqual([second['first'], second['prev']], ['/users?limit=2&page=1', '/users?limit=2&page=1']);
  assert.match(String(second['next']), /^\/users\?limit=2&cursor=[\w-]+$/);

  const last = linksOf(await send(http, 'GET /users?page=3&limit=2'));
  const links = { first: '/users?limit=2&page=1', prev: '/users?limit=2&page=2' };
  assert.deepEqual(last, { ...links, monitor: '/changes?after=8' });
  assert.deepEqual(linksOf(await send(http, 'GET /users/1/posts?limit=3')), {
    first: '/users/1/posts?limit=3',
    monitor: '/changes?after=8&user=1',
  });
  // Without a limit, all posts are one page.
  assert.deepEqual(linksOf(await send(http, 'GET /users/1/posts')), { monitor: '/changes?after=8&user=1' });
});

test('the first link of a page of posts leads to a page, not to all posts', async (t) => {
  const { http } = await startWithUsers(t);
  for (let i = 1; i <= 21; i += 1) await send(http, 'POST /users/1/posts', { json: { title: `${i}` } });
  const page = linksOf(await send(http, 'GET /users/1/posts?page=1'));
  for (const links of [page, linksOf(await send(http, `GET ${page['next']}`))]) {
    const first = await send(http, `GET ${links['first']}`);
    assert.deepEqual([idsOf(first).length, linksOf(first)['next']], [20, page['next']]);
  }
});

test('lists of one turn of the event loop share a position of their links to changes, and later lists read it again', async () => {
  const { store: repository, feed: changes } = storeWithFeed();
  let reads = 0;
  const position = () => {
    reads += 1;
    return Promise.resolve(reads);
  };
  const linkChanges = monitorLinks({ ...repository, changes: { ...changes, position } });
  const request = { basePath: '/api' } as HttpRequest;
  const links = await Promise.all([linkChanges(request), linkChanges(request, 7)]);
  assert.deepEqual(links.flat(), [
    '</api/changes?after=1>; rel="monitor"',
    '</api/changes?after=1&user=7>; rel="monitor"',
  ]);
  await setImmediate();
  assert.deepEqual(await linkChanges(request), ['</api/changes?after=2>; rel="monitor"']);
});

test('lists have no link to changes while the feed is unavailable, overloaded or too slow', async (t) => {
  const { store: repository, feed: changes } = storeWithFeed();
  let kind: ErrorKind;
  const position = () => Promise.reject(new DomainError(kind, 'no position'));
  const store = { ...repository, changes: { ...changes, position } };
  const { http } = await startService(t, { repository: store, expectFailures: true });
  for (kind of ['unavailable', 'overloaded', 'deadline-exceeded'] as const) {
    const list = await send(http, 'GET /users');
    assert.deepEqual([list.status, linksOf(list)], [200, { first: '/users' }], kind);
  }
  kind = 'internal';
  assert.equal((await send(http, 'GET /users')).status, 500);
});

test('Link never contains a host from the Host header or from an absolute request target', async (t) => {
  const { http } = await startWithUsers(t);
  const lines = ['GET /users?limit=2', 'GET http://evil.example/users?limit=2'];
  for (const line of lines) {
    const answer = await send(http, line, {
      headers: { host: 'evil.example', 'x-forwarded-host': 'evil.example' },
    });
    assert.equal(answer.status, 200);
    assert.match(
      String(answer.headers['link']),
      /^<\/users\?limit=2>; rel="first", <\/users\?limit=2&cursor=[\w-]+>; rel="next", <\/changes\?after=8>; rel="monitor"$/,
    );
  }
});

test('the links of the longest filter fit into 12 KB, which the documented proxies allow', async (t) => {
  const name = '😀'.repeat(200);
  const { http } = await startWithUsers(t, [{ name }, { name }, { name }]);
  const filter = `name=${encodeURIComponent(name)}&sort=name`;
  const answer = await send(http, `GET /users?limit=1&page=2&${filter}`);
  assert.deepEqual(Object.keys(linksOf(answer)), ['first', 'prev', 'next', 'monitor']);
  assert.ok(String(answer.headers['link']).length < 12_000);
});

test('a cursor is only accepted for the list, filter and sort that it was created for', async (t) => {
  const { http } = await startWithUsers(t);
  await send(http, 'POST /users/2/posts', { json: { title: 'p' } });
  await send(http, 'POST /users/2/posts', { json: { title: 'q' } });
  const next = linksOf(await send(http, 'GET /users?limit=1&sort=name&role=dev'))['next'] ?? '';
  assert.deepEqual(idsOf(await send(http, `GET ${next}`)), [4]);
  const posts = linksOf(await send(http, 'GET /users/1/posts?limit=1'))['next'] ?? '';
  const cursor = new URLSearchParams(next.split('?')[1]).get('cursor') ?? '';
  const bytes = Buffer.from(cursor, 'base64url');
  assert.equal(bytes.toString(), '{"filter":{"role":"dev"},"sort":"name,id","after":["B",5]}');
  const made = (text: string) => next.replace(cursor, Buffer.from(text).toString('base64url'));

  for (const target of [
    next.replace('sort=name', 'sort=-name'),
    next.replace('&sort=name', ''),
    next.replace('role=dev', 'role=admin'),
    next.replace('&role=dev', ''),
    `${next}&name=B`,
    `${next}&id=4,5`,
    `${posts}&title=x`,
    next.replace('/users?', '/users/1/posts?').replace('&role=dev', '').replace('sort=name', 'sort=title'),
    posts.replace('/users/1/', '/users/2/'),
    next.replace(cursor, bytes.toString('base64')),
    next.replace(cursor, bytes.toString('hex')),
    made(`${bytes} `),
    made(bytes.toString().replace('"after"', '"more":1,"after"')),
    made(bytes.toString().replace('["B",5]', '["B","5"]')),
    made(bytes.toString().replace('["B",5]', '["B",5,5]')),
    made(bytes.toString().replace('["B",5]', '[5,5]')),
    made(bytes.toString().replace(',"after":["B",5]', '')),
    made('null'),
    made('[]'),
    next.replace(cursor, `${cursor}A`),
    next.replace(cursor, cursor.slice(1)),
    next.replace(cursor, `${cursor}%3D`),
  ]) {
    const answer = await send(http, `GET ${target}`);
    assert.equal(answer.status, 400, target);
    assert.match(errorOf(answer), /^cursor does not belong to this list/);
  }
  const { status } = await send(http, `GET ${next.replace('limit=1', 'limit=9')}`);
  assert.equal(status, 200, 'the limit may differ');
});

/** The ids of all pages of a list, along their links. */
async function walk(http: string, first: string): Promise<unknown[]> {
  const ids: unknown[] = [];
  for (let next: string | undefined = first; next !== undefined; ) {
    const answer: Answer = await send(http, `GET ${next}`, { undocumented: true });
    assert.equal(answer.status, 200, answer.text);
    ids.push(...idsOf(answer));
    next = linksOf(answer)['next'];
  }
  return ids;
}

// Another program, or a host of the library, may have written them.
for (const [target, ids] of [
  ['/users?sort=name', [3, 4, 6, 7, 1, 2, 5]],
  ['/users?sort=-name', [5, 2, 1, 7, 6, 4, 3]],
  ['/users?sort=role', [1, 4, 6, 7, 2, 3, 5]],
  ['/users?sort=-role', [5, 3, 2, 7, 6, 4, 1]],
  ['/users/1/posts?sort=title', [2, 1, 3]],
] as const) {
  test(`a walk along ${target} returns also the rows whose texts break the rules of the API`, async (t) => {
    const repository = createMemoryStore();
    for (const draft of [
      { name: 'a\tb' },
      { name: 'x'.repeat(201), role: 'Admin' },
      { name: '', role: 'a b' },
      { name: ' ', role: '' },
      { name: '\u009b1m', role: 'dev' },
      { name: 'Ada' },
      { name: 'a\0b' },
    ])
      await repository.users.create(draft);
    for (const title of ['a\tb', '', 'x'.repeat(201)]) await repository.posts(1).create({ title, body: '' });
    const { http } = await startService(t, { repository });
    assert.deepEqual(await walk(http, `${target}&limit=1`), ids);
  });
}

for (const [prefer, counts] of [
  ['count=exact', true],
  ['Count="exact"', true],
  ['respond-async, count = exact; foo=1', true],
  ['return=minimal', false],
  ['count=none', false],
  ['count=exactly', false],
  ['discount=exact', false],
] as const) {
  test(`a list with Prefer: ${prefer} has ${counts ? 'a' : 'no'} total count`, async (t) => {
    const { http } = await startWithUsers(t);
    for (const [target, total] of [
      ['/users?role=dev&limit=1', '3'],
      ['/users/1/posts', '3'],
      ['/users/1/posts?limit=1', '3'],
    ] as const) {
      const { headers } = await send(http, `GET ${target}`, { headers: { prefer } });
      assert.equal(headers['x-total-count'], counts ? total : undefined, target);
      assert.equal(headers['preference-applied'], counts ? 'count=exact' : undefined, target);
      assert.equal(headers['vary'], 'prefer');
    }
  });
}

const searches: readonly (readonly [target: string, message: string])[] = [
  ['/users?name=', 'name must not be empty'],
  ['/users?name=a%00', 'name must not contain control characters (it has U+0000)'],
  ['/users?id=', 'id must be positive integers, as in 1,2,3'],
  ['/users?id=1,b', 'id must be positive integers, as in 1,2,3'],
  [`/users?id=${Array(101).fill(1)}`, 'id must be at most 100 ids'],
  ['/users/1/posts?title=', 'title must not be empty'],
  ['/users/1/posts?name=a', '"name" is not a known parameter'],
];
for (const [target, message] of searches) {
  test(`GET ${target.slice(0, 40)} returns 400`, async (t) => {
    const { http } = await startWithUsers(t);
    const answer = await send(http, `GET ${target}`);
    assert.deepEqual([answer.status, errorOf(answer)], [400, message]);
  });
}

test('a search has its filter in the links of its pages, and its matches can be counted', async (t) => {
  const { http } = await startService(t);
  for (const name of ['100% & more', '100%', '100 km', '100%!'])
    await send(http, 'POST /users', { json: { name } });
  const names: unknown[] = [];
  let target: string | undefined = '/users?name=100%25&sort=-name&limit=1';
  while (target !== undefined) {
    const answer = await send(http, `GET ${target}`, { headers: { prefer: 'count=exact' } });
    assert.equal(answer.headers['x-total-count'], '3');
    assert.ok(Array.isArray(answer.json));
    names.push(...answer.json.map((user) => user.name));
    target = linksOf(answer)['next'];
  }
  assert.deepEqual(names, ['100%!', '100% & more', '100%']);
});

test('a filter by ids returns the users in the order of the list and in pages', async (t) => {
  const { http } = await startWithUsers(t);
  const first = await send(http, 'GET /users?id=5,1,99,3,1&sort=-id&limit=2', {
    headers: { prefer: 'count=exact' },
  });
  assert.deepEqual(idsOf(first), [5, 3]);
  assert.equal(first.headers['x-total-count'], '3');
  assert.deepEqual(idsOf(await send(http, `GET ${linksOf(first)['next']}`)), [1]);
});

test('a repeated list request returns changed rows and links', async (t) => {
  const { http } = await startWithUsers(t);
  const target = 'GET /users?role=dev&sort=name&limit=2';
  const before = await send(http, target);
  assert.deepEqual(idsOf(before), [5, 4]);
  assert.equal((await send(http, 'DELETE /users/5')).status, 204);
  const after = await send(http, target);
  assert.deepEqual(idsOf(after), [4, 1]);
  assert.equal(linksOf(before)['first'], linksOf(after)['first']);
  assert.deepEqual(Object.keys(linksOf(after)), ['first', 'monitor']);
});

test('a streamed list starts a new chunk after the row that fills one, and reads no row twice', async () => {
  const rows = [{ id: 1 }, { id: 2 }, { id: 3 }, { id: 4 }];
  const request = { chunkBytes: '{"id":1},{"id":2}'.length } as HttpRequest;
  const query = { sort: [{ field: 'id', descending: false }], limit: 4, start: { offset: 0 } };
  const fetched: Position[] = [];
  const fetchPage = async ({ start, limit }: { start: object; limit: number }) => {
    const { after } = start as { after: Position };
    fetched.push(after);
    return { items: rows.slice(Number(after), Number(after) + limit) };
  };
  const list = (first: typeof rows) => allRows(request, query, { items: first }, fetchPage, (row) => row);
  const reply = list(rows);
  const chunks: unknown[] = [];
  if (typeof reply !== 'string') for await (const chunk of reply.chunks) chunks.push(chunk);
  // Bytes are not in the heap while they wait for the client.
  const [whole, rest] = ['[{"id":1},{"id":2}', ',{"id":3},{"id":4}'].map((text) => Buffer.from(text));
  assert.deepEqual(chunks, [whole, rest, ']']);
  assert.deepEqual(fetched, [[2]]);
  assert.equal(list(rows.slice(0, 2)), '[{"id":1},{"id":2}]', 'a list of one chunk is not streamed');
});

test('the parsed queries of up to 256 lists are cached for each base path, but no cursors', () => {
  const parsed: string[] = [];
  const parse = memoize(({ target }) => parsed.push(target.query));
  const list = (query: string, basePath = '') => {
    const before = parsed.length;
    parse({ basePath, target: { path: '/users', query } } as HttpRequest);
    return parsed.length === before ? 'cached' : 'parsed';
  };
  const pages = Array.from({ length: 256 }, (_, i) => `page=${i}`);
  assert.ok(pages.every((page) => list(page) === 'parsed'));
  assert.ok(pages.every((page) => list(page) === 'cached'));
  assert.deepEqual([list('cursor=a'), list('cursor=a')], ['parsed', 'parsed']);
  assert.deepEqual([list('page=256'), list('page=0')], ['parsed', 'parsed']);
  assert.deepEqual([list('page=0'), list('page=0', '/api')], ['cached', 'parsed']);
});
