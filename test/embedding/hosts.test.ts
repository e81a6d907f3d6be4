import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import {
  createServer,
  IncomingMessage,
  type RequestListener as NodeListener,
  type Server,
  ServerResponse,
} from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { Socket } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import express from 'express';
import fastify from 'fastify';
import { createRequestListener, type Repository, type ServiceEvent } from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { until } from '../kit/until.ts';
import { head, Wire } from '../kit/wire.ts';
import { fetch as fetchDocumented } from '../support/fetch.ts';
import { listen } from '../support/listen.ts';

/** Mounts the service at `/api` of a host with the route `GET /own`, and resolves to the host's address. */
type Host = (
  t: TestContext,
  repository: Repository,
  observe: (event: ServiceEvent) => void,
) => Promise<string>;

const basePath = '/api';

/** Mounts a listener as Connect does, which Vite uses too. */
function connect(users: ReturnType<typeof createRequestListener>): NodeListener {
  return (request: IncomingMessage & { originalUrl?: string }, response) => {
    const { url = '' } = request;
    request.originalUrl = url;
    if (!/^\/api(?=[/?]|$)/.test(url)) return response.end('own');
    // For the mount path itself, Connect adds a slash.
    request.url = url.slice(basePath.length).replace(/^(?!\/)/, '/');
    return users(request, response, () => response.end('own'));
  };
}

async function listenOn(t: TestContext, server: Server): Promise<string> {
  return (await listen(t, server)).http;
}

/** A client of a server, which listens on a free port. */
async function openWire(t: TestContext, server: Server): Promise<Wire> {
  return await Wire.open(t, (await listen(t, server)).port);
}

const jsonType = { 'content-type': 'application/json' };
const postAda = (url: string) =>
  fetch(`${url}/users`, { method: 'POST', headers: jsonType, body: '{"name":"Ada"}' });

/** A listener for an empty store, which serves no files. */
function createUsers(): ReturnType<typeof createRequestListener> {
  return createRequestListener({ repository: createMemoryStore(), publicDir: false });
}

/** An application of Express with the route `GET /own`. */
function createApp(...handlers: readonly express.RequestHandler[]): express.Express {
  const app = express().disable('x-powered-by');
  for (const handler of handlers) app.use(handler);
  app.get('/own', (_request, response) => void response.send('own'));
  return app;
}

// examples.test.ts tests the hosts of the documentation.
const hosts: Readonly<Record<string, Host>> = {
  'Express, behind middleware that wraps writeHead': (t, repository, observe) => {
    const wrap: express.RequestHandler = (_request, response, next) => {
      const { writeHead } = response;
      // The package `on-headers`, which `compression` and others use, did this up to version 1.0.
      response.writeHead = (statusCode: number, headers: unknown): typeof response => {
        const fields = Array.isArray(headers) ? headers : Object.entries(headers ?? {});
        for (const [name, value] of fields) response.setHeader(name, value);
        return writeHead.call(response, statusCode);
      };
      next();
    };
    const app = createApp(wrap).use(
      basePath,
      createRequestListener({ repository, observe, publicDir: false }),
    );
    return listenOn(t, createServer(app));
  },

  'Express, mounted by the host': (t, repository, observe) => {
    const users = createRequestListener({ repository, observe, publicDir: false });
    return listenOn(t, createServer(createApp().use(basePath, users)));
  },

  'Connect, mounted by the host': (t, repository, observe) => {
    const users = createRequestListener({ repository, observe, publicDir: false });
    return listenOn(t, createServer(connect(users)));
  },
};

