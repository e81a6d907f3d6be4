import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ListenerOptions } from '../../src/http/listener.ts';
import { HttpError, json } from '../../src/http/reply.ts';
import type { Handler } from '../../src/http/request.ts';
import { scheduler } from '../../src/http/scheduler.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';

import { until } from '../kit/until.ts';
import { exchange, head, post, Wire } from '../kit/wire.ts';
import { countKept } from '../support/garbage.ts';
import { createFace, type HttpKit, startKit } from '../support/http-kit.ts';
import { listen } from '../support/listen.ts';
import { startService } from '../support/service.ts';
import { Source } from '../support/source.ts';

const hello: Handler = () => json(200, 'hello');
const echo: Handler = async (request) => json(200, (await request.json()).value);
/** A handler that never responds. It reports its call and the abort of its signal. */
function hanging() {
  const called = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<void>();
  const handle: Handler = (request) => {
    called.resolve();
    return new Promise((_resolve, reject) => {
      request.signal.addEventListener('abort', () => {
        aborted.resolve();
        reject(new HttpError(499, 'aborted'));
      });
    });
  };
  return { handle, called: called.promise, aborted: aborted.promise };
}

/** A handler that returns its parameter in the next turn, and fails when two requests run at a time. */
function recorder() {
  const started: string[] = [];
  let underWay = 0;
  const handle: Handler = async (request) => {
    underWay += 1;
    assert.equal(underWay, 1);
    const n = request.param('n');
    started.push(n);
    await new Promise((resolve) => setImmediate(resolve));
    underWay -= 1;
    return json(200, n);
  };
  return { started, handle };
}

test('a client that disconnects aborts its handler, and the request is no longer in flight', async (t) => {
  const { handle, called, aborted } = hanging();
  const kit = await startKit(t, { 'GET /hang': handle });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /hang'));
  const ended = kit.nextRequest();
  await called;
  assert.equal(kit.face.inFlight, 1);
  wire.socket.destroy();
  await aborted;
  assert.equal((await ended).status, 499);
  assert.equal(kit.face.inFlight, 0);
});

/** Sends requests at the same moment, each on a connection in memory. Resolves to the first lines of the responses. */
async function sendTogether({ face }: HttpKit, ...heads: string[]): Promise<string[]> {
  const server = createServer(face.onRequest);
  const responses = heads.map(async (head) => {
    const [near, far] = duplexPair();
    server.emit('connection', far);
    near.write(head);
    const [data] = await once(near, 'data');
    near.destroy();
    return String(data).split('\r\n')[0] ?? '';
  });
  return await Promise.all(responses);
}

test('requests that arrive together all run before their replies are sent, and none counts after its run', async (t) => {
  const order: string[] = [];
  const handle: Handler = ({ response }) => {
    order.push('run');
    response.on('prefinish', () => order.push('send'));
    return json(200, 'hello');
  };
  const kit = await startKit(t, { 'GET /hello': handle }, { limits: { maxInFlight: 1 } });
  // The time of a turn does not end.
  t.mock.method(performance, 'now', () => 0);
  const lines = await sendTogether(kit, ...Array(3).fill(head('GET /hello')));
  assert.deepEqual(lines, Array(3).fill('HTTP/1.1 200 OK'));
  assert.deepEqual(order, ['run', 'run', 'run', 'send', 'send', 'send']);
});

test('the reply to a request that goes first is sent before earlier ones that wait', async (t) => {
  const kit = await startKit(t, { 'GET /hello': hello });
  const lines = await sendTogether(kit, head('GET /hello'), head('OPTIONS /hello'));
  assert.deepEqual(lines, ['HTTP/1.1 200 OK', 'HTTP/1.1 204 No Content']);
  await until(() => kit.events.length === 2, 'both requests are reported');
  const methods = kit.events.map((event) => event.type === 'request' && event.method);
  assert.deepEqual(methods, ['OPTIONS', 'GET']);
});

