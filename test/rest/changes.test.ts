import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { ChangesGone, changeTypes } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { MemoryBudget } from '../../src/http/memory-budget.ts';
import { scheduler } from '../../src/http/scheduler.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { type Answer, errorOf, send } from '../support/client.ts';
import { storeWithFeed } from '../support/feed-store.ts';
import { startService } from '../support/service.ts';
import { runTool } from '../support/tool.ts';

interface Event {
  readonly [attribute: string]: unknown;
}

function eventsOf({ status, json }: Answer): readonly Event[] {
  assert.equal(status, 200);
  assert.ok(Array.isArray(json));
  return json;
}

const rowsOf = eventsOf;

function linkOf({ headers }: Answer, rel: string): string | undefined {
  return RegExp(`<([^>]*)>; rel="${rel}"`).exec(String(headers['link']))?.[1];
}

const typesOf = (answer: Answer) => eventsOf(answer).map(({ type, subject }) => `${type} ${subject}`);

function nextOf({ headers }: Answer): string {
  const [, next = ''] = /^<([^>]*)>; rel="next"$/.exec(String(headers['link'])) ?? [];
  assert.notEqual(next, '', 'the page has a next link');
  return next;
}

/** A service after changes of every type. */
async function startWithHistory(t: TestContext) {
  const running = await startService(t);
  const { http } = running;
  for (const [line, json] of [
    ['POST /users', { name: 'Ada', role: 'admin' }],
    ['POST /users', { name: 'Grace' }],
    ['PATCH /users/1', { role: null }],
    ['PATCH /users/1', {}],
    ['POST /users/1/posts', { title: 'Notes', body: 'a\nb' }],
    ['PUT /users/1/posts/1', { title: 'Notes' }],
    ['POST /users/1/posts', { title: 'More' }],
    ['DELETE /users/1/posts/2', undefined],
    ['DELETE /users/1', undefined],
  ] as const) {
    assert.ok((await send(http, line, json === undefined ? {} : { json })).status < 300, line);
  }
  return running;
}

const history = [
  'user.created users/1',
  'user.created users/2',
  'user.updated users/1',
  'post.created users/1/posts/1',
  'post.updated users/1/posts/1',
  'post.created users/1/posts/2',
  'post.deleted users/1/posts/2',
  'post.deleted users/1/posts/1',
  'user.deleted users/1',
];