for (const [name, start] of Object.entries(hosts)) {
  describe(`the service inside ${name}`, () => {
    it('serves requests below the prefix, and its links contain the prefix', async (t) => {
      const events: ServiceEvent[] = [];
      const url = await start(t, createMemoryStore(), (event) => events.push(event));
      const init = { method: 'POST', headers: jsonType, body: '{"name":"Ada"}' };
      const created = await fetchDocumented(`${url}/api/users`, init, basePath);
      assert.equal(created.status, 201, await created.text());
      assert.equal(created.headers.get('location'), '/api/users/1');
      const listed = await fetchDocumented(`${url}/api/users?limit=1`, {}, basePath);
      const links = '</api/users?limit=1>; rel="first", </api/changes?after=1>; rel="monitor"';
      assert.equal(listed.headers.get('link'), links);
      assert.deepEqual(await listed.json(), [{ id: 1, name: 'Ada' }]);
      assert.ok(events.some((event) => event.type === 'request' && event.route === '/users'));
    });

    it('passes requests outside the prefix to the host', async (t) => {
      const url = await start(t, createMemoryStore(), () => undefined);
      assert.equal(await (await fetch(`${url}/own`)).text(), 'own');
    });

    it('responds to invalid requests itself', async (t) => {
      const url = await start(t, createMemoryStore(), () => undefined);
      const refused = await fetchDocumented(`${url}/api/users/0`, {}, basePath);
      assert.equal(refused.status, 400);
      assert.deepEqual(await refused.json(), { error: 'id must be a positive integer' });
    });

    it('sends 100 Continue once for each body', async (t) => {
      const url = await start(t, createMemoryStore(), () => undefined);
      const wire = await Wire.open(t, Number(new URL(url).port));
      const fields = ['Content-Type: application/json', 'Content-Length: 14', 'Expect: 100-continue'];
      for (const _ of [1, 2]) {
        wire.write(head('POST /api/users', ...fields));
        assert.equal((await wire.next()).status, 100);
        assert.equal((await wire.write('{"name":"Ada"}').next()).status, 201);
      }
    });
  });
}

it('answers a request of a test double, whose response has no socket', async () => {
  const users = createUsers();
  const head = { method: 'GET', url: '/users', httpVersion: '1.1', headers: { host: 'localhost' } };
  const request = Object.assign(new IncomingMessage(new Socket()), head);
  const response = new ServerResponse(request);
  users(request, response);
  await until(() => response.writableEnded, 'the response has ended');
  assert.equal(response.statusCode, 200);
});

it('answers a request of a test double, whose response does not know its request', async () => {
  const users = createUsers();
  const head = { method: 'GET', url: '/users', httpVersion: '1.1', headers: { host: 'localhost' } };
  const request = Object.assign(new IncomingMessage(new Socket()), head);
  const response = new ServerResponse(request);
  Reflect.set(response, 'req', undefined);
  users(request, response);
  await until(() => response.writableEnded, 'the response has ended');
  assert.equal(response.statusCode, 200);
  // An error of a listener would be thrown here.
  assert.ok(response.emit('close'));
});

for (const [what, given, status] of [
  ['answers', { host: 'localhost', 'content-length': 14 }, 201],
  ['rejects without a host', { 'content-length': 14 }, 400],
  ['rejects with an invalid host', { host: 'a b', 'content-length': 14 }, 400],
  ['rejects with an unknown coding', { host: 'localhost', 'transfer-encoding': 'gzip' }, 501],
  ['rejects with an unknown coding in a list', { host: 'localhost', 'transfer-encoding': ['gzip'] }, 501],
] as const) {
  it(`${what} a request of an adapter for serverless hosts, which sets no rawHeaders`, async () => {
    const users = createUsers();
    // As `serverless-http` makes it.
    const request = Object.assign(new IncomingMessage({} as Socket), {
      method: 'POST',
      url: '/users',
      httpVersion: '1.1',
      headers: { 'content-type': 'application/json', ...given },
      complete: true,
      _read(this: IncomingMessage) {
        this.push('{"name":"Ada"}');
        this.push(null);
      },
    });
    const response = new ServerResponse(request);
    users(request, response);
    await until(() => response.writableEnded, 'the response has ended');
    assert.equal(response.statusCode, status);
  });
}

it('does not empty the body that an adapter for serverless hosts has pushed, which its host may use again', async () => {
  const users = createUsers();
  const texts = ['"Ada ', 'Lovelace"'];
  const chunks = texts.map((text) => Buffer.from(new TextEncoder().encode(text).buffer));
  const fields = { host: 'localhost', 'content-type': 'application/json', 'content-length': '14' };
  const request = Object.assign(new IncomingMessage({} as Socket), {
    ...{ method: 'POST', url: '/echo', httpVersion: '1.1', headers: fields, complete: true },
    _read(this: IncomingMessage) {
      for (const chunk of chunks) this.push(chunk);
      this.push(null);
    },
  });
  const response = new ServerResponse(request);
  users(request, response);
  await until(() => response.writableEnded, 'the response has ended');
  assert.equal(response.statusCode, 200);
  assert.deepEqual(chunks.map(String), texts);
});

