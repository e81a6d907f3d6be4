import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import express, { type RequestHandler } from 'express';
import { createRequestListener, DomainError } from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { until } from '../kit/until.ts';
import { errorOf, open, type RequestOptions, send } from '../support/client.ts';
import { storeWithFeed } from '../support/feed-store.ts';
import { listen } from '../support/listen.ts';
import { parseMetrics } from '../support/prometheus.ts';
import { startService } from '../support/service.ts';
import { hasTool, runTool } from '../support/tool.ts';

/** A client of the stream. It reads the fields of each event as they arrive. */
class Follower {
  readonly response: IncomingMessage;
  text = '';
  readonly #blocks: AsyncIterator<string>;

  private constructor(response: IncomingMessage) {
    this.response = response;
    this.#blocks = this.#read();
  }

  static async open(t: TestContext, base: string, path = '/changes', options: RequestOptions = {}) {
    const headers = { accept: 'text/event-stream', ...options.headers };
    const response = await open(base, `GET ${path}`, { ...options, headers });
    t.after(() => response.destroy());
    assert.equal(response.statusCode, 200);
    assert.equal(response.headers['content-type'], 'text/event-stream');
    return new Follower(response);
  }

  async *#read(): AsyncGenerator<string> {
    let rest = '';
    for await (const chunk of this.response.setEncoding('utf8')) {
      this.text += chunk;
      const blocks = (rest + chunk).split('\n\n');
      rest = blocks.pop() ?? '';
      yield* blocks;
    }
  }

  /** The next block of lines; `undefined` at the end of the stream. */
  async block(): Promise<string | undefined> {
    const next = await this.#blocks.next();
    return next.done === true ? undefined : next.value;
  }

  /** The position and subject of the next event. */
  async event(): Promise<string> {
    for (;;) {
      const block = (await this.block()) ?? assert.fail('the stream has ended');
      const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(block) ?? [];
      if (data === undefined) continue;
      const event: { id: string; type: string; subject: string } = JSON.parse(data);
      assert.equal(event.id, id);
      return `${id} ${event.type} ${event.subject}`;
    }
  }
}

