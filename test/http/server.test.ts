import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { duplexPair } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { http } from '../../src/http/node-http.ts';
import { type ParserError, refuse, refuseUnparsed } from '../../src/http/refusals.ts';
import { HttpError, json } from '../../src/http/reply.ts';
import type { Handler } from '../../src/http/request.ts';
import { HttpServer } from '../../src/http/server.ts';
import { openPort } from '../../src/service/ports.ts';
import { head, post, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { createFace, type HttpKitOptions, held, startKit } from '../support/http-kit.ts';
import { hasTool } from '../support/tool.ts';
import { checkForm } from './wire/table.ts';

const hello: Handler = () => json(200, 'hello');
const echo: Handler = async (request) => json(200, (await request.json()).value);
const chunkedHead = head('POST /echo', 'Content-Type: application/json', 'Transfer-Encoding: chunked');

const pipelined: readonly [what: string, bytes: string, status: number][] = [
  ['a malformed request', 'GET / HTTP/1.1\r\na : b\r\n\r\n', 400],
  ['an unknown method', 'FOO / HTTP/1.1\r\nHost: x\r\n\r\n', 501],
  ['another version', 'GET / HTTP/1.2\r\nHost: x\r\n\r\n', 505],
  ['a header that is too long', head('GET /hello', `a: ${'b'.repeat(20_000)}`), 431],
  ['a malformed body', `${chunkedHead}zz\r\n`, 400],
  ['a body that breaks off', `${chunkedHead}2\r\n{}\r\nzz\r\n`, 400],
  ['a missing Host', 'GET /hello HTTP/1.1\r\n\r\n', 400],
  ['an unknown expectation', head('GET /hello', 'Expect: foo'), 417],
  // The parser treats the following bytes as a malformed body, and reports it before the request starts.
  ['an unknown coding', head('POST /echo', 'Transfer-Encoding: gzip'), 400],
  ['CONNECT', head('CONNECT x:1'), 501],
];

test('the rejection of a pipelined request is sent after the response to the request before it, and reported once', {
  concurrency: true,
}, async (t) => {
  const refused = async (t: TestContext, bytes: string, status: number): Promise<void> => {
    const slow = held();
    const routes = { 'GET /slow': slow.handle, 'GET /hello': hello, 'POST /echo': echo };
    const { port, events } = await startKit(t, routes);
    const wire = (await Wire.open(t, port)).write(head('GET /slow'), bytes, head('GET /hello'));
    await slow.called;
    slow.release();
    assert.equal((await wire.next()).body, '"held"');
    const refusal = await wire.next();
    assert.equal(refusal.status, status);
    checkForm(refusal, false);
    assert.deepEqual(await wire.end(), []);
    const reported = events.map((event) => ('status' in event ? event.status : event.type));
    assert.deepEqual(reported.sort(), [200, status]);
  };
  await Promise.all(pipelined.map(([what, bytes, status]) => t.test(what, (t) => refused(t, bytes, status))));
});

test('the rejection of a pipelined request with a malformed body has the id of the request', async (t) => {
  const slow = held();
  const { port } = await startKit(t, { 'GET /slow': slow.handle, 'POST /echo': echo });
  const lines = ['Transfer-Encoding: chunked', 'x-request-id: mine'];
  const wire = (await Wire.open(t, port)).write(head('GET /slow'), head('POST /echo', ...lines), 'zz\r\n');
  await slow.called;
  slow.release();
  assert.equal((await wire.next()).status, 200);
  const { status, headers } = await wire.next();
  assert.deepEqual([status, headers['x-request-id']], [400, 'mine']);
});

test('a handler that waits for a malformed body ends, and its request is reported once', async (t) => {
  const kit = await startKit(t, { 'POST /echo': echo });
  const wire = await Wire.open(t, kit.port);
  const ended = kit.nextRequest();
  wire.write(chunkedHead, '2\r\n{}\r\nzz\r\n');
  assert.equal((await wire.next()).status, 400);
  wire.socket.destroy();
  const { status, route } = await ended;
  assert.deepEqual([status, route], [400, '/echo']);
  assert.equal(kit.face.inFlight, 0);
  assert.deepEqual(kit.thrown, []);
  const types = kit.events.map((event) => event.type);
  assert.deepEqual(types, ['request']);
});

/** A client whose connection buffers little that it does not read. The buffers of the kernel would take a response. */
function connectUnbuffered(
  t: TestContext,
  handlers: Readonly<Record<string, Handler>>,
  { observe = () => {}, highWaterMark = 1 } = {},
) {
  const face = createFace(handlers, {
    ...{ basePath: '', observe, commonHeaders: {} },
    limits: { maxBodyBytes: 1_000, maxHeaders: 10, maxInFlight: 10, writeTimeoutMs: 300 },
    toErrorResponse: () => new HttpError(500, 'internal error'),
  });
  const server = createServer(face.onRequest);
  server.on('clientError', (error: ParserError, socket) => refuseUnparsed(error, socket, () => undefined));
  const [near, far] = duplexPair({ highWaterMark });
  t.after(() => far.destroy());
  server.emit('connection', far);
  const read = async () => {
    const start = near.read() ?? '';
    await once(near, 'readable');
    return `${start}${near.read()}`;
  };
  return { face, near, far, read };
}

test('a connection in memory whose client sends no more of a body leaves no timer', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { near, far } = connectUnbuffered(t, { 'POST /deaf': () => json(200, {}) }, { highWaterMark: 1_000 });
  const end = t.mock.method(far, 'end');
  near.write(head('POST /deaf', 'Content-Length: 1000000'));
  await once(near, 'data');
  t.mock.timers.tick(5_000);
  assert.equal(end.mock.callCount(), 1);
});