/** Sends a GET as adapters for serverless hosts do; resolves to the text of the response. */
async function callByAdapter(
  users: ReturnType<typeof createRequestListener>,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const head = { method: 'GET', url, httpVersion: '1.1', headers: { host: 'h', ...headers }, complete: true };
  const request = Object.assign(new IncomingMessage({} as Socket), head);
  const response = new ServerResponse(request);
  let sent = '';
  const nothing = () => undefined;
  const socket = {
    ...{ _writableState: {}, writable: true, on: nothing, removeListener: nothing, destroy: nothing },
    ...{ cork: nothing, uncork: nothing },
    write(data: string | Uint8Array, ...others: readonly unknown[]) {
      sent += data;
      for (const done of others) if (typeof done === 'function') done();
    },
  };
  response.assignSocket(socket as unknown as Socket);
  users(request, response);
  await until(() => response.writableEnded, 'the response has ended');
  return sent;
}

it('sends long replies by an adapter for serverless hosts, whose sockets have no events', async () => {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  for (let i = 0; i < 20; i += 1)
    await repository.posts(1).create({ title: 'long', body: 'x'.repeat(10_000) });
  const users = createRequestListener({ repository, publicDir: false });
  // A second reply shows that the first one does not count as waiting for ever.
  for (const _ of [1, 2]) {
    const sent = await callByAdapter(users, '/users/1/posts');
    assert.match(sent, /^HTTP\/1.1 200 /);
    assert.ok(sent.length > 200_000, `${sent.length} characters were sent`);
  }
});

it('returns a batch of changes by an adapter for serverless hosts, which cannot tell when a client leaves', async () => {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  const users = createRequestListener({ repository, publicDir: false });
  const sent = await callByAdapter(users, '/changes', { accept: 'text/event-stream' });
  assert.match(sent, /^HTTP\/1.1 200 .*application\/cloudevents-batch\+json.*"subject":"users\/1".*\]$/s);
});

it('reports the status of the requests of inject, with which Fastify tests its hosts', async (t) => {
  const events: ServiceEvent[] = [];
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  for (let i = 0; i < 20; i += 1)
    await repository.posts(1).create({ title: 'long', body: 'x'.repeat(10_000) });
  const users = createRequestListener({
    repository,
    publicDir: false,
    observe: (event) => events.push(event),
  });
  const app = fastify();
  t.after(() => app.close());
  app.addHook('onRequest', (request, reply, done) => users(request.raw, reply.raw, done));
  assert.equal((await app.inject('/users/1/posts')).json().length, 20);
  assert.equal((await app.inject('/users/2')).statusCode, 404);
  const metrics = await app.inject('/metrics');
  assert.match(metrics.body, /^users_service_requests_in_flight\{face="http"\} 1$/m, 'only this request');
  const statuses = events.map((event) => event.type === 'request' && event.status);
  assert.deepEqual(statuses, [200, 404, 200]);
});

it('deletes a user by inject of Fastify when the host has already read the body', async (t) => {
  const users = createUsers();
  const app = fastify();
  t.after(() => app.close());
  app.delete('/users/:id', (request, reply) => {
    reply.hijack();
    users(request.raw, reply.raw);
  });
  const deleted = await app.inject({ method: 'DELETE', url: '/users/1', payload: {} });
  assert.equal(deleted.statusCode, 404);
});