describe('GET /changes', () => {
  it('returns a batch of CloudEvents with the record, its version, the request id and the name of the key', async (t) => {
    const { http } = await startService(t, { auth: 'writes', apiKeys: ['crm:write=secret', 'plain'] });
    const json = { name: 'Ada' };
    const headers = { 'x-request-id': 'first', 'x-api-key': 'secret' };
    await send(http, 'POST /users', { json, headers });
    const [{ time, ...event } = {}] = eventsOf(await send(http, 'GET /changes'));
    assert.deepEqual(event, {
      specversion: '1.0',
      id: '1',
      source: '/users/1',
      type: 'user.created',
      subject: 'users/1',
      datacontenttype: 'application/json',
      version: 1,
      requestid: 'first',
      keyname: 'crm',
      data: { id: 1, name: 'Ada' },
    });
    assert.ok(Math.abs(Date.parse(String(time)) - Date.now()) < 60_000);
    const answer = await send(http, 'GET /changes');
    assert.equal(answer.headers['content-type'], 'application/cloudevents-batch+json; charset=utf-8');
    assert.equal(answer.headers['cache-control'], 'private, no-cache');

    await send(http, 'PATCH /users/1', { json: { role: 'admin' }, headers: { 'x-api-key': 'plain' } });
    const [{ version, keyname, data } = {}] = eventsOf(await send(http, 'GET /changes?after=1'));
    assert.deepEqual([version, keyname, data], [2, undefined, { ...json, id: 1, role: 'admin' }]);
  });

  it('returns changes in order, deleted posts before their user, and no change for a write without effect', async (t) => {
    const { http } = await startWithHistory(t);
    const answer = await send(http, 'GET /changes');
    assert.deepEqual(typesOf(answer), history);
    const deleted = eventsOf(answer).slice(-2);
    assert.deepEqual(
      deleted.map(({ data, version }) => [data, version]),
      [
        [{ id: 1, userId: 1, title: 'Notes', body: '' }, 2],
        [{ id: 1, name: 'Ada' }, 2],
      ],
    );
  });

  it('has a next link on every page, so that a client can continue to poll', async (t) => {
    const { http } = await startWithHistory(t);
    const seen: string[] = [];
    let path = '/changes?limit=2';
    for (;;) {
      const answer = await send(http, `GET ${path}`);
      path = nextOf(answer);
      if (eventsOf(answer).length === 0) break;
      seen.push(...typesOf(answer));
    }
    assert.deepEqual(seen, history);
    assert.equal(path, '/changes?after=9&limit=2');
    await send(http, 'DELETE /users/2');
    assert.deepEqual(typesOf(await send(http, `GET ${path}`)), ['user.deleted users/2']);
  });

  it('can be filtered by type and by user including their posts, and the next link keeps both filters', async (t) => {
    const { http } = await startWithHistory(t);
    const answer = await send(http, 'GET /changes?user=1&type=user.deleted,post.created&after=3');
    assert.deepEqual(typesOf(answer), [
      'post.created users/1/posts/1',
      'post.created users/1/posts/2',
      'user.deleted users/1',
    ]);
    assert.equal(nextOf(answer), '/changes?after=9&user=1&type=user.deleted%2Cpost.created');
    assert.deepEqual(typesOf(await send(http, 'GET /changes?user=2')), ['user.created users/2']);
    const twice = await send(http, 'GET /changes?user=1&type=user.deleted,user.deleted');
    assert.deepEqual(typesOf(twice), ['user.deleted users/1']);
    assert.deepEqual(eventsOf(await send(http, 'GET /changes?user=7')), []);
  });

  it('reads at most 100 changes at a time until the page is full, at most 50 times for a request', async (t) => {
    const { store: repository, feed: changes } = storeWithFeed();
    await repository.users.create({ name: 'Ada' });
    const [change] = (await changes.read({ after: 0, limit: 1 })).changes;
    assert.ok(change);
    const reads: (readonly [after: number, limit: number])[] = [];
    // The store examines 100 changes in each read. The first 300 changes match, then each hundredth one does.
    const read: typeof changes.read = async ({ after, limit }) => {
      reads.push([after, limit]);
      const count = Math.min(limit, after < 300 ? 100 : 1);
      const found = Array.from({ length: count }, (_, i) => ({ ...change, position: after + i + 1 }));
      return { changes: found, next: after + Math.max(limit, 100), more: true };
    };
    const { http } = await startService(t, { repository: { ...repository, changes: { ...changes, read } } });
    for (const [query, found, next, lastReads] of [
      ['limit=1', 1, 100, [[0, 1]]],
      [
        'limit=250&after=0',
        250,
        300,
        [
          [0, 100],
          [100, 100],
          [200, 50],
        ],
      ],
      [
        'limit=2&after=300',
        2,
        500,
        [
          [300, 2],
          [400, 1],
        ],
      ],
      ['limit=1000&after=0', 347, 5_000, Array.from({ length: 50 }, (_, i) => [i * 100, 100])],
    ] as const) {
      const answer = await send(http, `GET /changes?${query}`);
      assert.equal(eventsOf(answer).length, found, query);
      assert.match(String(nextOf(answer)), new RegExp(`after=${next}\\b`), query);
      assert.deepEqual(reads.splice(0), lastReads, query);
    }
  });

  it('returns an empty page with a link if none of 50 reads finds a match', async (t) => {
    const { store: repository, feed: changes } = storeWithFeed();
    const read: typeof changes.read = async ({ after }) => ({ changes: [], next: after + 1, more: true });
    const { http } = await startService(t, { repository: { ...repository, changes: { ...changes, read } } });
    const empty = await send(http, 'GET /changes?user=1&after=20');
    assert.deepEqual([eventsOf(empty), nextOf(empty)], [[], '/changes?after=70&user=1']);
    t.mock.getter(MemoryBudget.prototype, 'isShort', () => true);
    const short = await send(http, 'GET /changes?user=1&after=20');
    assert.deepEqual(nextOf(short), nextOf(empty), 'an empty page ended early, although it uses no memory');
  });

  it('fails if one of the later reads for a page fails', async (t) => {
    const { store: repository, feed: changes } = storeWithFeed();
    for (let i = 0; i < 101; i += 1) await repository.users.create({ name: 'Ada' });
    const read: typeof changes.read = async (query) => {
      if (query.after > 0) throw new DomainError('unavailable', 'the store is not available');
      return changes.read(query);
    };
    const { http } = await startService(t, {
      repository: { ...repository, changes: { ...changes, read } },
      expectFailures: true,
    });
    assert.equal((await send(http, 'GET /changes?limit=101')).status, 503);
  });

  it('lets other requests run between the reads for a page', async (t) => {
    const { store: repository, feed: changes } = storeWithFeed();
    // How many turns of the event loop there were before each read.
    const turns: number[] = [];
    let turn = 0;
    const read: typeof changes.read = async ({ after }) => {
      turns.push(turn);
      setImmediate(() => {
        turn += 1;
      });
      // As long as SQLite may need for a read.
      for (const end = performance.now() + 5; performance.now() < end; );
      return { changes: [], next: after + 1, more: true };
    };
    const { http } = await startService(t, { repository: { ...repository, changes: { ...changes, read } } });
    const pause = t.mock.method(scheduler, 'pause');
    assert.deepEqual(eventsOf(await send(http, 'GET /changes')), []);
    assert.ok((turns.at(-1) ?? 0) > 5, turns.join());
    // Requests that wait otherwise continue before new ones start.
    assert.equal(pause.mock.callCount(), turns.length - 1);
  });

  it('starts after Last-Event-ID, which overrides the parameter after', async (t) => {
    const { http } = await startWithHistory(t);
    const answer = await send(http, 'GET /changes?after=2', { headers: { 'last-event-id': '8' } });
    assert.deepEqual(typesOf(answer), history.slice(8));
  });

  it('starts after the parameter after if Last-Event-ID is empty, and otherwise with the oldest change', async (t) => {
    const { http } = await startWithHistory(t);
    const headers = { 'last-event-id': '' };
    assert.deepEqual(typesOf(await send(http, 'GET /changes?after=2', { headers })), history.slice(2));
    assert.deepEqual(typesOf(await send(http, 'GET /changes', { headers })), history);
  });

  it('starts with the oldest kept change, and returns 410 for an earlier position and for one of the future', async (t) => {
    const repository = createMemoryStore({ changesKept: 2 });
    const { http } = await startService(t, { repository });
    for (let i = 1; i <= 4; i += 1) await repository.users.create({ name: `User ${i}` });
    const all = await send(http, 'GET /changes');
    assert.deepEqual(typesOf(all), ['user.created users/3', 'user.created users/4']);
    for (const after of [0, 1, 5, 999]) {
      const gone = await send(http, `GET /changes?after=${after}`);
      assert.equal(gone.status, 410);
      const problem =
        after < 2
          ? `the changes after ${after} are not kept, only those from 3 on`
          : `the position ${after} was never assigned`;
      assert.equal(errorOf(gone), `${problem}: read the list again, then follow its monitor link`);
      const stream = { headers: { accept: 'text/event-stream' } };
      assert.equal((await send(http, `GET /changes?after=${after}`, stream)).status, 410);
    }
    await repository.importRows('users', [{ id: 9, name: 'Imported', version: 1 }]);
    assert.equal((await send(http, `GET ${nextOf(all)}`)).status, 410, 'after an import');
    assert.deepEqual(eventsOf(await send(http, 'GET /changes')), []);
  });

  it('starts with the oldest change although others are removed meanwhile, unless the feed is broken', async (t) => {
    const { store: repository, feed: changes } = storeWithFeed();
    const reads: number[] = [];
    let oldest = [3, 5];
    const read: typeof changes.read = async ({ after }) => {
      reads.push(after);
      const first = oldest.shift();
      if (first !== undefined) throw new ChangesGone(after, first);
      return { changes: [], next: after, more: false };
    };
    const { http } = await startService(t, { repository: { ...repository, changes: { ...changes, read } } });
    assert.equal(nextOf(await send(http, 'GET /changes')), '/changes?after=4');
    assert.deepEqual(reads.splice(0), [0, 2, 4]);
    oldest = [3, 3, 5];
    assert.equal((await send(http, 'GET /changes')).status, 410);
    assert.deepEqual(reads, [0, 2]);
  });

  it('ends a page early while much memory is in use', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    for (let i = 1; i <= 150; i += 1) await repository.users.create({ name: `User ${i}` });
    const hold = t.mock.method(MemoryBudget.prototype, 'hold');
    const first = eventsOf(await send(http, 'GET /changes?limit=150'));
    assert.equal(first.length, 150);
    const held = hold.mock.calls.map(({ arguments: [, bytes] }) => bytes);
    const [unfinished] = held.filter((bytes) => bytes > 0);
    assert.equal(
      unfinished,
      first
        .slice(0, 100)
        .map((event) => JSON.stringify(event))
        .join().length,
    );
    t.mock.getter(MemoryBudget.prototype, 'isShort', () => true);
    const short = await send(http, 'GET /changes?limit=150');
    assert.equal(eventsOf(short).length, 100);
    assert.equal(eventsOf(await send(http, `GET ${nextOf(short)}`)).length, 50);
  });

  const wrong: readonly (readonly [query: string, message: string, headers?: Record<string, string>])[] = [
    ['after=-1', 'after must be a whole number from 0 to 9007199254740991'],
    ['after=', 'after must be a whole number from 0 to 9007199254740991'],
    ['after=1e2', 'after must be a whole number from 0 to 9007199254740991'],
    ['limit=0', 'limit must be a whole number from 1 to 1000'],
    ['limit=1001', 'limit must be a whole number from 1 to 1000'],
    ['user=0', 'user must be a whole number from 1 to 2147483647'],
    ['user=x', 'user must be a whole number from 1 to 2147483647'],
    ['type=user', `type must be a comma list of ${changeTypes.join(', ')}`],
    ['type=', `type must be a comma list of ${changeTypes.join(', ')}`],
    ['after=1&after=2', 'after must be given once'],
    ['cursor=1', '"cursor" is not a known parameter'],
    ['', 'Last-Event-ID must be a whole number from 0 to 9007199254740991', { 'last-event-id': 'x' }],
  ];
  for (const [query, message, headers = {}] of wrong) {
    it(`rejects ${JSON.stringify({ query, ...headers })} with the reason`, async (t) => {
      const { http } = await startService(t);
      for (const accept of ['*/*', 'text/event-stream']) {
        const answer = await send(http, `GET /changes?${query}`, { headers: { accept, ...headers } });
        assert.deepEqual([answer.status, errorOf(answer)], [400, message]);
      }
    });
  }

  it('returns at most about a megabyte a page with any limit', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    await repository.users.create({ name: 'Ada' });
    const body = 'x'.repeat(10_000);
    for (let i = 0; i < 250; i += 1) await repository.posts(1).create({ title: `${i}`, body });
    let path = '/changes?limit=1000';
    let count = 0;
    let pages = 0;
    for (;;) {
      const answer = await send(http, `GET ${path}`);
      path = nextOf(answer);
      assert.ok(answer.text.length < 1_100_000);
      if (eventsOf(answer).length === 0) break;
      count += eventsOf(answer).length;
      pages += 1;
    }
    assert.deepEqual([count, pages], [251, 3]);
  });

  it('responds to HEAD, and returns the batch to clients that prefer JSON to a stream', async (t) => {
    const { http } = await startWithHistory(t);
    const head = await send(http, 'HEAD /changes');
    assert.deepEqual([head.status, nextOf(head), head.text], [200, '/changes?after=9', '']);
    const stream = await send(http, 'HEAD /changes', { headers: { accept: 'text/event-stream' } });
    assert.deepEqual([stream.status, stream.headers['content-type']], [200, 'text/event-stream']);
    for (const accept of [
      'application/json, text/event-stream;q=0.5',
      'application/cloudevents-batch+json, text/event-stream;q=0.5',
      'text/event-stream;q=0.5, application/*',
      'text/event-stream;q=0.5, */*',
      'text/event-stream;q=0',
      'image/png',
    ]) {
      assert.equal(typesOf(await send(http, 'GET /changes', { headers: { accept } })).length, 9, accept);
    }
  });

  it('makes a copy of several pages equal to the store, from the monitor link of the first page on', async (t) => {
    const { http } = await startService(t);
    const request = (line: string, json?: unknown) => send(http, line, json === undefined ? {} : { json });
    for (const name of ['Ada', 'Grace', 'Edsger', 'Barbara']) await request('POST /users', { name });
    const meanwhile = [
      () => request('PATCH /users/1', { name: 'Ada Lovelace' }),
      () => request('DELETE /users/2'),
      () => request('PATCH /users/4', { role: 'dev' }),
      () => request('POST /users', { name: 'Alan' }),
    ];
    const copy = new Map<unknown, unknown>();
    let monitor: string | undefined;
    for (let path: string | undefined = '/users?limit=1'; path !== undefined; ) {
      const page = await request(`GET ${path}`);
      for (const user of rowsOf(page)) copy.set(user['id'], user);
      monitor ??= linkOf(page, 'monitor');
      path = linkOf(page, 'next');
      await meanwhile.shift()?.();
    }
    assert.equal(meanwhile.length, 0, 'the walk is over before the last write');
    for (const { type, data } of eventsOf(await request(`GET ${monitor}`))) {
      const user = Object(data);
      if (type === 'user.deleted') copy.delete(user.id);
      else copy.set(user.id, user);
    }
    assert.deepEqual([...copy.values()], rowsOf(await request('GET /users')));
  });

  it('has the change that came while a list was read, after the monitor link of the list', async (t) => {
    const store = createMemoryStore();
    const list: typeof store.users.list = async (...args) => {
      const page = await store.users.list(...args);
      await store.users.create({ name: 'late' });
      return page;
    };
    const { http } = await startService(t, { repository: { ...store, users: { ...store.users, list } } });
    const page = await send(http, 'GET /users');
    assert.deepEqual(rowsOf(page), []);
    assert.deepEqual(typesOf(await send(http, `GET ${linkOf(page, 'monitor')}`)), ['user.created users/1']);
  });

  it('returns 404 when the store keeps no changes, and then lists have no monitor link', async (t) => {
    const { http } = await startService(t, { changesKept: false });
    assert.equal((await send(http, 'GET /changes', { undocumented: true })).status, 404);
    assert.equal((await send(http, 'GET /users')).headers['link'], '</users>; rel="first"');
  });

  it('requires the read scope, as lists do', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: ['r:read=r', 'w:write=w'] });
    const statuses = await Promise.all(
      [{}, { 'x-api-key': 'w' }, { 'x-api-key': 'r' }].map(async (headers) => {
        return (await send(http, 'GET /changes', { headers })).status;
      }),
    );
    assert.deepEqual(statuses, [401, 403, 200]);
  });

  const python = process.env['PYTHON'] ?? 'python3';

  it('can be parsed by the CloudEvents SDK for Python', async (t) => {
    const { code } = await runTool(python, ['-c', 'import cloudevents.core']);
    if (code !== 0) return t.skip(`${python} has no cloudevents 2; set PYTHON`);
    const { http } = await startWithHistory(t);
    const { text } = await send(http, 'GET /changes');
    const script = [
      'import json, sys',
      'from cloudevents.core.formats.json import JSONFormat',
      'from cloudevents.core.v1.event import CloudEvent',
      'events = [JSONFormat().read(CloudEvent, json.dumps(one)) for one in json.loads(sys.argv[1])]',
      'print(json.dumps([[e.get_id(), e.get_type(), e.get_source(), e.get_extension("version"), e.get_data()] for e in events]))',
    ].join('\n');
    const { stdout, stderr } = await runTool(python, ['-c', script, text]);
    assert.equal(stderr, '');
    const expected = (JSON.parse(text) as Event[]).map(({ id, type, source, version, data }) => {
      return [id, type, source, version, data];
    });
    assert.deepEqual(JSON.parse(stdout), expected);
  });
});