for (const [what, before] of [
  ['the only request', ''],
  ['a pipelined request', head('GET /slow')],
] as const) {
  test(`the connection of ${what} with a malformed body is closed if its client does not read the rejection`, async (t) => {
    const slow = held();
    const handlers = { 'GET /slow': slow.handle, 'POST /echo': echo };
    const { face, near, far, read } = connectUnbuffered(t, handlers);
    near.write(`${before}${chunkedHead}zz\r\n`);
    if (before !== '') {
      await slow.called;
      slow.release();
      assert.match(await read(), /200 OK.*"held"$/s);
    }
    await once(far, 'close');
    assert.equal(face.inFlight, 0);
  });
}

test('a malformed body is rejected while its request runs, also if the response before it closes late', async (t) => {
  const [first, second] = [held(), held()];
  const handlers = { 'GET /slow': first.handle, 'POST /slow': second.handle };
  const closed = Promise.withResolvers<void>();
  const { near, read } = connectUnbuffered(t, handlers, { observe: closed.resolve });
  near.write(head('GET /slow') + head('POST /slow', 'Transfer-Encoding: chunked'));
  await first.called;
  first.release();
  assert.match(await read(), /200 OK.*"held"$/s);
  await Promise.all([second.called, closed.promise]);
  near.write('zz\r\n');
  assert.match(await read(), /^HTTP\/1.1 500 /);
});

test('a client that sends for longer than `writeTimeoutMs` can still read the rejection of a malformed body', async (t) => {
  const { port } = await startKit(t, { 'POST /echo': echo }, { limits: { writeTimeoutMs: 100 } });
  const wire = (await Wire.open(t, port)).write(chunkedHead, 'zz\r\n');
  assert.equal((await wire.next()).status, 400);
  const start = performance.now();
  await wire.end();
  // A connection that is destroyed at once is reset at the next bytes of the client, which loses the response.
  assert.ok(performance.now() - start > 500);
});

test('no rejection is reported for a connection that has already closed', () => {
  const [far] = duplexPair();
  far.destroy();
  refuse(far, { status: 503, message: 'too many connections are open' }, () => assert.fail('reported'));
});

test('a client of a rejected connection can send all of its request before it reads', async () => {
  const [near, far] = duplexPair();
  refuse(far, { status: 503, message: 'too many connections are open' }, () => undefined);
  near.end('a'.repeat(100_000));
  await Promise.race([once(near, 'finish'), once(far, 'close')]);
  assert.ok(near.writableFinished);
  assert.match(String(await buffer(near)), /^HTTP\/1.1 503 /);
});

test('a rejected connection whose client continues to send is closed after a second', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const [near, far] = duplexPair();
  t.after(() => far.destroy());
  refuse(far, { status: 503, message: 'too many connections are open' }, () => undefined);
  near.write('a');
  await once(far, 'data');
  t.mock.timers.tick(999);
  assert.equal(far.destroyed, false);
  t.mock.timers.tick(1);
  assert.equal(far.destroyed, true);
});