it('uses a body that a parser of the host has already read', async (t) => {
  const app = express();
  app.use(express.json());
  app.use(createUsers());
  const url = await listenOn(t, createServer(app));
  const headers = jsonType;
  const created = await postAda(url);
  assert.deepEqual([created.status, await created.json()], [201, { id: 1, name: 'Ada' }]);
  // In Node.js 24, `JSON.stringify` fails at a few thousand levels.
  for (const levels of [100, 20_000]) {
    const deep = `{"name":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    const refused = await fetch(`${url}/users`, { method: 'POST', headers, body: deep });
    const problem = { error: 'the body must be at most 64 levels deep' };
    assert.deepEqual([refused.status, await refused.json()], [400, problem]);
  }
  const deleted = await fetch(`${url}/users/1`, { method: 'DELETE', headers, body: '{}' });
  assert.equal(deleted.status, 204);
});

it('uses the text of a body that a parser of the host has already read', async (t) => {
  const app = express();
  app.use(express.text({ type: '*/*' }));
  app.use(createUsers());
  const created = await postAda(await listenOn(t, createServer(app)));
  assert.equal(created.status, 201, await created.text());
});

it('uses a compressed body that a parser of the host has already read', async (t) => {
  const app = express();
  app.use(express.json());
  app.use(createUsers());
  const url = await listenOn(t, createServer(app));
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
  const body = gzipSync('{"name":"Ada"}');
  const created = await fetch(`${url}/users`, { method: 'POST', headers, body });
  assert.deepEqual([created.status, await created.json()], [201, { id: 1, name: 'Ada' }]);
});

for (const encoding of ['utf8', 'base64'] as const) {
  it(`reads a short and a long body of which the host also keeps the ${encoding} text`, async (t) => {
    const listener = createUsers();
    const server = createServer((request, response) => {
      request.setEncoding(encoding).on('data', () => undefined);
      listener(request, response);
    });
    const url = await listenOn(t, server);
    for (const text of ['é', 'é'.repeat(200_000)]) {
      const body = JSON.stringify(text);
      const headers = { 'content-type': 'application/json' };
      const echoed = await fetch(`${url}/echo`, { method: 'POST', headers, body });
      assert.deepEqual([echoed.status, await echoed.json()], [200, { youSent: text }]);
    }
  });
}

it('reads a body that the host has paused until it called the listener', async (t) => {
  const users = createUsers();
  const server = createServer((request, response) => setImmediate(users, request.pause(), response));
  const created = await postAda(await listenOn(t, server));
  assert.equal(created.status, 201, await created.text());
});

it('sends one response to a client that ends its connection within a body that is not read', async (t) => {
  const listener = createUsers();
  const wire = await openWire(t, createServer(listener));
  assert.equal((await wire.write(head('POST /none', 'Content-Length: 1000000')).next()).status, 404);
  wire.socket.end();
  assert.deepEqual(await wire.end(), []);
});

it('keeps the Vary that middleware of the host has set', async (t) => {
  const listener = createRequestListener({ repository: createMemoryStore(), cors: ['https://a.example'] });
  const server = createServer((request, response) => {
    response.setHeader('vary', 'Accept-Language');
    listener(request, response);
  });
  const url = await listenOn(t, server);
  for (const [path, vary] of [
    ['/users', 'Accept-Language, prefer, origin'],
    ['/users/7', 'Accept-Language, origin'],
  ] as const) {
    assert.equal((await fetch(url + path)).headers.get('vary'), vary, path);
  }
});

it('passes a preflight request for a path of the host on, also with the option cors', async (t) => {
  const listener = createRequestListener({ repository: createMemoryStore(), cors: ['*'] });
  const server = createServer((request, response) => {
    listener(request, response, () => response.writeHead(418).end());
  });
  const url = await listenOn(t, server);
  const headers = { origin: 'https://a.example', 'access-control-request-method': 'PUT' };
  const statusOf = async (path: string) => (await fetch(url + path, { method: 'OPTIONS', headers })).status;
  assert.deepEqual([await statusOf('/theirs'), await statusOf('/users')], [418, 204]);
});

for (const count of [1, 2]) {
  it(`does not execute a request after response ${count} of a connection, which middleware of the host closes`, async (t) => {
    const repository = createMemoryStore();
    const ended = Promise.withResolvers<void>();
    const listener = createRequestListener({ repository, publicDir: false });
    const server = createServer((request, response) => {
      if (request.url === '/users/9') response.setHeader('Connection', 'close');
      request.socket.on('close', ended.resolve);
      listener(request, response);
    });
    const wire = await openWire(t, server);
    const body = '{"name":"Ada"}';
    const post =
      head('POST /users', 'Content-Type: application/json', `Content-Length: ${body.length}`) + body;
    const gets = Array.from({ length: count }, (_, i) => head(`GET /users/${10 - count + i}`));
    wire.write([...gets, post].join(''));
    for (const _ of gets) assert.equal((await wire.next()).status, 404);
    await ended.promise;
    assert.equal(await repository.users.count({}), 0);
  });
}

it('passes no request to the host after a response that closes the connection', async (t) => {
  const users = createUsers();
  const passed: unknown[] = [];
  const server = createServer((request, response) => {
    users(request, response, () => {
      passed.push(request.url);
      response.end('own');
    });
  });
  const wire = await openWire(t, server);
  const refused = head('POST /users', 'Content-Type: text/plain', 'Content-Length: 70000');
  wire.write(head('GET /own?1'), `${refused}${'x'.repeat(70_000)}${head('POST /own?2')}`);
  assert.deepEqual([(await wire.next()).status, (await wire.next()).status], [200, 415]);
  assert.deepEqual([await wire.end(), passed], [[], ['/own?1']]);
});

it('keeps reading a connection whose responses the host has ended before it calls the listener', async (t) => {
  const users = createUsers();
  const server = createServer((request, response) => {
    response.once('close', () => users(request, response)).end('own');
  });
  const wire = await openWire(t, server);
  // More than may wait on a connection.
  for (let i = 0; i < 40; i += 1) assert.equal((await wire.write(head('GET /users')).next()).body, 'own');
});

it('redirects the path at which Connect has mounted it to the page below', async (t) => {
  const users = createRequestListener({ repository: createMemoryStore() });
  const url = await listenOn(t, createServer(connect(users)));
  for (const query of ['', '?a=b']) {
    const answer = await fetch(`${url}/api${query}`, { redirect: 'manual' });
    assert.deepEqual([answer.status, answer.headers.get('location')], [308, `/api/${query}`]);
  }
  const page = await fetch(`${url}/api/`);
  assert.equal(page.status, 200, await page.text());
});

for (const [what, given, path] of [
  ['has no mount path', {}, ''],
  ['has the mount path of Express', { baseUrl: '/api' }, '/api'],
] as const) {
  it(`${what} if the host has rewritten the whole URL`, async (t) => {
    const users = createUsers();
    const server = createServer((request, response) =>
      users(Object.assign(request, { originalUrl: '/elsewhere', ...given }), response),
    );
    const answer = await fetch(`${await listenOn(t, server)}/users`);
    const links = `<${path}/users>; rel="first", <${path}/changes?after=0>; rel="monitor"`;
    assert.equal(answer.headers.get('link'), links);
  });
}

it('reports an error when the host has read a body without storing it', async (t) => {
  const failures: unknown[] = [];
  const listener = createRequestListener({
    repository: createMemoryStore(),
    publicDir: false,
    observe: (event) => event.type === 'failure' && failures.push(event.cause),
  });
  const server = createServer((request, response) => {
    request.resume().on('end', () => listener(request, response));
  });
  const url = await listenOn(t, server);
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${url}/users`, { method: 'POST', headers, body: '{"name":"Ada"}' });
  assert.equal(answer.status, 500, await answer.text());
  assert.match(String(failures[0]), /the body was already read by another parser before this listener/);
});

