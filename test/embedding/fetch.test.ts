import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { getEventListeners } from 'node:events';
import { writeFile } from 'node:fs/promises';
import http from 'node:http';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type CallOptions,
  createFetchHandler,
  createRequestListener,
  type FailureEvent,
  type FetchHandler,
  type RequestEvent,
  type RequestListenerOptions,
} from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { openSqliteStore } from '../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

const base = 'http://users.example';
const jsonType = { 'content-type': 'application/json' };

function create(options: Partial<RequestListenerOptions> = {}) {
  const repository = createMemoryStore();
  const requests: RequestEvent[] = [];
  const failures: unknown[] = [];
  const { promise: ended, resolve } = Promise.withResolvers<RequestEvent>();
  const handle = createFetchHandler({
    repository,
    publicDir: false,
    observe(event) {
      if (event.type === 'failure') failures.push(event.cause);
      if (event.type !== 'request') return;
      requests.push(event);
      resolve(event);
    },
    ...options,
  });
  return { repository, requests, failures, ended, handle };
}

function post(
  handle: FetchHandler,
  path: string,
  body: NonNullable<RequestInit['body']>,
  init: RequestInit = {},
) {
  return handle(new Request(`${base}${path}`, { method: 'POST', headers: jsonType, body, ...init }));
}

/** A folder with one file of this length. */
async function folderOf(length: number): Promise<string> {
  const folder = temporaryFolder();
  await writeFile(join(folder, 'long.bin'), Buffer.alloc(length, 'x'));
  return folder;
}

