import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Store } from '../../src/domain/repository.ts';
import { MemoryBudget } from '../../src/http/memory-budget.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { until } from '../kit/until.ts';
import { open, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const line = 'GET /users/1/posts';

async function storeWith(posts: number, body = ''): Promise<Store> {
  const store = createMemoryStore();
  await store.users.create({ name: 'Ann' });
  await store.users.create({ name: 'Bob' });
  await store.posts(2).create({ title: 'of another user', body });
  const rows = Array.from({ length: posts }, (_, i) => ({
    id: i + 2,
    userId: 1,
    title: `${String(posts - i).padStart(6, '0')}`,
    body,
    version: 1,
  }));
  await store.importRows('posts', rows);
  return store;
}

for (const count of [0, 1, 99, 100, 101, 200, 201, 3_000]) {
  test(`a list returns all ${count} posts of a user in order, and no posts of other users`, async (t) => {
    const { http } = await startService(t, { repository: await storeWith(count) });
    for (const [query, ids] of [
      ['', Array.from({ length: count }, (_, i) => i + 2)],
      ['?sort=title', Array.from({ length: count }, (_, i) => count + 1 - i)],
    ] as const) {
      const { status, json, headers } = await send(http, `${line}${query}`, {
        headers: { prefer: 'count=exact' },
      });
      assert.equal(status, 200);
      assert.deepEqual(Array.isArray(json) && json.map(({ id }) => id), ids);
      assert.equal(headers['x-total-count'], String(count));
      const streamed = count > 100;
      assert.equal(headers['transfer-encoding'], streamed ? 'chunked' : undefined);
    }
    const head = await send(http, `HEAD ${line.slice(4)}`);
    assert.deepEqual([head.status, head.text], [200, '']);
  });
}

test('a list returns all posts while memory is short and each of them is longer than a chunk', async (t) => {
  t.mock.getter(MemoryBudget.prototype, 'isShort', () => true);
  const { http } = await startService(t, { repository: await storeWith(3, '"'.repeat(10_000)) });
  const { json } = await send(http, line);
  assert.deepEqual(Array.isArray(json) && json.map(({ id }) => id), [2, 3, 4]);
});

/** Resolves after 100 turns of the event loop, in which a stream that can continue reads further rows. */
async function manyTurns(): Promise<void> {
  for (let turns = 0; turns < 100; turns += 1) await nextTurn();
}

test('posts are only read from the store as fast as the client receives them', async (t) => {
  const posts = 2_000;
  const store = await storeWith(posts, 'x'.repeat(10_000));
  // The rows of each read after the first, which the second read repeats.
  let fetched = 0;
  let reads = 0;
  replaceList(store, async (list, ...args) => {
    const page = await list(...args);
    reads += 1;
    if (reads > 1) fetched += page?.items.length ?? 0;
    return page;
  });
  const sent = Promise.withResolvers<ServerResponse>();
  const onStart = (message: unknown) => sent.resolve((message as { response: ServerResponse }).response);
  subscribe('http.server.request.start', onStart);
  t.after(() => unsubscribe('http.server.request.start', onStart));
  const { http } = await startService(t, { repository: store });
  const response = await open(http, line);
  response.socket.pause();
  await until(async () => {
    const before = fetched;
    await manyTurns();
    return fetched === before;
  }, 'no more rows are read');
  assert.equal((await sent.promise).writableNeedDrain, true, 'the response must wait for its client');
  const kernelBytes = 16_000_000;
  assert.ok(
    fetched * 10_000 < kernelBytes,
    `${fetched} rows were read, more than fit into the socket buffers`,
  );

  let bytes = 0;
  for await (const chunk of response) bytes += chunk.length;
  assert.ok(bytes > posts * 10_000, 'all posts arrive in the end');
  assert.ok(posts - 7 <= fetched && fetched <= posts, `${fetched} rows were read: each must be read once`);
  assert.ok(reads >= posts / 7, `${reads} reads: a read must return at most the rows of one chunk`);
});

test('another request is answered while streams always have another chunk to send', async (t) => {
  const { http } = await startService(t, { repository: await storeWith(2_000, 'x'.repeat(10_000)) });
  const streams = await Promise.all(Array.from({ length: 6 }, () => open(http, line)));
  let ended = 0;
  for (const stream of streams) {
    stream.resume().on('end', () => {
      ended += 1;
    });
  }
  for (let i = 0; i < 5; i += 1) assert.equal((await send(http, 'GET /users/2')).status, 200);
  assert.equal(ended, 0, `${ended} streams ended before five short requests`);
  for (const stream of streams) stream.destroy();
});

type ListPosts = ReturnType<Store['posts']>['list'];

/** Calls another function in the place of the lists of posts, with the original one. */
function replaceList(
  store: Store,
  list: (original: ListPosts, ...args: Parameters<ListPosts>) => ReturnType<ListPosts>,
): void {
  const { posts } = store;
  store.posts = (userId) => {
    const original = posts(userId);
    return { ...original, list: (...args) => list(original.list, ...args) };
  };
}

/** A store whose second read of posts waits for `go`, and then calls `then`. */
function heldAfterFirstRead(store: Store, then: () => void | Promise<void>) {
  const held = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<AbortSignal | undefined>();
  let reads = 0;
  replaceList(store, async (list, query, options) => {
    reads += 1;
    if (reads === 2) {
      asked.resolve(options?.signal);
      await held.promise;
      await then();
    }
    return list(query, options);
  });
  return { asked: asked.promise, go: held.resolve, reads: () => reads };
}

test('deleting a user while their posts are streamed closes the connection, so that the client detects the incomplete list', async (t) => {
  const store = await storeWith(1_000);
  const held = heldAfterFirstRead(store, async () => void (await store.users.delete(1)));
  const { http, events } = await startService(t, { repository: store });
  const response = await open(http, line);
  assert.equal(response.statusCode, 200);
  await held.asked;
  held.go();
  await assert.rejects(response.toArray(), { code: 'ECONNRESET' });
  assert.equal(response.complete, false);
  const failures = events.filter(({ type }) => type === 'failure');
  assert.deepEqual(failures, [], 'the deletion is not reported as a failure');
});

test('a store failure while posts are streamed closes the connection and is reported once', async (t) => {
  const store = await storeWith(1_000);
  const held = heldAfterFirstRead(store, () => {
    throw new Error('the disk is gone');
  });
  const ended = Promise.withResolvers<number>();
  const { http, failures } = await startService(t, {
    repository: store,
    expectFailures: true,
    observe: (event) => event.type === 'request' && ended.resolve(event.status),
  });
  const response = await open(http, line, { headers: { 'x-request-id': 'streaming' } });
  await held.asked;
  held.go();
  await assert.rejects(response.toArray(), { code: 'ECONNRESET' });
  assert.deepEqual(
    failures().map(({ where, requestId, cause }) => [where, requestId, String(cause)]),
    [['http', 'streaming', 'Error: the disk is gone']],
  );
  assert.equal(await ended.promise, 500);
  assert.equal((await send(http, 'GET /health')).status, 200);
});

test('a store failure before the first post returns 500', async (t) => {
  const store = await storeWith(1_000);
  replaceList(store, () => Promise.reject(new Error('secret')));
  const { http } = await startService(t, { repository: store, expectFailures: true });
  const { status, json } = await send(http, line);
  assert.deepEqual([status, json], [500, { error: 'internal error' }]);
});

test('a client that disconnects while posts are streamed ends the reads, and its request has the status 499', async (t) => {
  const store = await storeWith(1_000);
  const held = heldAfterFirstRead(store, () => undefined);
  const ended = Promise.withResolvers<number>();
  const { http, service } = await startService(t, {
    repository: store,
    observe: (event) => event.type === 'request' && ended.resolve(event.status),
  });
  const response = await open(http, line);
  const signal = await held.asked;
  assert.equal(signal?.aborted, false);
  const aborted = signal === undefined ? undefined : once(signal, 'abort');
  response.destroy();
  await aborted;
  assert.equal(await ended.promise, 499);
  held.go();
  await service.close();
  await manyTurns();
  assert.equal(held.reads(), 2, 'the store is not read again');
});

test('a post created while posts are streamed is returned exactly once', async (t) => {
  const store = await storeWith(600);
  const held = heldAfterFirstRead(store, async () => {
    await store.posts(1).create({ title: 'late', body: '' });
  });
  const { http } = await startService(t, { repository: store });
  const answer = send(http, line);
  await held.asked;
  held.go();
  const { json } = await answer;
  const ids = Array.isArray(json) ? json.map(({ id }) => id) : [];
  assert.equal(new Set(ids).size, ids.length);
  assert.equal(ids.length, 601, 'the new post is included');
});

test('a list whose last posts are deleted while it is streamed is JSON without them', async (t) => {
  const store = await storeWith(101);
  const held = heldAfterFirstRead(store, async () => {
    await store.posts(1).delete(102);
  });
  const { http } = await startService(t, { repository: store });
  const answer = send(http, line);
  await held.asked;
  held.go();
  const { json } = await answer;
  assert.equal(Array.isArray(json) && json.length, 100);
});

test('the posts of a missing user return 404', async (t) => {
  const { http } = await startService(t);
  for (const path of ['/users/1/posts', '/users/1/posts?limit=1', '/users/1/posts?page=2']) {
    assert.equal((await send(http, `GET ${path}`)).status, 404, path);
    assert.equal((await send(http, `GET ${path}`, { headers: { prefer: 'count=exact' } })).status, 404, path);
  }
});