it('serves a host that has replaced the global Promise, as zone.js does', async (t) => {
  const listener = createUsers();
  const url = await listenOn(t, createServer(listener));
  const { Promise: original } = globalThis;
  t.after(() => {
    globalThis.Promise = original;
  });
  // The promise of an async function is not an instance of it.
  globalThis.Promise = class extends original<unknown> {} as PromiseConstructor;
  const created = await postAda(url);
  assert.equal(created.status, 201, await created.text());
});

it('serves files and reads parsed bodies in a host that has replaced the global Uint8Array, as jsdom does', async (t) => {
  const app = express();
  app.use(express.raw({ type: '*/*' }));
  app.use(createRequestListener({ repository: createMemoryStore() }));
  const url = await listenOn(t, createServer(app));
  const { Uint8Array: original } = globalThis;
  t.after(() => {
    globalThis.Uint8Array = original;
  });
  // A buffer is not an instance of it.
  globalThis.Uint8Array = class extends original {} as Uint8ArrayConstructor;
  const page = await fetch(`${url}/`);
  assert.equal(page.status, 200, await page.text());
  const created = await postAda(url);
  assert.equal(created.status, 201, await created.text());
});

it('rejects the requests of a node:http2 server', async (t) => {
  const listener = createUsers();
  const server = createHttp2Server((request, response) =>
    // Plain JavaScript may do this. The types of Node.js do not allow it.
    listener(request as unknown as IncomingMessage, response as unknown as ServerResponse),
  );
  const { http } = await listen(t, server);
  const client = connectHttp2(http);
  t.after(() => client.destroy());
  const requests = [client.request({ ':path': '/users' }), client.request({ ':path': '/users' })];
  for (const request of requests) {
    const [headers] = await once(request.resume(), 'response');
    assert.equal(headers[':status'], 505);
  }
});