describe('GET /changes as a stream', () => {
  it('sends its headers at once, then each change as it happens, with its position as the id', async (t) => {
    const { http } = await startService(t);
    const follower = await Follower.open(t, http);
    assert.match(String(await follower.block()), /^retry: 1\d{3}\nid: 0$/);
    await send(http, 'POST /users', { json: { name: 'Ada' } });
    assert.equal(await follower.event(), '1 user.created users/1');
    await send(http, 'POST /users/1/posts', { json: { title: 'Notes' } });
    assert.equal(await follower.event(), '2 post.created users/1/posts/1');
    await send(http, 'DELETE /users/1');
    assert.equal(await follower.event(), '3 post.deleted users/1/posts/1');
    assert.equal(await follower.event(), '4 user.deleted users/1');
    const { headers } = follower.response;
    assert.deepEqual([headers['cache-control'], headers['vary']], ['no-store, no-transform', 'accept']);
    assert.equal(headers['x-accel-buffering'], 'no');
  });

  it('asks each client to wait for a random time of one to two seconds before it connects again', async (t) => {
    const { http } = await startService(t);
    for (const [random, retry] of [
      [0, 1_000],
      [0.9999, 1_999],
    ] as const) {
      const { mock } = t.mock.method(Math, 'random', () => random);
      assert.equal(await (await Follower.open(t, http)).block(), `retry: ${retry}\nid: 0`);
      mock.restore();
    }
  });

  it('resumes directly after Last-Event-ID, which overrides the parameter after', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    for (let i = 0; i < 250; i += 1) await repository.users.create({ name: `User ${i}` });
    const headers = { 'last-event-id': '40' };
    const follower = await Follower.open(t, http, '/changes?after=7', { headers });
    for (let id = 41; id <= 250; id += 1) {
      assert.equal(await follower.event(), `${id} user.created users/${id}`);
    }
    await repository.users.create({ name: 'live' });
    assert.equal(await follower.event(), '251 user.created users/251');
  });

  it('neither misses nor repeats a change while many clients write and follow', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    const ahead = await Follower.open(t, http);
    const writing = (async () => {
      for (let i = 0; i < 1_500; i += 1) {
        await repository.users.create({ name: `User ${i}` });
        if (i % 50 === 0) await new Promise(setImmediate);
      }
    })();
    const late = async (after: number) => {
      const follower = await Follower.open(t, http, `/changes?after=${after}`);
      for (let id = after + 1; id <= 1_500; id += 1) {
        assert.equal(await follower.event(), `${id} user.created users/${id}`);
      }
    };
    await ahead.event();
    await Promise.all([writing, late(0), late(1), late(1)]);
    for (let id = 2; id <= 1_500; id += 1) await ahead.event();
  });

  it('sends only changes that match the filters, and heartbeats with the position', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    const follower = await Follower.open(t, http, '/changes?user=2&type=user.created,post.created');
    await follower.block();
    await repository.users.create({ name: 'Ada' });
    await repository.users.create({ name: 'Grace' });
    await repository.users.update(2, { name: 'Grace Hopper' });
    await repository.posts(2).create({ title: 'Notes', body: '' });
    // The store looks for changes.
    t.mock.timers.tick(20);
    assert.equal(await follower.event(), '2 user.created users/2');
    assert.equal(await follower.event(), '4 post.created users/2/posts/1');
    await repository.users.delete(1);
    // The first heartbeat may be sent before the deletion has been read.
    t.mock.timers.tick(15_000);
    assert.match(String(await follower.block()), /^: nothing new\nid: [45]$/);
    t.mock.timers.tick(15_000);
    assert.equal(await follower.block(), ': nothing new\nid: 5');
  });

  it('ends with an event named gone when its position is no longer kept', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    const follower = await Follower.open(t, http);
    await follower.block();
    await repository.importRows('users', [{ id: 9, name: 'Imported', version: 1 }]);
    const gone = String(await follower.block());
    assert.match(gone, /^event: gone\ndata: \{"error":"the changes after 0 are not kept/);
    assert.equal(await follower.block(), undefined);
    const again = await Follower.open(t, http, '/changes');
    await repository.users.create({ name: 'Ada' });
    assert.match(String(await again.event()), /^\d+ user\.created users\/10$/);
  });

  it('continues after reads of the store have failed for a while', async (t) => {
    const { store, feed } = storeWithFeed();
    let broken = false;
    const changes = {
      ...feed,
      read: (...args: Parameters<typeof feed.read>) =>
        broken ? Promise.reject(new Error('the disk is on fire')) : feed.read(...args),
    };
    const repository = { ...store, changes };
    const { http, failures } = await startService(t, { repository, expectFailures: true });
    const follower = await Follower.open(t, http);
    await follower.block();
    broken = true;
    await store.users.create({ name: 'Ada' });
    await until(() => failures().length > 0, 'a read has failed');
    broken = false;
    assert.equal(await follower.event(), '1 user.created users/1');
  });

  it('sends the newest changes from memory while the store is overloaded', async (t) => {
    const { store, feed } = storeWithFeed();
    let isOverloaded = false;
    const changes: typeof feed = {
      ...feed,
      // The request reads a single change, to check its position.
      async read(...args) {
        if (isOverloaded && args[0].limit > 1) throw new DomainError('overloaded', 'too many requests wait');
        return feed.read(...args);
      },
    };
    const repository = { ...store, changes };
    const { http, failures } = await startService(t, { repository, expectFailures: true });
    const first = await Follower.open(t, http);
    for (const id of [1, 2]) {
      await store.users.create({ name: 'Ada' });
      assert.equal(await first.event(), `${id} user.created users/${id}`);
    }
    isOverloaded = true;
    await store.users.create({ name: 'Ada' });
    await until(() => failures().length > 0, 'a read has failed');
    const behind = await Follower.open(t, http, '/changes', { headers: { 'last-event-id': '1' } });
    assert.equal(await behind.event(), '2 user.created users/2');
    isOverloaded = false;
    for (const follower of [first, behind]) assert.equal(await follower.event(), '3 user.created users/3');
  });

  it('reads changes before the newest 400 from the store', async (t) => {
    const repository = createMemoryStore();
    assert.ok(repository.changes);
    const read = t.mock.method(repository.changes, 'read');
    const { http } = await startService(t, { repository });
    const first = await Follower.open(t, http);
    // The reader would begin again if it fell further behind.
    for (let i = 0; i < 10; i += 1) {
      for (let j = 0; j < 50; j += 1) await repository.users.create({ name: 'Ada' });
      for (let j = 0; j < 50; j += 1) await first.event();
    }
    read.mock.resetCalls();
    const behind = await Follower.open(t, http, '/changes?after=50');
    for (let id = 51; id <= 500; id += 1)
      assert.equal(await behind.event(), `${id} user.created users/${id}`);
    const positions = read.mock.calls.map((call) => call.arguments[0].after);
    // The first read checks the position of the request.
    const isOld = (position: number) => position > 50 && position < 100;
    assert.ok(positions.some(isOld), `${positions}`);
  });

  it('does not send changes that were lost in a failover to a client that was behind them', async (t) => {
    const [lost, kept] = [createMemoryStore(), createMemoryStore()];
    for (const name of ['Ada', 'Bob', 'Eve']) await lost.users.create({ name });
    await kept.users.create({ name: 'Ada' });
    await kept.posts(1).create({ title: 'first', body: '' });
    assert.ok(lost.changes && kept.changes);
    let feed: typeof lost.changes | undefined = lost.changes;
    let reads = 0;
    const changes: typeof lost.changes = {
      ...feed,
      read(...args) {
        reads += 1;
        return feed?.read(...args) ?? Promise.reject(new Error('the connection was lost'));
      },
      position: () => kept.changes?.position() ?? assert.fail(),
    };
    const repository = { ...lost, changes };
    const { http, failures } = await startService(t, { repository, expectFailures: true });
    const ahead = await Follower.open(t, http);
    for (const id of [1, 2, 3]) assert.equal(await ahead.event(), `${id} user.created users/${id}`);
    feed = undefined;
    await lost.users.create({ name: 'Tom' });
    await until(() => failures().length > 0, 'a read has failed');
    feed = kept.changes;
    const behind = await Follower.open(t, http, '/changes', { headers: { 'last-event-id': '1' } });
    assert.equal(await behind.event(), '2 post.created users/1/posts/1');
    assert.match(String(await ahead.block()), /^event: gone/);
    assert.ok(reads < 100, `${reads} reads`);
    await kept.posts(1).create({ title: 'second', body: '' });
    // Only this store wakes the reader.
    await lost.users.create({ name: 'Tim' });
    assert.equal(await behind.event(), '3 post.created users/1/posts/2');
  });

  it('does not watch the store without clients', async (t) => {
    const { store, feed } = storeWithFeed();
    let watches = 0;
    const watch: typeof feed.watch = (wake) => {
      const stop = feed.watch(wake);
      watches += 1;
      return () => {
        watches -= 1;
        stop();
      };
    };
    const { http } = await startService(t, { repository: { ...store, changes: { ...feed, watch } } });
    const followers = [await Follower.open(t, http), await Follower.open(t, http)];
    assert.equal(watches, 1);
    for (const { response } of followers) response.destroy();
    await until(() => watches === 0, 'the watch has ended');
  });

  it('works for the next client after the store has failed to watch for the first one', async (t) => {
    const { store: repository, feed: changes } = storeWithFeed();
    const watch = t.mock.method(changes, 'watch');
    watch.mock.mockImplementationOnce(() => {
      throw new Error('cannot watch');
    });
    const { http } = await startService(t, { repository, expectFailures: true });
    const failed = await open(http, 'GET /changes', { headers: { accept: 'text/event-stream' } });
    failed.resume().on('error', () => undefined);
    await once(failed, 'close');
    const follower = await Follower.open(t, http);
    await send(http, 'POST /users', { json: { name: 'Ada' } });
    assert.equal(await follower.event(), '1 user.created users/1');
  });

  it('reads new changes at most 100 at a time', async (t) => {
    const { store, feed } = storeWithFeed();
    const limits: number[] = [];
    const changes = {
      ...feed,
      read: (...args: Parameters<typeof feed.read>) => {
        limits.push(args[0].limit);
        return feed.read(...args);
      },
    };
    const { http } = await startService(t, { repository: { ...store, changes } });
    const follower = await Follower.open(t, http);
    await follower.block();
    // The reader has caught up before the changes, so the follower reads none of them itself.
    await until(() => limits.length > 1, 'the first page is read');
    // A follower that is more than 400 changes behind would read them itself, with limits of its own.
    for (let round = 0; round < 10; round += 1) {
      const creations = Array.from({ length: 300 }, (_, i) => store.users.create({ name: `User ${i}` }));
      await Promise.all(creations);
      for (const _ of creations) await follower.event();
    }
    assert.equal(Math.max(...limits), 100);
  });

  it('rejects followers beyond maxFollowers, and accepts one more after another has disconnected', async (t) => {
    const options = { maxFollowers: 1, limits: { maxInFlight: 1 }, expectFailures: true };
    const { http, service } = await startService(t, options);
    const first = await Follower.open(t, http);
    await first.block();
    const headers = { accept: 'text/event-stream' };
    const refused = await send(http, 'GET /changes', { headers });
    assert.deepEqual([refused.status, errorOf(refused)], [503, 'too many clients follow the changes']);
    assert.equal(refused.headers['retry-after'], '1');
    assert.equal((await send(http, 'GET /users')).status, 200, 'a follower does not count in maxInFlight');
    first.response.destroy();
    await until(() => /^users_service_followers 0$/m.test(service.metrics()), 'the first one has left');
    const second = await Follower.open(t, http);
    await second.block();
  });

  it('is not counted in the metrics of requests in flight and latency, and is logged when it ends', async (t) => {
    const { http, events } = await startService(t);
    const follower = await Follower.open(t, http);
    await send(http, 'POST /users', { json: { name: 'Ada' } });
    await follower.event();
    const read = async (name: string, labels = {}) => {
      const families = parseMetrics((await send(http, 'GET /metrics')).text);
      const samples = [...families.values()].flatMap((family) => family.samples);
      return samples.find(
        (sample) =>
          sample.name === `users_service_${name}` &&
          Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
      )?.value;
    };
    assert.equal(await read('followers'), 1);
    assert.equal(await read('changes_sent_total'), 1);
    assert.equal(await read('requests_in_flight', { face: 'http' }), 1, 'only the request for the metrics');
    follower.response.destroy();
    const isEnd = (event: (typeof events)[number]) => event.type === 'request' && event.longLived === true;
    await t.waitFor(() => assert.ok(events.some(isEnd)));
    const end = events.find(isEnd);
    assert.deepEqual(end?.type === 'request' && [end.status, end.route], [200, '/changes']);
    await t.waitFor(async () => assert.equal(await read('followers'), 0));
    const changes = { route: '/changes' };
    assert.equal(await read('requests_total', { ...changes, status: '200' }), 1);
    assert.equal(await read('request_duration_seconds_count', changes), 0);
    assert.equal(await read('requests_in_flight', { face: 'http' }), 1, 'only the request for the metrics');
  });

  it('leaves the number of requests in flight right when its client disconnects before the stream starts', async (t) => {
    const store = createMemoryStore();
    const { changes } = store;
    assert.ok(changes !== undefined);
    const reading = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const slow: typeof changes = {
      ...changes,
      async read(query) {
        reading.resolve();
        await gate.promise;
        return await changes.read(query);
      },
    };
    const { http, events } = await startService(t, { repository: { ...store, changes: slow } });
    const outgoing = request(`${http}/changes`, { headers: { accept: 'text/event-stream' } });
    outgoing.on('error', () => undefined).end();
    await reading.promise;
    outgoing.destroy();
    await t.waitFor(() => assert.ok(events.some((event) => event.type === 'request')));
    gate.resolve();
    await nextTurn();
    const { text } = await send(http, 'GET /metrics');
    assert.match(text, /requests_in_flight\{face="http"\} 1\n/, 'only the request for the metrics');
    assert.match(text, /followers 0\n/);
  });

  it('ends with a complete response when the service drains, and does not delay close until its deadline', async (t) => {
    const { service, http, events } = await startService(t);
    const follower = await Follower.open(t, http);
    await follower.block();
    await send(http, 'POST /users', { json: { name: 'Ada' } });
    await follower.event();
    const startedAt = performance.now();
    await service.close({ timeoutMs: 60_000 });
    assert.equal(await follower.block(), undefined);
    assert.ok(follower.response.complete, 'the follower received the last chunk');
    // The next heartbeat, which would also end it, comes 15 s after its start.
    assert.ok(performance.now() - startedAt < 10_000);
    const end = events.find((event) => event.type === 'request' && event.longLived === true);
    assert.equal(end?.type === 'request' && end.status, 200);
  });

  it('ends when the API keys change, so that the client must reconnect with a valid key', async (t) => {
    const { service, http } = await startService(t, { auth: 'all', apiKeys: ['old'] });
    const options = { headers: { accept: 'text/event-stream', 'x-api-key': 'old' } };
    const follower = await Follower.open(t, http, '/changes', options);
    await follower.block();
    service.setApiKeys(['new']);
    assert.equal(await follower.block(), undefined);
    assert.equal((await send(http, 'GET /changes', options)).status, 401);
  });

  it('ends when the API keys change while the store checks its position', async (t) => {
    const { store, feed } = storeWithFeed();
    const [started, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const changes: typeof feed = {
      ...feed,
      // The request reads a single change, to check its position.
      async read(...args) {
        started.resolve();
        await released.promise;
        return feed.read(...args);
      },
    };
    const repository = { ...store, changes };
    const { service, http } = await startService(t, { repository, auth: 'all', apiKeys: ['old'] });
    const opening = Follower.open(t, http, '/changes', { headers: { 'x-api-key': 'old' } });
    await started.promise;
    service.setApiKeys(['new']);
    released.resolve();
    const follower = await opening;
    assert.match((await follower.block()) ?? '', /^retry: /);
    assert.equal(await follower.block(), undefined);
  });

  it('is closed when its client stops reading for too long, and resumes after the last received change', async (t) => {
    const repository = createMemoryStore();
    const { http, port, events } = await startService(t, { repository, limits: { writeTimeoutMs: 300 } });
    const socket = connect(port, '127.0.0.1').pause();
    t.after(() => socket.destroy());
    socket.write('GET /changes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n');
    await repository.users.create({ name: 'Ada' });
    const body = 'x'.repeat(10_000);
    // More data than fits into the socket buffers of both ends.
    for (let i = 0; i < 2_000; i += 1) await repository.posts(1).create({ title: `${i}`, body });
    const statuses = () =>
      events.flatMap((one) => (one.type === 'request' && one.longLived ? [one.status] : []));
    await t.waitFor(() => assert.deepEqual(statuses(), [499]), { timeout: 20_000 });
    const text = Buffer.concat(await socket.resume().toArray()).toString();
    const ids = [...text.matchAll(/^id: (\d+)\ndata: .*\n$/gm)].map(([, id]) => Number(id));
    const last = ids.at(-1) ?? 0;
    assert.ok(last > 1 && last < 2_001, `${last}`);
    assert.deepEqual(
      ids,
      Array.from({ length: last }, (_, i) => i + 1),
    );
    const follower = await Follower.open(t, http, '/changes', { headers: { 'last-event-id': String(last) } });
    for (let id = last + 1; id <= 2_001; id += 1) {
      assert.equal(await follower.event(), `${id} post.created users/1/posts/${id - 1}`);
    }
    // It made the server wait, but has read everything.
    follower.response.destroy();
    await t.waitFor(() => assert.deepEqual(statuses(), [499, 200]));
  });

  it('is sent completely to a client that uses HTTP/1.0', async (t) => {
    const { service, port } = await startService(t);
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write('GET /changes HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n');
    await once(socket, 'readable');
    const closing = service.close();
    const text = Buffer.concat(await socket.toArray()).toString();
    await closing;
    assert.match(text, /^HTTP\/1.1 200 OK\r\n[\s\S]*\r\n\r\nretry: \d+\nid: 0\n\n$/);
    assert.doesNotMatch(text, /transfer-encoding/i);
  });

  it('can be read by pages of listed origins, which may send Last-Event-ID', async (t) => {
    const { http } = await startService(t, { cors: ['https://app.example'] });
    const headers = { origin: 'https://app.example' };
    const follower = await Follower.open(t, http, '/changes', { headers });
    assert.equal(follower.response.headers['access-control-allow-origin'], 'https://app.example');
    assert.equal(follower.response.headers['vary'], 'accept, origin');
    const asked = { ...headers, 'access-control-request-method': 'GET' };
    const preflight = await send(http, 'OPTIONS /changes', { headers: asked });
    assert.match(String(preflight.headers['access-control-allow-headers']), /\bLast-Event-ID\b/);
  });

  it('is not delayed by the compression of Express, and its addresses contain the mount path', async (t) => {
    // This package has no type declarations.
    const compression: () => RequestHandler = createRequire(import.meta.url)('compression');
    const repository = createMemoryStore();
    const app = express();
    app.use(compression());
    app.use('/api', createRequestListener({ repository, publicDir: false }));
    const { http } = await listen(t, createServer(app));
    const base = `${http}`;
    const headers = { 'accept-encoding': 'gzip' };
    const follower = await Follower.open(t, base, '/api/changes', { headers });
    assert.equal(follower.response.headers['content-encoding'], undefined);
    await repository.users.create({ name: '"source":"' });
    assert.equal(await follower.event(), '1 user.created users/1');
    assert.match(follower.text, /"source":"\/api\/users\/1".*"name":"\\"source\\":\\""/);
    const batch = await send(base, 'GET /api/changes', { undocumented: true });
    assert.match(batch.text, /^\[\{"specversion":"1.0","id":"1","source":"\/api\/users\/1"/);
    assert.equal(batch.headers['link'], '</api/changes?after=1>; rel="next"');
  });

  it('can be followed with curl -N', async (t) => {
    if (!hasTool('curl')) return t.skip('curl is not installed');
    const { http, service } = await startService(t);
    await send(http, 'POST /users', { json: { name: 'Ada' } });
    const running = runTool('curl', ['-sN', '-H', 'accept: text/event-stream', `${http}/changes`]);
    await until(() => service.metrics().includes('changes_sent_total 1\n'), 'the change is sent', 30_000);
    await service.close();
    const { stdout } = await running;
    assert.match(stdout, /^retry: \d+\nid: 0\n\nid: 1\ndata: \{.*"data":\{"id":1,"name":"Ada"\}\}\n\n$/);
  });
});