test('a response of a request that was already rejected as malformed is discarded', async (t) => {
  const slow = held();
  const kit = await startKit(t, { 'POST /slow': slow.handle });
  const wire = await Wire.open(t, kit.port);
  wire.write(head('POST /slow', 'Transfer-Encoding: chunked'));
  await slow.called;
  wire.write('zz\r\n');
  assert.equal((await wire.next()).status, 400);
  slow.release();
  assert.deepEqual(await wire.end(), []);
  assert.deepEqual(kit.thrown, []);
});

test('a response that has started is completed when the rest of its request is malformed', async (t) => {
  const more = Promise.withResolvers<void>();
  async function* chunks() {
    yield 'begun, ';
    await more.promise;
    yield 'done';
  }
  const { port } = await startKit(t, { 'POST /stream': () => ({ status: 200, body: { chunks: chunks() } }) });
  const wire = await Wire.open(t, port);
  wire.write(head('POST /stream', 'Content-Length: 5'), 'he');
  while (!wire.received.includes('begun')) await new Promise((resolve) => wire.socket.once('data', resolve));
  wire.socket.end();
  more.resolve();
  assert.equal((await wire.next()).body, 'begun, done');
  assert.deepEqual(await wire.end(), []);
});

test('requests after a malformed request are neither executed nor reported', async (t) => {
  const kit = await startKit(t, { 'GET /hello': hello });
  const wire = (await Wire.open(t, kit.port)).write('FOO\r\n');
  assert.equal((await wire.next()).status, 501);
  for (let i = 0; i < 20; i += 1) wire.write('FOO\r\n', head('GET /hello'));
  assert.deepEqual(await wire.end(), []);
  const types = kit.events.map((event) => event.type);
  assert.deepEqual(types, ['refused']);
});

test('many malformed packets behind a slow response cause one rejection, not one for each packet', async (t) => {
  const slow = held();
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => warnings.push(warning);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const { port } = await startKit(t, { 'GET /slow': slow.handle });
  const wire = (await Wire.open(t, port)).write(head('GET /slow'));
  await slow.called;
  for (let i = 0; i < 50; i += 1) {
    await new Promise((resolve) => wire.socket.write('FOO\r\n', resolve));
    // The server reads each packet before the next one arrives.
    await new Promise(setImmediate);
  }
  slow.release();
  assert.deepEqual([(await wire.next()).status, (await wire.next()).status], [200, 501]);
  assert.deepEqual(await wire.end(), []);
  assert.deepEqual(warnings, []);
});

test('while a response waits, what follows a malformed request is not read', async (t) => {
  const slow = held();
  const called = Promise.withResolvers<Socket>();
  const handle: Handler = (request) => {
    called.resolve(request.raw.socket);
    return slow.handle(request);
  };
  const { port } = await startKit(t, { 'GET /slow': handle, 'GET /hello': hello });
  const wire = (await Wire.open(t, port)).write(head('GET /slow'));
  const socket = await called.promise;
  wire.write('FOO\r\n');
  await t.waitFor(() => assert.ok(socket.isPaused()), { timeout: 60_000 });
  const readBytes = socket.bytesRead;
  // As Node.js does when a client has read an earlier response.
  socket.resume();
  wire.write(Buffer.alloc(1024 * 1024, 'FOO\r\n'));
  const other = await Wire.open(t, port);
  // In this time, the server would read all of it.
  for (let i = 0; i < 50; i += 1) assert.equal((await other.write(head('GET /hello')).next()).status, 200);
  assert.equal(socket.bytesRead, readBytes);
  slow.release();
  assert.deepEqual([(await wire.next()).status, (await wire.next()).status], [200, 501]);
  assert.deepEqual(await wire.end(), []);
});

test('more headers than Node.js keeps are rejected and not ignored, even with a higher limit', async (t) => {
  const { port } = await startKit(t, { 'GET /hello': hello }, { limits: { maxHeaders: 1_500 } });
  const many = (count: number) => Array.from({ length: count }, () => 'a:b');
  for (const [count, status] of [
    [1_499, 200],
    [1_500, 431],
    [3_000, 431],
  ] as const) {
    const wire = (await Wire.open(t, port)).write(head('GET /hello', ...many(count)));
    assert.equal((await wire.next()).status, status, `${count} beside Host`);
  }
});