test('a request whose reply is a stream counts until the stream has ended', async (t) => {
  const [sending, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  async function* chunks() {
    yield 'a';
    sending.resolve();
    await ended.promise;
  }
  const stream: Handler = () => ({ status: 200, body: { chunks: chunks() } });
  const handlers = { 'GET /hello': hello, 'GET /stream': stream };
  const { port, face } = await startKit(t, handlers, { limits: { maxInFlight: 1 } });
  const [streaming, other] = [await Wire.open(t, port), await Wire.open(t, port)];
  streaming.write(head('GET /stream'));
  await sending.promise;
  assert.equal((await other.write(head('GET /hello')).next()).status, 503);
  ended.resolve();
  assert.equal((await streaming.next()).body, 'a');
  await until(() => face.inFlight === 0, 'the stream has ended');
  assert.equal((await other.write(head('GET /hello')).next()).status, 200);
});

test('pipelined requests run one after another, in their order', async (t) => {
  const { started, handle } = recorder();
  const kit = await startKit(t, { 'GET /{n}': handle });
  const wire = await Wire.open(t, kit.port);
  wire.write(...Array.from({ length: 20 }, (_, n) => head(`GET /${n}`)));
  for (let n = 0; n < 20; n += 1) assert.equal((await wire.next()).body, `"${n}"`);
  assert.deepEqual(started, [...Array(20).keys()].map(String));
});

for (const [what, first] of [
  ['a response that takes long', head('GET /hang')],
  [
    'an endless response that closes its connection',
    'GET /endless HTTP/1.0\r\nConnection: keep-alive\r\n\r\n',
  ],
] as const) {
  test(`only a few packets are read from a client that pipelines without waiting behind ${what}`, async (t) => {
    const { handle, called } = hanging();
    const begun = Promise.withResolvers<void>();
    const sockets: Socket[] = [];
    const kit = await startKit(t, {
      'GET /hang': (request) => {
        sockets.push(request.raw.socket);
        return handle(request);
      },
      'GET /endless': (request) => {
        sockets.push(request.raw.socket);
        const next = (): Promise<undefined> => {
          begun.resolve();
          return new Promise(() => undefined);
        };
        return { status: 200, body: new Source((taken) => (taken === 0 ? 'begin' : next())) };
      },
      'GET /hello': hello,
    });
    const wire = await Wire.open(t, kit.port);
    wire.write(first);
    await Promise.race([called, begun.promise]);
    // More data than the socket buffers hold, so the rest stays with the client.
    const many = head('GET /hello').repeat(1_000);
    for (let i = 0; i < 1_000; i += 1) wire.socket.write(many);
    const other = await Wire.open(t, kit.port);
    for (let i = 0; i < 50; i += 1) await other.write(head('GET /hello')).next();
    const [socket] = sockets;
    assert.ok(socket !== undefined && socket.bytesRead < 300_000, `${socket?.bytesRead} bytes were read`);
  });
}

test('a paused connection is read again after its earlier requests have ended', async (t) => {
  // On a slow machine, a part of a request is read longer than usual before the rest.
  const timeouts = { headersTimeoutMs: 0, requestTimeoutMs: 0 };
  const kit = await startKit(t, { 'GET /hello': hello, 'POST /echo': echo }, { timeouts });
  const rounds = [...Array(500).keys()];
  const bytes = rounds.map((n) => head('GET /hello') + post('/echo', `[${n}]`)).join('');
  const last = head('GET /hello', 'Connection: close');
  const responses = await exchange(kit.port, bytes + last);
  const bodies = responses.map(({ body }) => body);
  assert.deepEqual(bodies, [...rounds.flatMap((n) => ['"hello"', `[${n}]`]), '"hello"']);
});

test('a client that disconnects aborts its request, and its pipelined requests never start', async (t) => {
  const { handle, called } = hanging();
  let greeted = 0;
  const kit = await startKit(t, {
    'GET /hang': handle,
    'GET /hello': () => {
      greeted += 1;
      return json(200, 'hello');
    },
  });
  const wire = await Wire.open(t, kit.port);
  const ended = kit.nextRequest();
  wire.write(head('GET /hang'), head('GET /hello'), head('GET /hang'));
  await called;
  wire.socket.resetAndDestroy();
  assert.equal((await ended).status, 499);
  await (await Wire.open(t, kit.port)).write(head('GET /nowhere')).next();
  assert.equal(greeted, 0);
  assert.equal(kit.face.inFlight, 0);
});

for (const [what, count, length] of [
  ['a short response', 1, 10],
  ['many responses that have waited for their client', 200, 60_000],
  ['a long response that has waited for its client', 1, 12_000_000],
] as const) {
  test(`an idle connection keeps nothing in memory of ${what}`, async (t) => {
    const { port, events } = await startKit(t, { 'GET /': () => json(200, 'a'.repeat(length)) });
    const responses: WeakRef<ServerResponse>[] = [];
    const add = (message: unknown) => void responses.push(new WeakRef(Object(message).response));
    subscribe('http.server.request.start', add);
    t.after(() => unsubscribe('http.server.request.start', add));
    const { socket } = await Wire.open(t, port);
    socket.pause().write(head('GET /').repeat(count));
    const isWaiting = () => responses.some((one) => (one.deref()?.writableLength ?? 0) > 0);
    if (length > 10) await until(isWaiting, 'a response waits for its client');
    socket.resume();
    await until(() => events.length === count, 'all responses have ended');
    assert.equal(responses.length, count);
    assert.equal(await countKept(responses), 0);
  });
}

/** Lets tasks and replies wait, as they do while connections wait, for up to 2,048 turns of the event loop. */
function blockScheduler(t: TestContext): void {
  let isBlocked = true;
  const block = (): void => {
    if (isBlocked) scheduler.addConnection(block);
  };
  block();
  t.after(() => {
    isBlocked = false;
  });
}

test('a reply with a long body does not wait, because only then its memory is limited', async (t) => {
  const lengths = [64 * 1024, 64 * 1024 + 1];
  const ready = Promise.withResolvers<void>();
  const responses: ServerResponse[] = [];
  const { port } = await startKit(t, {
    'GET /{length}': async ({ response, params }) => {
      responses.push(response);
      await ready.promise;
      return { status: 200, body: 'a'.repeat(Number(params['length'])) };
    },
  });
  for (const length of lengths) (await Wire.open(t, port)).write(head(`GET /${length}`));
  await until(() => responses.length === 2, 'both requests run');
  blockScheduler(t);
  ready.resolve();
  for (let turn = 0; turn < 100; turn += 1) await nextTurn();
  const sent = responses.map(({ headersSent, req }) => [req.url, headersSent]);
  assert.deepEqual(sent.toSorted(), [
    [`/${lengths[0]}`, false],
    [`/${lengths[1]}`, true],
  ]);
});

test('a request that waits for its turn leaves the memory when its client disconnects', async (t) => {
  const { face, events } = await startKit(t, { 'GET /hello': hello });
  const responses: WeakRef<ServerResponse>[] = [];
  const server = createServer((request, response) => {
    responses.push(new WeakRef(response));
    face.onRequest(request, response);
    request.socket.destroy();
  });
  blockScheduler(t);
  const send = (): void => {
    const [near, far] = duplexPair();
    server.emit('connection', far);
    near.write(head('GET /hello'));
  };
  send();
  for (let turn = 0; events.length === 0 && turn < 1_000; turn += 1) await nextTurn();
  assert.deepEqual(
    events.map((event) => event.type === 'request' && event.status),
    [499],
  );
  assert.equal(responses.length, 1);
  assert.equal(await countKept(responses), 0);
});

test('the signal of a successful request is not aborted when the client disconnects later', async (t) => {
  const signals: AbortSignal[] = [];
  const handle: Handler = (request) => {
    signals.push(request.signal);
    return json(200, 'hello');
  };
  const kit = await startKit(t, { 'GET /': handle });
  const wire = await Wire.open(t, kit.port);
  const ended = kit.nextRequest();
  wire.write(head('GET /'));
  await wire.next();
  await ended;
  wire.socket.destroy();
  assert.equal(signals[0]?.aborted, false);
});

test('a pipelined request starts after the previous one has left the requests in flight', async (t) => {
  const stream: Handler = () => ({ status: 200, body: new Source((taken) => ['text'][taken]) });
  const routes = { 'GET /hello': hello, 'GET /stream': stream };
  const kit = await startKit(t, routes, { limits: { maxInFlight: 1 } });
  for (const request of ['GET /hello', 'GET /stream']) {
    const wire = (await Wire.open(t, kit.port)).write(head(request).repeat(3));
    for (let i = 0; i < 3; i += 1) assert.equal((await wire.next()).status, 200, request);
  }
});

test('with maxInFlight 0, requests are accepted while a hundred others run', async (t) => {
  const { handle } = hanging();
  const routes = { 'GET /hang': handle, 'GET /hello': hello };
  const kit = await startKit(t, routes, { limits: { maxInFlight: 0 } });
  for (let i = 0; i < 100; i += 1) (await Wire.open(t, kit.port)).write(head('GET /hang'));
  await until(() => kit.face.inFlight === 100, 'the requests run');
  assert.equal((await (await Wire.open(t, kit.port)).write(head('GET /hello')).next()).status, 200);
});

test('every response after the start of draining closes its connection, also for requests that already run', async (t) => {
  const released = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  const slow: Handler = async () => {
    called.resolve();
    await released.promise;
    return json(200, 'slow');
  };
  const kit = await startKit(t, { 'GET /slow': slow, 'GET /hello': hello });
  const wire = (await Wire.open(t, kit.port)).write(head('GET /slow'));
  await called.promise;
  kit.face.drain();
  released.resolve();
  assert.equal((await wire.next()).headers['connection'], 'close');
  assert.deepEqual(await wire.end(), []);
  for (const line of ['GET /hello', 'GET /nowhere', 'OPTIONS /hello']) {
    const another = (await Wire.open(t, kit.port)).write(head(line));
    assert.equal((await another.next()).headers['connection'], 'close');
  }
});

const ids: readonly [what: string, id: string, kept: boolean][] = [
  ['letters, digits, dot, dash and underscore', 'aB.0-_', true],
  ['64 characters', 'a'.repeat(64), true],
  ['65 characters', 'a'.repeat(65), false],
  ['nothing', '', false],
  ['a space', 'a b', false],
  ['a list', 'a, b', false],
  ['markup', '<b>', false],
];

for (const [what, id, kept] of ids) {
  test(`a request id of ${what} is ${kept ? 'kept' : 'replaced'}`, async (t) => {
    const kit = await startKit(t, { 'GET /': hello });
    const ended = kit.nextRequest();
    const wire = (await Wire.open(t, kit.port)).write(head('GET /', `x-request-id: ${id}`));
    const returned = (await wire.next()).headers['x-request-id'] ?? '';
    assert.equal((await ended).id, returned);
    if (kept) assert.equal(returned, id);
    else assert.match(returned, /^[0-9a-z]{12,}-[0-9a-z]+$/);
  });
}

test('the body of a request that has waited no longer counts once the request runs', async (t) => {
  const { port } = await startKit(t, { 'POST /': ({ holdsMemory }) => json(200, { holdsMemory }) });
  const wire = await Wire.open(t, port);
  keepBusy(t);
  const { body } = await wire.write(post('/', `"${'a'.repeat(30_000)}"`)).next();
  assert.equal(body, '{"holdsMemory":false}');
});

test('a rejected request has a request id too', async (t) => {
  const { port } = await startKit(t, {});
  for (const line of ['GET /nowhere', 'GET /%', 'TRACE /']) {
    const wire = (await Wire.open(t, port)).write(head(line, 'x-request-id: mine'));
    assert.equal((await wire.next()).headers['x-request-id'], 'mine');
  }
});

test('a request is reported with its route, path, status, trace and duration', async (t) => {
  const kit = await startKit(t, { 'GET /users/{id}': hello });
  const ended = kit.nextRequest();
  const sentAt = performance.now();
  const wire = (await Wire.open(t, kit.port)).write(
    head('GET /users/7?a=ann@b.c', 'traceparent: 00-ab-cd-01', 'x-request-id: r'),
  );
  await wire.next();
  const { durationMs, ...event } = await ended;
  assert.ok(durationMs >= 0 && durationMs <= performance.now() - sentAt);
  assert.deepEqual(event, {
    type: 'request',
    face: 'http',
    id: 'r',
    method: 'GET',
    path: '/users/7',
    key: undefined,
    longLived: false,
    status: 200,
    route: '/users/{id}',
    traceparent: '00-ab-cd-01',
  });
});

const logged: readonly [what: string, target: string, path: string][] = [
  ['with its path', 'http://host:80/users', 'http://host:80/users'],
  ['without the query', 'http://host/users?name=ann', 'http://host/users'],
  ['without the query after an empty path', 'http://host?a=b', 'http://host'],
  ['as an empty path, if it has a name and password', 'http://ann:s3cret@host/users?a=1', ''],
  ['as an empty path, if its password has a slash', 'http://ann:s3/cret@host/users', ''],
  ['as an empty path, if its password has ? and /', 'http://ann:s3?c/ret@host/users', ''],
  ['as an empty path, if its path contains an @', 'http://host/users/a@b', ''],
];
for (const [what, target, path] of logged) {
  test(`an absolute target is logged ${what}`, async (t) => {
    const kit = await startKit(t, {});
    const ended = kit.nextRequest();
    const wire = (await Wire.open(t, kit.port)).write(head(`GET ${target}`));
    assert.ok((await wire.next()).status >= 400);
    assert.equal((await ended).path, path);
  });
}

test('an endless reply that fails is reported with the status of its error', async (t) => {
  const kit = await startKit(t, {
    'GET /stream': (request) => {
      request.becomeLongLived();
      async function* failing() {
        yield 'first';
        await new Promise((resolve) => setImmediate(resolve));
        throw new Error('fails');
      }
      return { status: 200, body: { chunks: failing() } };
    },
  });
  const ended = kit.nextRequest();
  (await Wire.open(t, kit.port)).write(head('GET /stream'));
  const { status, longLived } = await ended;
  assert.deepEqual([status, longLived], [500, true]);
});

test('an error that a handler throws synchronously or asynchronously becomes the response of the error table', async (t) => {
  const kit = await startKit(t, {
    'GET /now': () => {
      throw new HttpError(418, 'now', { 'x-kind': 'teapot' });
    },
    'GET /later': async () => {
      throw new HttpError(418, 'later');
    },
    'GET /other': () => {
      throw null;
    },
  });
  const wire = await Wire.open(t, kit.port);
  wire.write(head('GET /now'), head('GET /later'), head('GET /other'));
  const [now, later, other] = [await wire.next(), await wire.next(), await wire.next()];
  assert.deepEqual([now.status, now.body, now.headers['x-kind']], [418, '{"error":"now"}', 'teapot']);
  assert.deepEqual([later.status, later.body], [418, '{"error":"later"}']);
  assert.equal(other.status, 500);
  assert.deepEqual(kit.thrown, [null]);
});

// The following tests mount the listener in the server of another application.

const limits = { maxBodyBytes: 1_000, maxHeaders: 10, maxInFlight: 10, writeTimeoutMs: 1_000 };

function faceOf(handlers: Readonly<Record<string, Handler>>, options: Partial<ListenerOptions> = {}) {
  return createFace(handlers, {
    basePath: '/api',
    observe: () => undefined,
    commonHeaders: {},
    toErrorResponse: (caught) =>
      caught instanceof HttpError ? caught : new HttpError(500, 'internal error'),
    limits,
    ...options,
  });
}

/** Mounts a listener in a server whose host handles all other requests, and returns the port. */
async function mount(
  t: TestContext,
  options: Partial<ListenerOptions> = {},
  withNext = true,
  handlers: Readonly<Record<string, Handler>> = {
    'GET /hello': hello,
    'POST /echo': echo,
    'GET /': () => json(200, 'root'),
  },
): Promise<number> {
  const face = faceOf(handlers, options);
  const server = createServer((request, response) => {
    const host = () => response.end('host');
    if (withNext) face.onRequest(request, response, host);
    else face.onRequest(request, response);
  });
  return (await listen(t, server)).port;
}

const host = [200, 'host'] as const;
const notFound = [404, '{"error":"no such resource"}'] as const;
const floods = Array.from({ length: 20 }, (_, i) => `a${i}: b`);
const mounted: readonly [
  what: string,
  send: string,
  withHost: readonly [number, string],
  alone?: readonly [number, string],
][] = [
  ['a path below the base path', head('GET /api/hello'), [200, '"hello"']],
  ['the base path', head('GET /api'), [200, '"root"']],
  ['the base path with a query', head('GET /api?a=1'), [200, '"root"']],
  ['a body below the base path', post('/api/echo', '[1]'), [200, '[1]']],
  ['a path outside the base path', head('GET /hello'), host, notFound],
  ['a path that only starts with the letters of the base path', head('GET /apiary'), host, notFound],
  ['an unknown path below the base path', head('GET /api/nowhere'), host, notFound],
  ['OPTIONS of a path outside the base path', head('OPTIONS /other'), host, notFound],
  [
    'a path outside the base path with too many headers',
    head('GET /other', ...floods),
    host,
    [431, '{"error":"at most 10 headers are allowed"}'],
  ],
  [
    'a path below the base path with too many headers',
    head('GET /api/hello', ...floods),
    [431, '{"error":"at most 10 headers are allowed"}'],
  ],
  [
    'a wrong method for a path below the base path',
    post('/api/hello', ''),
    [405, '{"error":"method not allowed; allowed: GET, HEAD, OPTIONS"}'],
  ],
  [
    'a malformed target below the base path',
    head('GET /api/%'),
    [400, '{"error":"the path has malformed percent-encoding"}'],
  ],
];

test('a header that the host passes as a list is joined with commas, as Node.js does', async (t) => {
  const face = faceOf({ 'GET /': (request) => json(200, request.header('prefer')) }, { basePath: '' });
  const server = createServer((message, response) => {
    Object.assign(message.headers, { prefer: ['a', 'b'] });
    face.onRequest(message, response);
  });
  const wire = await Wire.open(t, (await listen(t, server)).port);
  assert.equal((await wire.write(head('GET /')).next()).body, '"a, b"');
});

test('pipelined requests of a mounted listener run one after another', async (t) => {
  const { started, handle } = recorder();
  const wire = await Wire.open(t, await mount(t, {}, true, { 'GET /{n}': handle }));
  wire.write(head('GET /api/1'), head('GET /host'), head('GET /api/2'), head('GET /api/3'));
  const bodies: string[] = [];
  for (let i = 0; i < 4; i += 1) bodies.push((await wire.next()).body);
  assert.deepEqual(bodies, ['"1"', 'host', '"2"', '"3"']);
  assert.deepEqual(started, ['1', '2', '3']);
});

for (const [what, bytes] of [
  ['short requests', head('GET /hello').repeat(19)],
  [
    'a chunked body',
    `${head('POST /echo', 'Content-Type: application/json', 'Transfer-Encoding: chunked')}1\r\n1\r\n0\r\n\r\n`,
  ],
] as const) {
  test(`many clients that pipeline ${what} get all their responses`, async (t) => {
    const clients = 50;
    const all = Promise.withResolvers<void>();
    let arrived = 0;
    const kit = await startKit(t, {
      'GET /together': async (request) => {
        arrived += 1;
        if (arrived === clients) all.resolve();
        await all.promise;
        return hello(request);
      },
      'GET /hello': hello,
      'POST /echo': echo,
    });
    const count = bytes.split(' HTTP/1.1').length;
    const exchanges = Array.from({ length: clients }, () =>
      exchange(kit.port, head('GET /together') + bytes, { wanted: count }),
    );
    const counts = (await Promise.all(exchanges)).map(({ length }) => length);
    assert.deepEqual(counts, Array(clients).fill(count));
  });
}

test('pipelined requests beyond the memory for waiting requests are not parsed', async (t) => {
  const { handle } = hanging();
  const face = faceOf({ 'GET /hang': handle }, { basePath: '' });
  const parsed = new Map<Socket, number>();
  const server = createServer((request, response) => {
    parsed.set(request.socket, (parsed.get(request.socket) ?? 0) + 1);
    face.onRequest(request, response);
  });
  const { port } = await listen(t, server);
  const packet = head('GET /hang').repeat(1_000);
  const sockets: Socket[] = [];
  let ended = false;
  while (!ended) {
    assert.ok(sockets.length < 100, 'no connection was closed');
    const socket = connect(port, '127.0.0.1', () => socket.write(packet));
    socket
      .on('error', () => undefined)
      .on('close', () => {
        ended = true;
      });
    t.after(() => socket.destroy());
    sockets.push(socket.resume());
    const isParsed = () => parsed.size === sockets.length && [...parsed.values()].at(-1) === 1_000;
    while (!isParsed() && !ended && !t.signal.aborted) await new Promise((resolve) => setImmediate(resolve));
  }
  const counts = [...parsed.values()];
  assert.ok(counts.length > 2 && counts[0] === 1_000, `${counts}`);
  assert.ok((counts.at(-1) ?? 0) < 900, `the parser did not stop: ${counts}`);
});

test('a request after the last response of its connection is not passed to the host', async (t) => {
  const gate = Promise.withResolvers<void>();
  async function* chunks() {
    yield 'a';
    await gate.promise;
  }
  const { face } = await startKit(t, { 'GET /stream': () => ({ status: 200, body: { chunks: chunks() } }) });
  face.drain();
  let passed = 0;
  const server = createServer((request, response) =>
    face.onRequest(request, response, () => {
      passed += 1;
    }),
  );
  const { port } = await listen(t, server);
  const wire = await Wire.open(t, port);
  wire.write(head('GET /stream'));
  await once(wire.socket, 'data');
  const arrived = once(server, 'request');
  wire.write(head('GET /other'));
  await arrived;
  gate.resolve();
  assert.equal((await wire.next()).headers['connection'], 'close');
  assert.deepEqual(await wire.end(), []);
  assert.equal(passed, 0);
});

for (const [what, send, withHost, alone] of mounted) {
  test(`in a host, ${what} gets ${withHost[0]} from the ${withHost === host ? 'host' : 'listener'}`, async (t) => {
    const response = await (await Wire.open(t, await mount(t))).write(send).next();
    assert.deepEqual([response.status, response.body], withHost);
  });
  test(`without a next handler, ${what} gets ${(alone ?? withHost)[0]} from the listener`, async (t) => {
    const response = await (await Wire.open(t, await mount(t, {}, false))).write(send).next();
    assert.deepEqual([response.status, response.body], alone ?? withHost);
  });
}

test('replies that become ready at the same moment are sent over several turns of the event loop', async (t) => {
  const commit = Promise.withResolvers<void>();
  let waiting = 0;
  const handle: Handler = async () => {
    waiting += 1;
    await commit.promise;
    return {
      status: 200,
      get body() {
        const end = performance.now() + 1;
        while (performance.now() < end);
        return 'x';
      },
    };
  };
  const kit = await startKit(t, { 'GET /': handle });
  const replies = Array.from({ length: 40 }, () =>
    fetch(`http://127.0.0.1:${kit.port}/`).then((response) => response.text()),
  );
  const deadline = performance.now() + 30_000;
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
  while (waiting < replies.length && performance.now() < deadline) await nextTurn();
  assert.equal(waiting, replies.length);
  let turns = 0;
  let isSent = false;
  const all = Promise.all(replies).finally(() => {
    isSent = true;
  });
  commit.resolve();
  for (; !isSent; turns += 1) await nextTurn();
  await all;
  // Each turn has time for about two of them.
  assert.ok(turns >= 15, `${turns} turns`);
});

/** Makes all new requests wait for their turn. */
function keepBusy(t: TestContext): void {
  let isBusy = true;
  const occupy = (): boolean => {
    const end = performance.now() + 3;
    while (performance.now() < end);
    if (isBusy) scheduler.addTask(occupy);
    return false;
  };
  t.after(() => {
    isBusy = false;
  });
  occupy();
}

test('a waiting request is not executed after its body was found to be malformed', async (t) => {
  const called: string[] = [];
  const handle: Handler = ({ method }) => {
    called.push(method);
    return { status: 204 };
  };
  const { port } = await startKit(t, { 'DELETE /': handle, 'GET /': handle });
  const wire = await Wire.open(t, port);
  keepBusy(t);
  const refused = await wire.write(head('DELETE /', 'Transfer-Encoding: chunked'), 'x\r\n').next();
  assert.equal(refused.status, 400);
  assert.equal((await (await Wire.open(t, port)).write(head('GET /')).next()).status, 204);
  assert.deepEqual(called, ['GET']);
});

for (const [what, end] of [
  ['its client has disconnected', (response: ServerResponse) => response.destroy()],
  [
    'the host has begun its own response',
    (response: ServerResponse) => response.writeHead(504).write('late'),
  ],
] as const) {
  test(`a waiting request is not executed after ${what}`, async (t) => {
    const handle = t.mock.fn(() => ({ status: 204 }));
    const { port, face } = await startKit(t, { 'GET /': handle });
    const server = createServer((message, response) => {
      face.onRequest(message, response);
      end(response);
    });
    const { port: own } = await listen(t, server);
    const [wire, later] = [await Wire.open(t, own), await Wire.open(t, port)];
    keepBusy(t);
    wire.write(head('GET /'));
    await once(server, 'request');
    assert.equal((await later.write(head('GET /')).next()).status, 204);
    assert.equal(handle.mock.callCount(), 1);
  });
}

test('a pipelined request to which the host begins to respond before its turn is neither executed nor reported', async (t) => {
  const { handle, called } = hanging();
  const hello = t.mock.fn(() => json(200, 'hello'));
  const observe = t.mock.fn();
  const face = faceOf({ 'GET /hang': handle, 'GET /hello': hello }, { basePath: '', observe });
  const server = createServer((message, response) => {
    face.onRequest(message, response);
    if (message.url === '/hello') response.write('from');
  });
  const wire = await Wire.open(t, (await listen(t, server)).port);
  const [[, first]] = await Promise.all([once(server, 'request'), called, wire.write(head('GET /hang'))]);
  const arrived = once(server, 'request');
  wire.write(head('GET /hello'));
  const [, second] = await arrived;
  first.end('first');
  assert.equal((await wire.next()).body, 'first');
  second.end(' the host');
  assert.equal((await wire.next()).body, 'from the host');
  await until(() => second.closed, 'the second request has ended');
  assert.deepEqual([hello.mock.callCount(), observe.mock.callCount(), face.inFlight], [0, 1, 0]);
});

test('while no memory is left, a waiting request with a long body fails before its handler runs', async (t) => {
  const called: string[] = [];
  const { handle, called: filled } = hanging();
  const fill: Handler = (request) => {
    request.hold(128 * 1024 * 1024);
    return handle(request);
  };
  const read: Handler = async (request) => {
    called.push(request.method);
    return json(200, (await request.json(['application/json'], 1_000_000)).value);
  };
  const kit = await startKit(t, { 'GET /fill': fill, 'POST /': read });
  (await Wire.open(t, kit.port)).write(head('GET /fill'));
  await filled;
  const wire = await Wire.open(t, kit.port);
  keepBusy(t);
  const refused = await wire.write(post('/', `"${'a'.repeat(30_000)}"`)).next();
  assert.equal(refused.status, 503);
  assert.deepEqual(JSON.parse(refused.body), { error: 'too many bodies are being received' });
  assert.deepEqual(called, []);
  assert.equal((await wire.write(post('/', '"short"')).next()).body, '"short"');
});

test('while no memory is left, a waiting request runs if the host has already read its long body', async (t) => {
  const { handle, called: filled } = hanging();
  const fill: Handler = (request) => {
    request.hold(128 * 1024 * 1024);
    return handle(request);
  };
  const { port, face } = await startKit(t, { 'GET /fill': fill, 'POST /': () => json(200, 'ran') });
  (await Wire.open(t, port)).write(head('GET /fill'));
  await filled;
  const server = createServer(async (request, response) => {
    await text(request);
    face.onRequest(request, response);
  });
  const { port: own } = await listen(t, server);
  const wire = await Wire.open(t, own);
  keepBusy(t);
  const { body } = await wire.write(post('/', `"${'a'.repeat(30_000)}"`)).next();
  assert.equal(body, '"ran"');
});

for (const line of ['GET /nowhere', 'GET /%', 'OPTIONS /users', 'GET /health']) {
  test(`a thousand pipelined requests "${line}" take several turns of the event loop`, async (t) => {
    const perTurn: number[] = [];
    let inTurn = 0;
    const observe = ({ type }: ServiceEvent): void => {
      if (type !== 'request') return;
      if (inTurn === 0) {
        setImmediate(() => {
          perTurn.push(inTurn);
          inTurn = 0;
        });
      }
      inTurn += 1;
    };
    const { port } = await startService(t, { observe });
    const wire = await Wire.open(t, port);
    wire.write(head(line).repeat(1_000));
    for (let i = 0; i < 1_000; i += 1) await wire.next();
    assert.ok(Math.max(...perTurn) < 500, `requests by turn: ${perTurn.join(', ')}`);
  });
}