describe('the fetch handler', () => {
  it('reports malformed requests to an observer that throws, and to the diagnostics channel', async (t) => {
    const causes: unknown[] = [];
    const onFailure = (event: unknown) => causes.push((event as FailureEvent).cause);
    subscribe('users-service:failure', onFailure);
    t.after(() => unsubscribe('users-service:failure', onFailure));
    const bug = new Error('a bug of the host');
    const { handle } = create({
      observe({ type }) {
        if (type === 'refused') throw bug;
      },
    });
    const headers = { cookie: 'x'.repeat(20_000) };
    assert.equal((await handle(new Request(`${base}/users`, { headers }))).status, 431);
    assert.deepEqual(causes, [bug]);
  });

  it('creates, reads, changes and deletes a user', async () => {
    const { handle } = create({ basePath: '/api' });
    const created = await post(handle, '/api/users', '{"name":"Ada"}');
    assert.equal(created.status, 201);
    assert.equal(created.headers.get('location'), '/api/users/1');
    assert.deepEqual(await created.json(), { id: 1, name: 'Ada' });

    const read = await handle(new Request(`${base}/api/users/1`));
    assert.deepEqual([read.status, await read.json()], [200, { id: 1, name: 'Ada' }]);
    const etag = read.headers.get('etag') ?? '';

    const cached = await handle(new Request(`${base}/api/users/1`, { headers: { 'if-none-match': etag } }));
    assert.deepEqual([cached.status, await cached.text()], [304, '']);
    const head = await handle(new Request(`${base}/api/users/1`, { method: 'HEAD' }));
    assert.deepEqual([head.status, head.headers.get('content-length'), head.body], [200, '21', null]);

    const headers = { ...jsonType, 'if-match': etag };
    const patch = { method: 'PATCH', headers, body: '{"role":"admin"}' };
    const changed = await handle(new Request(`${base}/api/users/1`, patch));
    assert.deepEqual(await changed.json(), { id: 1, name: 'Ada', role: 'admin' });
    const stale = await handle(new Request(`${base}/api/users/1`, patch));
    assert.equal(stale.status, 412);

    const deleted = await handle(new Request(`${base}/api/users/1`, { method: 'DELETE' }));
    assert.deepEqual([deleted.status, deleted.body], [204, null]);
  });

  it('returns a list with links and the common headers, but without headers of a connection', async () => {
    const { handle, repository } = create();
    for (const name of ['Ada', 'Grace']) await repository.users.create({ name });
    const response = await handle(
      new Request(`${base}/users?sort=-name&limit=1`, { headers: { 'x-request-id': 'mine' } }),
    );
    assert.deepEqual(await response.json(), [{ id: 2, name: 'Grace' }]);
    assert.match(response.headers.get('link') ?? '', /rel="next"/);
    assert.equal(response.headers.get('x-request-id'), 'mine');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    const stream = await handle(new Request(`${base}/changes`, { headers: { accept: 'text/event-stream' } }));
    await stream.body?.cancel();
    for (const { headers } of [response, stream]) {
      for (const name of ['connection', 'keep-alive', 'transfer-encoding'])
        assert.equal(headers.get(name), null, name);
    }
  });

  it('ignores Expect, because the connection of the host responds to it', async () => {
    const { handle } = create();
    const response = await handle(new Request(`${base}/health`, { headers: { expect: 'more' } }));
    assert.equal(response.status, 200);
  });

  const refusals: readonly [what: string, request: () => Request, status: number, error: RegExp][] = [
    ['an unknown path', () => new Request(`${base}/nope`), 404, /^no such resource$/],
    ['an encoded slash in an id', () => new Request(`${base}/users/1%2F2`), 400, /^id must be/],
    [
      'a head that is too long',
      () => new Request(`${base}/users`, { headers: { 'x-long': 'x'.repeat(20_000) } }),
      431,
      /^the headers of the request are too long or too many$/,
    ],
    [
      'a body that is too long',
      () =>
        new Request(`${base}/users`, { method: 'POST', headers: jsonType, body: `"${'x'.repeat(500_000)}"` }),
      413,
      /^the body must be at most 131072 bytes$/,
    ],
  ];
  for (const [what, request, status, error] of refusals) {
    it(`rejects ${what} with the error body of the service`, async () => {
      const response = await create().handle(request());
      const body = (await response.json()) as { error: string };
      assert.equal(response.status, status);
      assert.deepEqual(Object.keys(body), ['error']);
      assert.match(body.error, error);
    });
  }

  it('reads a body to its end and ignores its Content-Length and Transfer-Encoding headers', async () => {
    const { handle, repository, requests, ended } = create();
    const smuggled = `{"name":"Ada"}DELETE /users/1 HTTP/1.1\r\nHost: ${base}\r\n\r\n`;
    const framing = { 'content-length': '14', 'transfer-encoding': 'chunked' };
    const headers = { ...jsonType, ...framing, connection: 'keep-alive' };
    const response = await post(handle, '/users', smuggled, { headers });
    assert.deepEqual([response.status, (await ended).status], [400, 400]);
    assert.deepEqual([await repository.users.count({}), requests.length], [0, 1]);
  });

  it('reads the body of a method that usually has none', async () => {
    const { handle } = create();
    const body = 'a'.repeat(200_000);
    const response = await handle(new Request(`${base}/users/1`, { method: 'DELETE', body }));
    assert.equal(response.status, 413);
  });

  it('serves only the allowed hosts of the URL and of a Host header', async () => {
    const { handle } = create({ allowedHosts: ['users.example'] });
    const statuses = [
      new Request(`${base}/health`),
      new Request('http://evil.example/health'),
      new Request('http://127.0.0.1/health', { headers: { host: 'evil.example' } }),
    ].map(async (request) => (await handle(request)).status);
    assert.deepEqual(await Promise.all(statuses), [200, 421, 421]);
  });

  it('serves requests while a test of the host mocks its timers, and after that', async (t) => {
    const repository = await openSqliteStore(join(await folderOf(1), 'users.db'));
    t.after(() => repository.close());
    const { handle } = create({ repository });
    const createUsers = async (count: number) => {
      for (let id = count; id > 0; id -= 1) await post(handle, '/users', '{"name":"Ada"}');
      const { headers } = await handle(new Request(`${base}/users`));
      return headers.get('link')?.match(/after=(\d+)/)?.[1];
    };
    const cancelOne = () => {
      const controller = new AbortController();
      const reply = handle(new Request(`${base}/users`, { signal: controller.signal }));
      controller.abort(new Error('too late'));
      return assert.rejects(reply, /too late/);
    };
    t.mock.timers.enable();
    // As in Vitest and Jest: not disposable.
    const timer = { unref: () => timer };
    t.mock.method(globalThis, 'setInterval', () => timer);
    assert.equal(await createUsers(1), '1');
    await cancelOne();
    t.mock.timers.reset();
    assert.equal(await createUsers(2), '3');
  });

  it('makes no request that a tool of the host sees, which would trace it or send it to a proxy', async (t) => {
    const { handle } = create();
    for (const name of ['request', 'get'] as const) t.mock.method(http, name, assert.fail);
    assert.equal((await handle(new Request(`${base}/users`))).status, 200);
  });

  it('serves many requests at once', async () => {
    const { handle, repository } = create();
    const names = Array.from({ length: 200 }, (_, i) => `User ${i}`);
    const responses = await Promise.all(
      names.map((name) => post(handle, '/users', JSON.stringify({ name }))),
    );
    assert.ok(responses.every(({ status }) => status === 201));
    assert.equal(await repository.users.count({}), 200);
  });

  it('accepts a streamed body, and streams a response', async () => {
    const { handle } = create({ publicDir: await folderOf(3_000_000) });
    async function* parts() {
      yield Buffer.from('{"name":');
      await new Promise((resolve) => setImmediate(resolve));
      yield Buffer.from('"Ada"}');
    }
    const body = ReadableStream.from(parts());
    const created = await post(handle, '/users', body, { duplex: 'half' });
    assert.equal(created.status, 201);
    const file = await handle(new Request(`${base}/long.bin`));
    assert.equal((await file.arrayBuffer()).byteLength, 3_000_000);
  });

  it('sends a file unchanged to a client that reads slowly while other files are sent', async () => {
    const folder = await folderOf(3_000_000);
    await writeFile(join(folder, 'other.bin'), Buffer.alloc(500_000, 'y'));
    const { handle } = create({ publicDir: folder });
    const { body } = await handle(new Request(`${base}/long.bin`));
    assert.ok(body);
    const received: Uint8Array[] = [];
    for await (const chunk of body) {
      received.push(chunk);
      const other = await handle(new Request(`${base}/other.bin`));
      await other.arrayBuffer();
    }
    const bytes = Buffer.concat(received);
    assert.equal(bytes.length, 3_000_000);
    assert.ok(bytes.equals(Buffer.alloc(bytes.length, 'x')), 'bytes of the other file');
  });

  it('reports the status 200 when the client has read a long file to its end', async () => {
    const { handle, ended } = create({ publicDir: await folderOf(3_000_000) });
    await (await handle(new Request(`${base}/long.bin`))).arrayBuffer();
    assert.equal((await ended).status, 200);
  });

  it('reports the status 499 when the client cancels the response', async () => {
    const { handle, ended } = create({ publicDir: await folderOf(3_000_000) });
    const { body } = await handle(new Request(`${base}/long.bin`));
    assert.ok(body);
    await body.getReader().cancel();
    assert.equal((await ended).status, 499);
  });

  it('aborts the response of a client that reads nothing for too long', async () => {
    const { handle, ended } = create({
      publicDir: await folderOf(3_000_000),
      limits: { writeTimeoutMs: 50 },
    });
    const response = await handle(new Request(`${base}/long.bin`));
    assert.equal((await ended).status, 499);
    await assert.rejects(response.arrayBuffer());
  });

  it('rejects with the reason of the signal of the request, and aborts the store', async () => {
    const { promise: reading, resolve: startReading } = Promise.withResolvers<AbortSignal | undefined>();
    const repository = createMemoryStore();
    const slow = {
      ...repository,
      users: {
        ...repository.users,
        get: (_id: number, { signal }: CallOptions = {}) => {
          startReading(signal);
          return new Promise<never>((_, reject) =>
            signal?.addEventListener('abort', () => reject(signal.reason)),
          );
        },
      },
    };
    const { handle, ended } = create({ repository: slow });
    const controller = new AbortController();
    const answer = handle(new Request(`${base}/users/1`, { signal: controller.signal }));
    assert.ok(await reading, 'the store received no signal');
    controller.abort(new Error('too late'));
    await assert.rejects(answer, { message: 'too late' });
    assert.equal((await ended).status, 499);
  });

  it('fails the body of the response with the reason of the signal that aborts it', async () => {
    const { handle } = create({ publicDir: await folderOf(3_000_000) });
    const controller = new AbortController();
    const { body } = await handle(new Request(`${base}/long.bin`, { signal: controller.signal }));
    const reader = body?.getReader();
    assert.equal((await reader?.read())?.done, false);
    const reason = new Error('too late');
    controller.abort(reason);
    await assert.rejects(async () => {
      while ((await reader?.read())?.done === false);
    }, reason);
  });

  it('leaves no listener on the signal of a request that is used again', async () => {
    const { handle } = create();
    const request = new Request(`${base}/users`);
    for (let i = 0; i < 3; i += 1) await (await handle(request)).text();
    await nextTurn();
    assert.equal(getEventListeners(request.signal, 'abort').length, 0);
  });

  it('does not end the body early for a signal that aborts before the body is read', async () => {
    const { handle } = create();
    const controller = new AbortController();
    const response = await handle(new Request(`${base}/users`, { signal: controller.signal }));
    const reason = new Error('too late');
    controller.abort(reason);
    await assert.rejects(response.text(), reason);
  });

  it('rejects a request whose body was already read', async () => {
    const { handle, requests } = create();
    const init = { method: 'POST', headers: jsonType, body: '{"name":"Ada"}' };
    const request = new Request(`${base}/users`, init);
    for await (const _ of request.body ?? []);
    const message = 'the body of the request was already read';
    await assert.rejects(handle(request), { name: 'TypeError', message });
    assert.deepEqual(requests, []);
  });

  it('rejects when the body of the request fails', async () => {
    const { handle, repository } = create();
    const body = new ReadableStream({
      pull: (controller) => controller.error(new Error('the host lost the body')),
    });
    await assert.rejects(post(handle, '/users', body, { duplex: 'half' }), /the host lost the body/);
    assert.equal(await repository.users.count({}), 0);
  });

  it('rejects when the body of the request fails without a reason', async () => {
    const { handle, repository } = create();
    const body = new ReadableStream({ pull: (controller) => controller.error() });
    await assert.rejects(post(handle, '/users', body, { duplex: 'half' }), /the body of the request failed/);
    assert.equal(await repository.users.count({}), 0);
  });

  it('rejects a header with a control character, and opens no connection for it', async (t) => {
    const { handle } = create();
    const connections: number[] = [];
    const hook = createHook({
      init: (id, type) => type === 'HTTPINCOMINGMESSAGE' && connections.push(id),
    }).enable();
    t.after(() => hook.disable());
    await (await handle(new Request(`${base}/health`))).text();
    assert.equal(connections.length, 1);
    const headers = { 'x-control': '\u0001' };
    await assert.rejects(handle(new Request(`${base}/health`, { headers })), { code: 'ERR_INVALID_CHAR' });
    assert.equal(connections.length, 1);
  });

  it('rejects with the error of a body that fails after its first bytes', async () => {
    const { handle } = create();
    const { promise: sent, resolve } = Promise.withResolvers<void>();
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(new TextEncoder().encode('{"name":'));
        await sent;
        controller.error(new Error('the host lost the body'));
      },
    });
    const reply = post(handle, '/users', body, { duplex: 'half' });
    setImmediate(resolve);
    await assert.rejects(reply, /the host lost the body/);
  });

  it('responds to a head whose body has not begun', async () => {
    const { handle } = create({ apiKeys: ['key'], auth: 'writes' });
    const response = await post(handle, '/users', new ReadableStream(), { duplex: 'half' });
    assert.deepEqual([response.status, await response.json()], [401, { error: 'x-api-key is required' }]);
  });

  it('cancels a body that goes on for long after the response to its head, also if that fails', async () => {
    const { handle } = create({ apiKeys: ['key'], auth: 'writes' });
    const { promise: cancelled, resolve } = Promise.withResolvers<void>();
    const body = new ReadableStream({
      pull: (controller) => controller.enqueue(Buffer.from('{')),
      cancel() {
        resolve();
        throw new Error('the body cannot be cancelled');
      },
    });
    const response = await post(handle, '/users', body, { duplex: 'half' });
    assert.equal(response.status, 401);
    await cancelled;
    // An unhandled rejection would fail the test.
    await nextTurn();
  });

  it('reads the rest of a body after the response to its head, because some hosts close the connection when it is cancelled', async () => {
    const { handle } = create();
    const { promise: responded, resolve: respond } = Promise.withResolvers<void>();
    const { promise: ended, resolve: end } = Promise.withResolvers<string>();
    let parts = 20;
    const body = new ReadableStream({
      async pull(controller) {
        controller.enqueue(Buffer.from('{'));
        await responded;
        parts -= 1;
        if (parts > 0) return;
        controller.close();
        end('read');
      },
      cancel: () => end('cancelled'),
    });
    const response = await post(handle, '/nothing', body, { duplex: 'half' });
    assert.deepEqual([response.status, await response.json()], [404, { error: 'no such resource' }]);
    // The connection in memory closes.
    await nextTurn();
    respond();
    assert.equal(await ended, 'read');
  });

  for (const end of ['', '}']) {
    it(`ends with an iterable body whose ${end ? 'next part' : 'end'} comes long after the response to its head`, async (t) => {
      const { handle } = create();
      const { promise: responded, resolve: respond } = Promise.withResolvers<void>();
      const { promise: ended, resolve: finish } = Promise.withResolvers<void>();
      async function* parts() {
        try {
          yield Buffer.from('{');
          await responded;
          if (end) for (;;) yield Buffer.from(end);
        } finally {
          finish();
        }
      }
      const body: unknown = parts();
      let now = performance.now();
      t.mock.method(performance, 'now', () => now);
      const response = await post(handle, '/nothing', body as Parameters<typeof post>[2], { duplex: 'half' });
      assert.deepEqual([response.status, await response.json()], [404, { error: 'no such resource' }]);
      // The connection in memory closes within a few turns.
      for (let turns = 0; turns < 10; turns += 1) await nextTurn();
      now += 60_000;
      respond();
      await ended;
      // An uncaught exception of the stream would come in a microtask, and fail the test.
      await nextTurn();
    });
  }

  it('ignores the Trailer header of a request without a body', async () => {
    const headers = { trailer: 'x-checksum' };
    const response = await create().handle(new Request(`${base}/users`, { headers }));
    assert.deepEqual([response.status, await response.json()], [200, []]);
  });

  it('rejects wrong options as the listener does', () => {
    for (const createHandler of [createFetchHandler, createRequestListener]) {
      assert.throws(
        () => createHandler({ repository: createMemoryStore(), limits: { maxBodyBytes: 0 } }),
        /^RangeError: limits\.maxBodyBytes must be a whole number from 1 to/,
      );
    }
  });

  it('does not keep the process alive', async () => {
    // A turn of the scheduler may be left from an earlier request.
    await nextTurn();
    const before = process.getActiveResourcesInfo();
    const { handle } = create();
    assert.equal(await (await handle(new Request(`${base}/health`))).text(), '{"ok":true}');
    assert.deepEqual(process.getActiveResourcesInfo().toSorted(), before.toSorted());
  });

  for (const path of ['/long.bin', '/changes']) {
    it(`does not keep the process alive with a response of ${path} that is not read`, async () => {
      const [index, store] = ['index.ts', 'storage/memory/store.ts'].map((file) =>
        JSON.stringify(new URL(`../../src/${file}`, import.meta.url).href),
      );
      const host = `
        import { createFetchHandler } from ${index};
        import { createMemoryStore } from ${store};
        const publicDir = ${JSON.stringify(await folderOf(3_000_000))};
        const limits = { writeTimeoutMs: 600_000 };
        const handle = createFetchHandler({ repository: createMemoryStore(), publicDir, limits });
        const headers = { accept: 'text/event-stream' };
        console.log((await handle(new Request('${base}${path}', { headers }))).status);
      `;
      const { code, stdout } = await runTool(process.execPath, ['--input-type=module', '--eval', host]);
      assert.deepEqual([code, stdout], [0, '200\n']);
    });
  }
});