it('calls the store and the observer with the async local storage of each request, also if it has waited', async (t) => {
  const storage = new AsyncLocalStorage<string>();
  const store = createMemoryStore();
  const calls: (readonly [where: string, request: string | undefined, found: string | undefined])[] = [];
  const listener = createRequestListener({
    repository: {
      ...store,
      users: {
        ...store.users,
        get(id, options) {
          calls.push(['store', `/users/${id}`, storage.getStore()]);
          // Longer than a turn of the event loop may be, so that the other requests wait.
          for (const end = performance.now() + 3; performance.now() < end; );
          return store.users.get(id, options);
        },
      },
    },
    publicDir: false,
    observe: (event) => event.type === 'request' && calls.push(['observer', event.path, storage.getStore()]),
  });
  const url = await listenOn(
    t,
    createServer((request, response) => storage.run(request.url ?? '', () => listener(request, response))),
  );
  const ids = Array.from({ length: 12 }, (_, i) => i + 1);
  const heads = ids.map((id) => `GET /users/${id} HTTP/1.1\r\nHost: a.example\r\n\r\n`);
  const wires = await Promise.all([1, 2, 3, 4].map(() => Wire.open(t, Number(new URL(url).port))));
  for (const [i, wire] of wires.entries()) wire.write(heads.slice(3 * i, 3 * i + 3).join(''));
  for (const wire of wires) for (const _ of [1, 2, 3]) await wire.next();
  await until(() => calls.length === 2 * ids.length, 'every request is reported');
  const mixed = calls.filter(([, request, found]) => request !== found);
  assert.deepEqual(mixed, []);
});

/** A listener whose reads of a user wait for `release`. */
function listenerWithHeldReads() {
  const store = createMemoryStore();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const users: Repository['users'] = {
    ...store.users,
    get: (id, options) => released.then(() => store.users.get(id, options)),
  };
  const listener = createRequestListener({ repository: { ...store, users }, publicDir: false });
  return { listener, release };
}

it('serves a pipelined request after one that the host has answered while it waited', async (t) => {
  const { listener, release } = listenerWithHeldReads();
  const server = createServer((request, response) => {
    listener(request, response);
    if (request.url === '/users/2') response.end('own');
    if (request.url === '/users/3') release();
  });
  const wire = await openWire(t, server);
  wire.write([1, 2, 3].map((id) => `GET /users/${id} HTTP/1.1\r\nHost: a.example\r\n\r\n`).join(''));
  const bodies: string[] = [];
  for (const _ of [1, 2, 3]) bodies.push((await wire.next()).body);
  assert.deepEqual(bodies, ['{"error":"user 1 not found"}', 'own', '{"error":"user 3 not found"}']);
});

for (const before of [[], [head('GET /users/1')]]) {
  it(`does not start request ${before.length + 2} of a connection while the host serves the one before`, async (t) => {
    const repository = createMemoryStore();
    const users = createRequestListener({ repository, publicDir: false });
    const [passed, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const server = createServer((request, response) => {
      if (request.url === '/own') request.socket.once('close', left.resolve);
      else users(request, response);
      if (request.method === 'POST') passed.resolve();
    });
    const url = await listenOn(t, server);
    const wire = await Wire.open(t, Number(new URL(url).port));
    const post = head('POST /users', 'Content-Type: application/json', 'Content-Length: 15');
    wire.write(`${before.join('')}${head('GET /own')}${post}{"name":"Anna"}`);
    for (const _ of before) assert.equal((await wire.next()).status, 404);
    await passed.promise;
    assert.equal(await (await fetch(`${url}/users`)).text(), '[]');
    wire.socket.destroy();
    await left.promise;
    assert.equal(await (await fetch(`${url}/users`)).text(), '[]');
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /^users_service_requests_in_flight\{face="http"\} 1$/m, 'only this request');
  });
}