test('header lines beyond the limit are not kept', async (t) => {
  let kept = 0;
  const server = new HttpServer({
    observe: () => undefined,
    timeouts: { headersTimeoutMs: 10_000, requestTimeoutMs: 30_000, keepAliveTimeoutMs: 72_000 },
    maxHeaders: 100,
  });
  const { port } = await openPort('port', '127.0.0.1', 0, server.server);
  t.after(() => server.close({ idleMs: 0, signal: AbortSignal.abort() }));
  server.serve(({ rawHeaders }, response) => {
    kept = rawHeaders.length / 2;
    response.writeHead(431).end();
  });
  const lines = Array.from({ length: 2_000 }, () => 'a:b');
  const { status } = await (await Wire.open(t, port)).write(head('GET /', ...lines)).next();
  assert.equal(status, 431);
  // Node rejects them itself, or passes on some more than the limit.
  assert.ok(kept < 300, `${kept} lines`);
});

test('a connection reset at any time is not reported as a failure', async (t) => {
  const kit = await startKit(t, { 'GET /hello': hello, 'POST /echo': echo });
  const openings = [
    '',
    'GE',
    'GET /hello HTTP/1.1\r\n',
    head('GET /hello'),
    head('CONNECT x:1'),
    head('POST /echo', 'Content-Type: application/json', 'Content-Length: 9'),
    `${chunkedHead}2\r\n{}\r\n`,
    'FOO\r\n',
    post('/echo', '[]'),
    head('POST /echo', 'Transfer-Encoding: gzip'),
  ];
  for (const opening of [...openings, ...openings]) {
    const wire = (await Wire.open(t, kit.port)).write(opening);
    await new Promise((resolve) => setImmediate(resolve));
    wire.socket.resetAndDestroy();
  }
  const wire = (await Wire.open(t, kit.port)).write(head('GET /hello'));
  assert.equal((await wire.next()).status, 200);
  const failures = kit.events.filter((event) => event.type === 'failure');
  assert.deepEqual(failures, []);
});

test('the process survives connection resets during CONNECT', async (t) => {
  const { port } = await startKit(t, { 'GET /hello': hello });
  for (let i = 0; i < 50; i += 1) {
    const wire = (await Wire.open(t, port)).write(head('CONNECT x:1'), 'x'.repeat(i * 1_000));
    if (i % 2 === 0) await wire.next();
    wire.socket.resetAndDestroy();
  }
  const wire = (await Wire.open(t, port)).write(head('GET /hello'));
  assert.equal((await wire.next()).status, 200);
});

test('a client that ends its half of the connection inside a body receives 400', async (t) => {
  const kit = await startKit(t, { 'POST /echo': echo });
  const wire = (await Wire.open(t, kit.port)).write(
    head('POST /echo', 'Content-Type: application/json', 'Content-Length: 9'),
    '{',
  );
  wire.socket.end();
  const refused = await wire.next();
  assert.equal(refused.status, 400);
  checkForm(refused, false);
  assert.deepEqual(await wire.end(), []);
});

const quick = { headersTimeoutMs: 200, requestTimeoutMs: 400, checkingIntervalMs: 50 };
// The head of these requests must be read in time, also while all these tests start.
const patient = { ...quick, headersTimeoutMs: 1_000, requestTimeoutMs: 1_000 };
const incomplete = head('POST /echo', 'Content-Type: application/json', 'Content-Length: 9');
const late: readonly [
  what: string,
  bytes: string,
  responses: readonly number[],
  timeouts: NonNullable<HttpKitOptions['timeouts']>,
][] = [
  ['an incomplete head', 'GET /hello HTTP/1.1\r\nHost: x\r\n', [408], quick],
  ['an incomplete second head', `${head('GET /hello')}GET /`, [200, 408], patient],
  ['an incomplete body', incomplete, [408], quick],
  ['incomplete chunks', `${chunkedHead}1\r\n1\r\n`, [408], quick],
  ['a body that the handler does not read', head('GET /hello', 'Content-Length: 9'), [200], patient],
  ['a head when that of the request is shorter', 'GET /', [408], { ...quick, headersTimeoutMs: 60_000 }],
  ['a head without a timeout of the whole request', 'GET /', [408], { ...quick, requestTimeoutMs: 0 }],
];

test('requests that do not arrive in time are rejected, and their connections closed', {
  concurrency: true,
}, async (t) => {
  const givenUp = async (
    t: TestContext,
    [, bytes, responses, timeouts]: (typeof late)[number],
  ): Promise<void> => {
    const kit = await startKit(t, { 'GET /hello': hello, 'POST /echo': echo }, { timeouts });
    const wire = (await Wire.open(t, kit.port)).write(bytes);
    for (const status of responses) {
      const response = await wire.next();
      assert.equal(response.status, status);
      checkForm(response, false);
    }
    assert.deepEqual(await wire.end(), []);
    assert.deepEqual(kit.thrown, []);
    assert.equal(kit.face.inFlight, 0);
  };
  await Promise.all(late.map((row) => t.test(row[0], (t) => givenUp(t, row))));
});

const intervals: readonly [headersTimeoutMs: number, requestTimeoutMs: number, intervalMs: number][] = [
  [10_000, 30_000, 5_000],
  [500, 30_000, 500],
  [10_000, 700, 700],
  [0, 2_000, 2_000],
  [20, 30_000, 100],
  [0, 0, 5_000],
];

for (const [headersTimeoutMs, requestTimeoutMs, intervalMs] of intervals) {
  test(`late requests are looked for every ${intervalMs} ms with the timeouts ${headersTimeoutMs} and ${requestTimeoutMs}`, async (t) => {
    const { mock } = t.mock.method(http, 'createServer');
    await startKit(t, {}, { timeouts: { headersTimeoutMs, requestTimeoutMs } });
    const [settings] = mock.calls[0]?.arguments ?? [];
    assert.partialDeepStrictEqual(settings, { connectionsCheckingInterval: intervalMs });
  });
}

const body = '1\r\n1\r\n0\r\n\r\n';
const completed: readonly [what: string, start: string, rest: string][] = [
  ['a body', chunkedHead, body],
  ['a body before another request', chunkedHead, body + post('/echo', '[]')],
  ['a head', chunkedHead.slice(0, 20), chunkedHead.slice(20) + body],
  ['a head behind another one', head('GET /slow') + chunkedHead.slice(0, 20), chunkedHead.slice(20) + body],
  ['chunks behind a running request', head('GET /slow') + chunkedHead, body + post('/echo', '[]')],
  [
    'a short body behind a running request',
    head('GET /slow') + head('POST /echo', 'Content-Type: application/json', 'Content-Length: 2'),
    `[]${post('/echo', '[]')}`,
  ],
];

test('a request is not handled if its rest arrives after 408, because its client may repeat it', {
  concurrency: true,
}, async (t) => {
  const completedLate = async (t: TestContext, start: string, rest: string): Promise<void> => {
    const slow = held();
    let handled = 0;
    const count: Handler = async (request) => {
      await request.json();
      handled += 1;
      return json(200, handled);
    };
    const handlers = { 'GET /slow': slow.handle, 'GET /hello': hello, 'POST /echo': count };
    const { port } = await startKit(t, handlers, { timeouts: quick });
    const wire = (await Wire.open(t, port)).write(start);
    const isBehind = start.includes('/slow');
    // The same check of the timeouts rejects both.
    const other = isBehind ? (await Wire.open(t, port)).write(chunkedHead) : wire;
    assert.equal((await other.next()).status, 408);
    wire.write(rest);
    if (isBehind) await (await Wire.open(t, port)).write(head('GET /hello')).next();
    slow.release();
    const statuses = (await wire.end()).map(({ status }) => status);
    assert.equal(statuses.at(-1), isBehind ? 408 : undefined);
    assert.equal(handled, 0);
  };
  await Promise.all(
    completed.map(([what, start, rest]) => t.test(what, (t) => completedLate(t, start, rest))),
  );
});

test('a client that sends many requests after 408 fills no memory', async (t) => {
  const { port } = await startKit(t, { 'GET /hello': hello }, { timeouts: quick });
  let parsed = 0;
  const count = () => {
    parsed += 1;
  };
  subscribe('http.server.request.start', count);
  t.after(() => unsubscribe('http.server.request.start', count));
  const request = head('GET /hello');
  const wire = (await Wire.open(t, port)).write(request.slice(0, 9));
  assert.equal((await wire.next()).status, 408);
  wire.write(request.slice(9), request.repeat(200_000));
  await new Promise((resolve) => wire.socket.once('close', resolve));
  // About as many as one read of the connection contains.
  assert.ok(parsed < 5_000, `${parsed} requests`);
});