it('uses no memory budget for requests that the host passes on after their client has disconnected', async (t) => {
  const events: ServiceEvent[] = [];
  const observe = (event: ServiceEvent) => events.push(event);
  const users = createRequestListener({ repository: createMemoryStore(), publicDir: false, observe });
  const waiting: (() => void)[] = [];
  const counts = new Map<Socket, number>();
  const closed = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    const { socket } = request;
    const count = (counts.get(socket) ?? 0) + 1;
    counts.set(socket, count);
    waiting.push(() => users(request, response));
    // As many as count for a connection. Fewer connections than these would use the whole budget.
    if (count === 50) socket.destroy();
    if (waiting.length === 30 * 50) socket.once('close', closed.resolve);
  });
  const { port } = await listen(t, server);
  const chunked = `${head('GET /users', 'Transfer-Encoding: chunked')}0\r\n\r\n`;
  for (let i = 0; i < 30; i += 1) (await Wire.open(t, port)).write(chunked.repeat(50));
  await closed.promise;
  for (const pass of waiting) pass();
  assert.deepEqual(events, []);
});

it('reads the rest of a body before it closes a connection for which the host has set Connection: close', async (t) => {
  const users = createUsers();
  const closed = Promise.withResolvers<number>();
  const server = createServer((request, response) => {
    const { socket } = request;
    socket.once('close', () => closed.resolve(socket.bytesRead));
    response.setHeader('Connection', 'close');
    users(request, response);
  });
  const wire = await openWire(t, server);
  // The service does not wait long for the rest.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  wire.write(head('POST /nosuch', 'Content-Length: 50000'), Buffer.alloc(5_000));
  assert.equal((await wire.next()).status, 404);
  wire.write(Buffer.alloc(45_000));
  assert.ok((await closed.promise) > 50_000);
});

it('does not count a request whose response the host has destroyed while it waited', async (t) => {
  const { listener, release } = listenerWithHeldReads();
  const server = createServer((request, response) => {
    listener(request, response);
    if (request.url !== '/users/2') return;
    response.destroy();
    release();
  });
  const url = await listenOn(t, server);
  const wire = await Wire.open(t, Number(new URL(url).port));
  wire.write([1, 2].map((id) => `GET /users/${id} HTTP/1.1\r\nHost: a.example\r\n\r\n`).join(''));
  assert.equal((await wire.next()).body, '{"error":"user 1 not found"}');
  const metrics = await (await fetch(`${url}/metrics`)).text();
  assert.match(metrics, /^users_service_requests_in_flight\{face="http"\} 1$/m, 'only this request');
});

for (const order of [
  [1, 2, 3],
  [2, 3, 1],
  [3, 1, 2],
  [3, 2, 1],
]) {
  it(`serves pipelined requests that the host passes on in the order ${order}`, async (t) => {
    const listener = createUsers();
    const passes = new Map<string, () => void>();
    const server = createServer((request, response) => {
      passes.set(request.url ?? '', () => listener(request, response));
      if (passes.size === 3) for (const id of order) passes.get(`/users/${id}`)?.();
    });
    const wire = await openWire(t, server);
    wire.write([1, 2, 3].map((id) => `GET /users/${id} HTTP/1.1\r\nHost: a.example\r\n\r\n`).join(''));
    const bodies: string[] = [];
    for (const _ of [1, 2, 3]) bodies.push((await wire.next()).body);
    assert.deepEqual(
      bodies,
      [1, 2, 3].map((id) => `{"error":"user ${id} not found"}`),
    );
  });
}

for (const order of [
  [2, 1],
  [3, 1, 2],
]) {
  it(`serves the requests before one that closes the connection, passed on in the order ${order}`, async (t) => {
    const listener = createUsers();
    const pairs: [IncomingMessage, ServerResponse][] = [];
    const server = createServer((...pair) => {
      pairs.push(pair);
      if (pairs.length < order.length) return;
      for (const place of order) {
        const [request, response] = pairs[place - 1] ?? pair;
        listener(request, response);
      }
    });
    const wire = await openWire(t, server);
    const gets = order.slice(1).map((_, i) => head(`GET /users/${i + 1}`));
    const tooLong = ['Content-Type: application/json', 'Content-Length: 5000000'];
    wire.write([...gets, head('POST /users', ...tooLong)].join(''));
    const statuses: number[] = [];
    for (const _ of order) statuses.push((await wire.next()).status);
    assert.deepEqual(statuses, [...gets.map(() => 404), 413]);
  });
}