for (const secure of [false, true]) {
  const over = secure ? ' over TLS' : '';
  test(`a connection that sends nothing is closed at the timeout without a response or an event${over}`, async (t) => {
    const tls = secure ? createCertificate() : undefined;
    // The handshake must end in time too.
    const timeouts = secure ? { ...quick, headersTimeoutMs: 3_000, requestTimeoutMs: 3_000 } : quick;
    const { port, events } = await startKit(t, {}, { timeouts, ...(tls && { tls }) });
    const socket = secure
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    const received = await buffer(socket);
    assert.equal(String(received), '');
    assert.deepEqual(events, []);
  });
}

for (const [limit, timeouts] of Object.entries({
  head: { headersTimeoutMs: 100 },
  'whole request': { headersTimeoutMs: 300_000, requestTimeoutMs: 100 },
})) {
  test(`a TLS handshake that lasts longer than the limit of the ${limit} is closed`, async (t) => {
    const { port } = await startKit(t, {}, { tls: createCertificate('server'), timeouts });
    // The start of a ClientHello.
    const wire = (await Wire.open(t, port)).write('\x16\x03\x01\x02\x00');
    assert.deepEqual(await wire.end(), []);
  });
}

const noOpenssl = hasTool('openssl') ? false : 'openssl is not installed';
test('a client may change the keys of TLS, but not without end', { skip: noOpenssl }, async (t) => {
  const { port } = await startKit(t, { 'GET /hello': hello }, { tls: createCertificate() });
  const client = spawn('openssl', ['s_client', '-connect', `127.0.0.1:${port}`, '-quiet', '-no_ign_eof']);
  t.after(() => client.kill());
  // In the end, the server closes the connection.
  client.stdin.on('error', () => undefined);
  const change = () => client.stdin.write('K\n');
  let received = '';
  client.stdout.on('data', (bytes: Buffer) => {
    received += bytes;
    change();
  });
  let changes = 0;
  change();
  for await (const line of createInterface(client.stderr)) {
    if (line !== 'KEYUPDATE') continue;
    changes += 1;
    if (changes === 100) client.stdin.write(head('GET /hello'));
    else if (changes < 10_000) change();
    else client.kill();
  }
  assert.match(received, /^HTTP\/1\.1 200 OK\r\n/);
  assert.ok(changes < 10_000, `${changes} changes`);
});

test('a head that arrives in small pieces is rejected at the timeout', async (t) => {
  const { port } = await startKit(t, { 'GET /hello': hello }, { timeouts: quick });
  const wire = (await Wire.open(t, port)).write('GET /hello HTTP/1.1\r\n');
  const drip = setInterval(() => wire.write('a: b\r\n'), 20);
  t.after(() => clearInterval(drip));
  assert.equal((await wire.next()).status, 408);
  clearInterval(drip);
  assert.deepEqual(await wire.end(), []);
});

test('a body that arrives in small pieces is rejected at the timeout', async (t) => {
  const { port } = await startKit(t, { 'POST /echo': echo }, { timeouts: quick });
  const wire = (await Wire.open(t, port)).write(chunkedHead);
  const drip = setInterval(() => wire.write('1\r\n1\r\n'), 20);
  t.after(() => clearInterval(drip));
  assert.equal((await wire.next()).status, 408);
});

test('the timeouts for receiving a request do not limit its handler', async (t) => {
  const slow = held();
  const { port } = await startKit(t, { 'GET /slow': slow.handle, 'POST /echo': echo }, { timeouts: quick });
  const wire = (await Wire.open(t, port)).write(head('GET /slow'));
  await slow.called;
  // The same check rejects a later request, whose body does not arrive.
  const late = (await Wire.open(t, port)).write(chunkedHead);
  assert.equal((await late.next()).status, 408);
  slow.release();
  assert.equal((await wire.next()).body, '"held"');
});

test('an idle connection stays open as long as its Keep-Alive header promises', async (t) => {
  const timeouts = { ...quick, keepAliveTimeoutMs: 1_000 };
  const { port } = await startKit(t, { 'GET /hello': hello }, { timeouts });
  const wire = await Wire.open(t, port);
  const sentAt = performance.now();
  wire.write(head('GET /hello'));
  assert.equal((await wire.next()).headers['keep-alive'], 'timeout=1');
  assert.deepEqual(await wire.end(), []);
  assert.ok(performance.now() - sentAt >= 1_000);
});
