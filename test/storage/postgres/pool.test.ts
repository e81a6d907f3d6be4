import assert from 'node:assert/strict';
import { EventEmitter, getEventListeners, once } from 'node:events';
import net, { connect, createServer, type Server, Socket } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Client } from 'pg';
import { Connection, type PoolSettings, prepared } from '../../../src/storage/postgres/connection.ts';
import { HostSearch } from '../../../src/storage/postgres/host-search.ts';
import type { PostgresPool } from '../../../src/storage/postgres/pool.ts';
import { ConnectionQueue } from '../../../src/storage/postgres/queue.ts';
import { until } from '../../kit/until.ts';
import { listen } from '../../support/listen.ts';
import { mockBuiltin } from '../../support/mock-builtin.ts';
import { recordPauses } from '../../support/pauses.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import { type CreateClient, poolOf, session, settings } from './fake-session.ts';

interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** Creates clients that run statements with `query`. `connect` replaces the way to open a connection. */
function fakeDriver(
  query: (statement: Statement) => Promise<object>,
  connect: (url: string) => Promise<void> = async () => {},
): CreateClient {
  return (url) => {
    const client = Object.assign(new EventEmitter(), {
      host: 'host',
      port: 5432,
      connect: () => connect(url),
      query: async (sent: string | Statement) =>
        typeof sent === 'string' ? { rows: [session] } : await query(sent),
      async end() {
        client.emit('end');
      },
    });
    return client as unknown as Client;
  };
}

/** A driver whose statements end when the test says so. */
function heldDriver(connect?: (url: string) => Promise<void>) {
  const statements: (PromiseWithResolvers<object> & Pick<Statement, 'text'>)[] = [];
  const driver = fakeDriver(({ text }) => {
    const statement = { ...Promise.withResolvers<object>(), text };
    statements.push(statement);
    return statement.promise;
  }, connect);
  /** Completes all statements that were sent so far. */
  const answer = () => statements.forEach(({ resolve }) => void resolve({ rows: [] }));
  return { driver, statements, answer };
}

/** A server that opens this many connections, and refuses more. */
function roomFor(most: number, failure: Error = refusal('53300')) {
  const room = {
    most,
    opened: 0,
    attempts: 0,
    async connect() {
      room.attempts += 1;
      if (room.opened === room.most) throw failure;
      room.opened += 1;
    },
  };
  return room;
}

const select = prepared('SELECT 1');
const sendRead = (pool: PostgresPool, signal?: AbortSignal) => pool.read(select, [], signal);
const sendWrite = (pool: PostgresPool) => pool.write(select, []);
const sendFeedRead = (pool: PostgresPool) => pool.read(select, [], undefined, 'feed');
const sendPing = (pool: PostgresPool) => pool.ping(select);

/** Resolves when everything has run that needs neither a timer nor an answer. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
}

const rejection = (code: string) => Object.assign(new Error(code), { code, severity: 'ERROR' });
const refusal = (code: string) => Object.assign(new Error('refused'), { code, severity: 'FATAL' });
const fromSystem = (code: string) => Object.assign(new Error(code), { code });
const unavailable = { kind: 'unavailable' };
const noCapacity = { message: 'the database has no capacity left' };
const noAnswer = { message: 'the database does not answer in time' };

/** A pool whose server rejects every statement with a SQLSTATE, and the statements that it received. */
function refusingPool(code: string) {
  const sent: Statement[] = [];
  const warnings: string[] = [];
  const driver = fakeDriver(async (statement) => {
    sent.push(statement);
    throw rejection(code);
  });
  return { pool: poolOf(driver, settings, (warning) => warnings.push(warning)), sent, warnings };
}

describe('a PostgreSQL connection', () => {
  for (const end of ['destroy', 'kill', 'close'] as const) {
    it(`is not used again from the moment of ${end}`, () => {
      const session = { host: '/nowhere', port: 5432, processID: 1, secretKey: 1 };
      const given = { ...session, connection: { stream: new Socket() }, end: async () => {} };
      const client: object = Object.assign(new EventEmitter(), given);
      const ended = new Connection(client as Client);
      void ended[end]();
      assert.equal(ended.isDead, true);
    });
  }

  it('is not used again after a commit that no standby has confirmed', () => {
    const client: object = new EventEmitter();
    const connection = new Connection(client as Client);
    connection.client.emit('notice', { routine: 'SyncRepWaitForLSN' });
    assert.deepEqual([connection.isDead, connection.isUnconfirmed], [true, true]);
  });
});

describe('a failing PostgreSQL statement is sent', () => {
  const faults: readonly [code: string, what: string, reads: number, writes: number][] = [
    ['57P01', 'ended by the server', 2, 1],
    ['25006', 'rejected by a standby', 2, 2],
    ['42P05', 'already prepared by a pooler', 2, 2],
    ['26000', 'not prepared by a pooler', 2, 2],
    ['40001', 'in conflict with another transaction', 6, 6],
    ['57014', 'too slow', 1, 1],
    ['XX000', 'rejected because of a bug', 1, 1],
  ];
  for (const [code, what, reads, writes] of faults) {
    it(`${reads} times as a read and ${writes} times as a write when it was ${what} (${code})`, async () => {
      for (const [kind, times] of [
        ['read', reads],
        ['write', writes],
      ] as const) {
        const { pool, sent } = refusingPool(code);
        await assert.rejects(pool[kind](prepared('SELECT 1'), []), { name: 'DomainError' });
        assert.equal(sent.length, times, kind);
      }
    });
  }

  it('twice as a read and once as a write when the driver reports that the connection was lost', async () => {
    const clients: Client[] = [];
    let sent = 0;
    const driver = fakeDriver(async () => {
      sent += 1;
      clients.at(-1)?.emit('error', new Error('Connection terminated unexpectedly'));
      throw new Error('Connection terminated unexpectedly');
    });
    const create: CreateClient = (url) => clients[clients.push(driver(url)) - 1] as Client;
    const pool = poolOf(create, settings);
    const lost = { kind: 'unavailable', message: 'the connection to the database was lost' };
    await assert.rejects(sendRead(pool), lost);
    assert.equal(sent, 2);
    await assert.rejects(sendWrite(pool), lost);
    assert.equal(sent, 3);
    await pool.close();
  });

  it('once, on a connection that stays open, if the work of the caller fails', async (t) => {
    const connect = t.mock.fn(async () => {});
    const driver = fakeDriver(async () => ({ rows: [] }), connect);
    const pool = poolOf(driver, settings);
    const work = t.mock.fn(() => Promise.reject(new Error('a bug')));
    await assert.rejects(pool.reads(work), { kind: 'internal' });
    await sendRead(pool);
    assert.deepEqual([work.mock.callCount(), connect.mock.callCount()], [1, 1]);
    await pool.close();
  });

  it('by its name after random pauses of up to 4 ms, doubled each time, if it was in conflict', async (t) => {
    const pauses = recordPauses(t);
    t.mock.method(Math, 'random', () => 1);
    const { pool, sent, warnings } = refusingPool('40001');
    await assert.rejects(sendRead(pool), unavailable);
    assert.deepEqual(pauses, [4, 8, 16, 32, 64]);
    assert.ok(sent.every(({ name }) => name !== undefined));
    assert.deepEqual(warnings, []);
  });

  it('again without a name after a pooler has confused the names, and so are all later statements', async () => {
    const { pool, sent, warnings } = refusingPool('42P05');
    await assert.rejects(sendRead(pool));
    await assert.rejects(pool.read(prepared('SELECT 2'), []));
    const seen = sent.map(({ name, text }) => `${name === undefined ? 'unnamed' : 'named'} ${text}`);
    assert.deepEqual(seen, ['named SELECT 1', 'unnamed SELECT 1', 'unnamed SELECT 2', 'unnamed SELECT 2']);
    const warning = 'a connection pooler does not keep prepared statements: each is now parsed every time';
    assert.deepEqual([...new Set(warnings)], [warning]);
  });
});

describe('a PostgreSQL read that has waited too long for a connection', () => {
  /** A pool with one connection that is in use, and reads that wait for it. The server never answers the others. */
  function exhaustedPool(t: TestContext, reads: number) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const answers: PromiseWithResolvers<object>[] = [];
    const driver = fakeDriver(() => {
      const answer = Promise.withResolvers<object>();
      answers.push(answer);
      return answer.promise;
    });
    const pool = poolOf(driver, { ...settings, poolSize: 1 });
    const running = Array.from({ length: reads }, (_, i) => pool.read(prepared(`SELECT ${i}`), []));
    const answer = async () => {
      answers.shift()?.resolve({ rows: [] });
      await nextTurn();
    };
    return { pool, running, answer };
  }

  it('fails as unavailable when the database completed no call during that time', async (t) => {
    const { pool, running, answer } = exhaustedPool(t, 2);
    await nextTurn();
    t.mock.timers.tick(settings.waitTimeoutMs);
    const cause = new Error('all connections are in use');
    await assert.rejects(async () => running[1], { ...unavailable, ...noAnswer, cause });
    await answer();
    await running[0];
    await pool.close();
  });

  it('fails as overloaded when the database completed other calls during that time', async (t) => {
    const { pool, running, answer } = exhaustedPool(t, 3);
    await nextTurn();
    await answer();
    t.mock.timers.tick(settings.waitTimeoutMs);
    await assert.rejects(async () => running[2], { kind: 'overloaded' });
    await answer();
    await Promise.all(running.slice(0, 2));
    await pool.close();
  });
});

describe('a PostgreSQL pool whose connections are all in use', () => {
  /** A pool of two connections, the statements in the order in which the server received them, and how to answer one. */
  function smallPool() {
    const sent: string[] = [];
    const answers = new Map<string, () => void>();
    const driver = fakeDriver(({ text }) => {
      const answer = Promise.withResolvers<object>();
      sent.push(text);
      answers.set(text, () => answer.resolve({ rows: [] }));
      return answer.promise;
    });
    const pool = poolOf(driver, { ...settings, poolSize: 2 });
    const call = (text: string) => pool[text.startsWith('write') ? 'write' : 'read']({ text }, []);
    const answer = async (...texts: string[]) => {
      for (const text of texts) {
        while (!answers.has(text)) await nextTurn();
        answers.get(text)?.();
      }
    };
    return { pool, sent, call, answer };
  }

  it('serves calls in their order, but reads before writes while another write runs', async () => {
    const { pool, sent, call, answer } = smallPool();
    const order = ['read 1', 'read 2', 'write 1', 'read 3', 'write 2', 'read 4', 'read 5'];
    const calls = order.map(call);
    await answer('read 1', 'read 2', 'read 3', 'read 4', 'read 5', 'write 1', 'write 2');
    await Promise.all(calls);
    assert.deepEqual(sent, ['read 1', 'read 2', 'write 1', 'read 3', 'read 4', 'read 5', 'write 2']);
    await pool.close();
  });

  it('leaves no timer and no listener of a call that has waited or was aborted', async () => {
    const { pool, call, answer } = smallPool();
    const { signal } = new AbortController();
    const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = timers();
    const calls = [call('read 1'), call('read 2'), pool.read({ text: 'read 3' }, [], signal)];
    await settle();
    assert.notDeepEqual(getEventListeners(signal, 'abort'), []);
    await answer('read 1', 'read 2', 'read 3');
    await Promise.all(calls);
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
    // Timers of earlier tests may end meanwhile.
    assert.ok(timers() <= before);
    const controller = new AbortController();
    const aborted = pool.read({ text: 'read 4' }, [], controller.signal);
    await settle();
    controller.abort();
    await assert.rejects(aborted, { kind: 'cancelled' });
    await answer('read 4');
    await settle();
    assert.ok(timers() <= before, 'after an abort');
    await pool.close();
  });

  it('has no place in its queue for a call whose signal has aborted', async () => {
    const hosts = new HostSearch({ ...settings, createClient: fakeDriver(async () => ({ rows: [] })) });
    const queue = new ConnectionQueue(1, settings.waitTimeoutMs, hosts);
    const connection = await queue.acquire('read', undefined);
    const controller = new AbortController();
    const waiting = queue.acquire('read', controller.signal);
    controller.abort();
    await assert.rejects(waiting, { kind: 'cancelled' });
    queue.release(connection, 'read');
    assert.equal(await queue.acquire('read', undefined), connection);
    await hosts.close();
  });

  it('fails a waiting write as unavailable if it served only reads during that time', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { pool, call, answer } = smallPool();
    const writes = [call('write 1'), call('write 2')];
    const read = call('read');
    await answer('read');
    await read;
    t.mock.timers.tick(settings.waitTimeoutMs);
    await assert.rejects(async () => writes[1], noAnswer);
    await answer('write 1');
    await writes[0];
    await pool.close();
  });
});

it('calls beyond the limit of waiting calls fail as overloaded, or as unavailable while no server is known', async () => {
  let isDown = false;
  const stuck = Promise.withResolvers<object>();
  const driver = fakeDriver(
    () => stuck.promise,
    async () => {
      if (isDown) throw new Error('connect ECONNREFUSED');
    },
  );
  const pool = poolOf(driver, { ...settings, poolSize: 1, maxWaiting: 1 });
  const running = [sendRead(pool), sendRead(pool)];
  await assert.rejects(sendRead(pool), { kind: 'overloaded' });
  isDown = true;
  await assert.rejects(sendPing(pool), unavailable);
  await assert.rejects(sendRead(pool), unavailable);
  stuck.resolve({ rows: [] });
  await Promise.all(running);
  await pool.close();
});

it('the feed uses both of its connections in the smallest pool', async () => {
  const { driver, statements, answer } = heldDriver();
  const pool = poolOf(driver, { ...settings, poolSize: 1, maxWaiting: 0 });
  const running = [sendFeedRead(pool), sendFeedRead(pool)];
  await assert.rejects(sendFeedRead(pool), { kind: 'overloaded' });
  await until(() => statements.length === 2, 'both reads run');
  answer();
  assert.deepEqual(await Promise.all(running), [[], []]);
  await pool.close();
});

it('reads of the feed may wait up to the limit of the pool, which has more connections', async () => {
  const { driver, statements } = heldDriver();
  const pool = poolOf(driver, { ...settings, poolSize: 3, maxWaiting: 0 });
  const running = [sendFeedRead(pool), sendFeedRead(pool), sendFeedRead(pool)];
  await assert.rejects(sendFeedRead(pool), { kind: 'overloaded' });
  for (let i = 0; i < running.length; i += 1) {
    await until(() => statements.length > i, 'the next read runs');
    statements[i]?.resolve({ rows: [] });
  }
  assert.deepEqual(await Promise.all(running), [[], [], []]);
  await pool.close();
});

it('a call searches for a server once, and fails if its connection is then refused too', async () => {
  const attempts = ['refused', 'probed', 'refused', 'probed', 'opened'];
  const driver = fakeDriver(
    async () => ({ rows: [] }),
    async () => {
      if (attempts.shift() === 'refused') throw new Error('connect ECONNREFUSED');
    },
  );
  const pool = poolOf(driver, settings);
  await assert.rejects(sendRead(pool), unavailable);
  assert.deepEqual(attempts, ['probed', 'opened']);
  await sendRead(pool);
  assert.deepEqual(attempts, []);
  await pool.close();
});

it('a call that waited for a connection while the server failed searches for a server before it opens one', async () => {
  let isDown = false;
  let attempts = 0;
  const { driver, statements } = heldDriver(async () => {
    attempts += 1;
    if (isDown) throw new Error('connect ECONNREFUSED');
  });
  const pool = poolOf(driver, { ...settings, poolSize: 1 });
  const [running, waiting] = [sendWrite(pool), sendWrite(pool)];
  await until(() => statements.length === 1, 'the first write runs');
  isDown = true;
  await assert.rejects(sendPing(pool), { ...unavailable, message: /cannot be reached/ });
  assert.equal(attempts, 3, 'a connection for each of the write, the ping and the search');
  statements[0]?.reject(rejection('57P01'));
  await Promise.all([assert.rejects(running, unavailable), assert.rejects(waiting, unavailable)]);
  assert.equal(attempts, 4, 'a connection for another search');
  await pool.close();
});

it('calls that waited after a search share another one when the server fails again', async () => {
  const found = Promise.withResolvers<void>();
  let isDown = true;
  let attempts = 0;
  const { driver, statements } = heldDriver(async () => {
    attempts += 1;
    if (attempts === 2) await found.promise;
    else if (isDown) throw new Error('connect ECONNREFUSED');
  });
  const pool = poolOf(driver, { ...settings, poolSize: 1 });
  const calls = [sendWrite(pool)];
  await until(() => attempts === 2, 'the first write searches');
  calls.push(sendWrite(pool), sendWrite(pool));
  isDown = false;
  found.resolve();
  await until(() => statements.length === 1, 'one write runs');
  isDown = true;
  await assert.rejects(sendPing(pool), unavailable);
  const before = attempts;
  statements[0]?.reject(rejection('57P01'));
  await Promise.all(calls.map((call) => assert.rejects(call, unavailable)));
  assert.equal(attempts, before + 1, 'one connection for the search of both');
  await pool.close();
});

it('a call does not search for a server if an open connection has served since one could not be opened', async () => {
  const attempts = ['opened', 'refused', 'refused', 'opened'];
  const { driver, statements, answer } = heldDriver(async () => {
    if (attempts.shift() !== 'opened') throw new Error('connect ECONNREFUSED');
  });
  const pool = poolOf(driver, settings);
  const first = sendRead(pool);
  await until(() => statements.length === 1, 'the first read runs');
  statements[0]?.resolve({ rows: [] });
  await first;
  await assert.rejects(sendPing(pool), unavailable);
  const second = sendRead(pool);
  await until(() => statements.length === 2, 'the second read runs on the open connection');
  const third = sendRead(pool);
  await until(() => statements.length === 3, 'the third read runs');
  answer();
  await Promise.all([second, third]);
  assert.deepEqual(attempts, []);
  await pool.close();
});

it('a call that is aborted while its connection opens sends no statement', async () => {
  const opening = Promise.withResolvers<void>();
  const { driver, statements } = heldDriver(() => opening.promise);
  const pool = poolOf(driver, settings);
  const leaving = new AbortController();
  const read = sendRead(pool, leaving.signal);
  leaving.abort();
  await assert.rejects(read, { kind: 'cancelled' });
  opening.resolve();
  await pool.close();
  assert.deepEqual(statements, []);
});

for (const [isRefused, opened, text] of [
  [false, 2, 'as many connections as calls need'],
  [true, 1, 'one connection at a time, while the server refuses more,'],
] as const) {
  it(`a PostgreSQL pool opens ${text} after one was lost`, async (t) => {
    t.mock.method(performance, 'now', () => 1_000);
    const answers = [undefined, undefined, ...(isRefused ? [refusal('53300')] : [])];
    let attempts = 0;
    const stuck = Promise.withResolvers<void>();
    const { driver, statements, answer } = heldDriver(async () => {
      const answer = answers[attempts];
      attempts += 1;
      if (attempts > answers.length) await stuck.promise;
      if (answer !== undefined) throw answer;
    });
    const slow = { waitTimeoutMs: 60_000, pingTimeoutMs: 60_000, statementTimeoutMs: 60_000 };
    const pool = poolOf(driver, { ...settings, ...slow, poolSize: 4 });
    const [lost, stays] = [sendRead(pool), sendRead(pool)];
    await until(() => statements.length === 2, 'two reads run');
    const refused = isRefused ? [sendRead(pool)] : [];
    await until(() => attempts === answers.length, 'the third connection is refused');
    await nextTurn();
    statements[0]?.reject(refusal('58000'));
    await assert.rejects(lost, unavailable);
    const later = [sendRead(pool), sendRead(pool)];
    await nextTurn();
    assert.equal(attempts, answers.length + opened);
    stuck.resolve();
    const reads = Promise.all([stays, ...refused, ...later]);
    let isOver = false;
    reads.finally(() => {
      isOver = true;
    });
    await until(() => {
      answer();
      return isOver;
    }, 'all reads have ended');
    await reads;
    await pool.close();
  });
}

it('a connection that is refused keeps the reason, although closing it takes longer than its time limit', async () => {
  const ended = Promise.withResolvers<void>();
  const client = Object.assign(new EventEmitter(), {
    connect: () => Promise.reject(refusal('53300')),
    end: () => ended.promise,
    connection: { stream: { destroy: () => ended.resolve() } },
  });
  const connection = new Connection(client as unknown as Client);
  await assert.rejects(connection.open(settings, 1), { code: '53300' });
});

it('a connection is closed by force if the server does not confirm its end for a second', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ended = Promise.withResolvers<void>();
  const stream = { destroy: () => ended.resolve() };
  const client = Object.assign(new EventEmitter(), { end: () => ended.promise, connection: { stream } });
  const closing = new Connection(client as unknown as Client).close();
  t.mock.timers.tick(1_000);
  await closing;
});

/** A connection over a socket to a server, which also receives the request to cancel its statement. */
async function connectTo(t: TestContext, server: Server) {
  server.on('connection', (socket) => t.after(() => socket.destroy()));
  const { port } = await listen(t, server);
  const accepted = once(server, 'connection');
  const stream = connect(port, '127.0.0.1');
  await Promise.all([accepted, once(stream, 'connect')]);
  const client = Object.assign(new EventEmitter(), { processID: 1, secretKey: 1, connection: { stream } });
  return { stream, connection: new Connection(client as unknown as Client) };
}

it('a request to cancel a statement does not keep the process alive, and ends after 30 s', async (t) => {
  const server = createServer((socket) => void socket.unref());
  const { connection } = await connectTo(t, server);
  const requests: Socket[] = [];
  const original = net.connect;
  mockBuiltin(t, net, 'connect', (...given: never[]) => {
    const request: Socket = Reflect.apply(original, undefined, given);
    requests.push(request);
    return request;
  });
  const count = (wanted: string) => process.getActiveResourcesInfo().filter((type) => type === wanted).length;
  const [sockets, timers] = [count('TCPSocketWrap'), count('Timeout')];
  connection.kill();
  assert.equal(count('Timeout'), timers);
  const [request] = requests;
  assert.ok(request);
  await once(request, 'connect');
  assert.ok(count('TCPSocketWrap') <= sockets);
  assert.equal(request.timeout, 30_000);
  request.emit('timeout');
  assert.ok(request.destroyed);
});

it('a connection is also ended if the server refuses the request to cancel its statement', async (t) => {
  const server = createServer();
  const { stream, connection } = await connectTo(t, server);
  server.close();
  const closed = once(stream, 'close');
  connection.kill();
  await closed;
});

it('a connection does not end with the request to cancel its statement, whose error may come later', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closed = Promise.withResolvers<void>();
  // PostgreSQL closes the connection of such a request without a response, but a pooler may report an error.
  const server = createServer((socket) =>
    socket.on('data', () => socket.end('E')).on('close', () => closed.resolve()),
  );
  const { stream, connection } = await connectTo(t, server);
  connection.kill();
  await closed.promise;
  await settle();
  assert.equal(stream.destroyed, false);
});

it('the request to cancel a statement goes through the socket file of its connection', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const [host, port] = [temporaryFolder(), 5432];
  const path = join(host, `.s.PGSQL.${port}`);
  const received = Promise.withResolvers<string>();
  const server = createServer((socket) => {
    let text = '';
    socket.setEncoding('hex').on('data', (part) => {
      text += part;
      socket.end();
    });
    socket.on('close', () => received.resolve(text));
  });
  t.after(() => server.close());
  await once(server.listen(path), 'listening');
  const stream = connect(path);
  t.after(() => stream.destroy());
  await once(stream, 'connect');
  const session = { host, port, processID: 7, secretKey: 8, connection: { stream } };
  new Connection(Object.assign(new EventEmitter(), session) as unknown as Client).kill();
  assert.equal(await received.promise, '0000001004d2162e0000000700000008');
});

it('a connection ends half a second after a request to cancel its statement that has no effect', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { stream, connection } = await connectTo(t, createServer());
  connection.kill();
  t.mock.timers.tick(499);
  assert.equal(stream.destroyed, false);
  t.mock.timers.tick(1);
  assert.ok(stream.destroyed);
});

describe('a PostgreSQL connection', () => {
  /** A pool with one connection, and the number of its connections that were opened or killed. */
  function countingPool(t: TestContext, limits: Partial<PoolSettings> = {}) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const counts = { opened: 0, killed: 0 };
    const { driver, statements } = heldDriver(async () => {
      counts.opened += 1;
    });
    const destroy = () => {
      counts.killed += 1;
    };
    const create: CreateClient = (url) => Object.assign(driver(url), { connection: { stream: { destroy } } });
    const pool = poolOf(create, { ...settings, poolSize: 1, ...limits });
    /** Resolves when the server has received a statement. */
    const received = async (count: number) => {
      while (statements.length < count) await nextTurn();
    };
    return { pool, counts, statements, received };
  }

  it('is not killed for an aborted call after another call has taken it', async (t) => {
    const { pool, counts, statements, received } = countingPool(t);
    const controller = new AbortController();
    const aborted = sendRead(pool, controller.signal);
    await received(1);
    controller.abort();
    await assert.rejects(aborted, { kind: 'cancelled' });
    statements[0]?.resolve({ rows: [] });
    const other = pool.read(prepared('SELECT 2'), []);
    await received(2);
    t.mock.timers.tick(100);
    assert.deepEqual(counts, { opened: 1, killed: 0 });
    statements[1]?.resolve({ rows: [] });
    await other;
    await pool.close();
  });

  for (const code of ['57P01', '57014']) {
    it(`that is killed for an aborted call is the only one that is lost (${code})`, async (t) => {
      const { pool, counts, statements, received } = countingPool(t, { poolSize: 2 });
      const controller = new AbortController();
      const other = sendRead(pool);
      const aborted = pool.read(prepared('SELECT 2'), [], controller.signal);
      await received(2);
      controller.abort();
      await assert.rejects(aborted, { kind: 'cancelled' });
      t.mock.timers.tick(100);
      assert.equal(counts.killed, 1);
      statements[1]?.reject(rejection(code));
      statements[0]?.resolve({ rows: [] });
      await other;
      const next = [pool.read(prepared('SELECT 3'), []), pool.read(prepared('SELECT 4'), [])];
      await received(4);
      assert.equal(counts.opened, 3);
      for (const statement of statements.slice(2)) statement.resolve({ rows: [] });
      await Promise.all(next);
      await pool.close();
    });
  }

  it('is killed a second after the limit of its statement, although a ping may take longer', async (t) => {
    const { pool, counts, statements, received } = countingPool(t, { pingTimeoutMs: 60_000 });
    const read = sendRead(pool);
    await received(1);
    t.mock.timers.tick(settings.statementTimeoutMs + 999);
    assert.equal(counts.killed, 0);
    t.mock.timers.tick(2);
    assert.equal(counts.killed, 1);
    statements[0]?.reject(rejection('57014'));
    await assert.rejects(read, { kind: 'deadline-exceeded' });
    assert.equal(statements.length, 1, 'the statement is not sent again');
    await pool.close();
  });

  const failing = () => Promise.reject(rejection('XX000'));
  const failures: readonly [what: string, fail: (pool: PostgresPool) => Promise<unknown>][] = [
    ['its transaction could not be rolled back', (pool) => pool.transaction(failing)],
    ['its preparation has failed', (pool) => pool.prepare(failing)],
  ];
  for (const [what, fail] of failures) {
    it(`is not used again after ${what}`, async (t) => {
      const connect = t.mock.fn(async () => {});
      const driver = fakeDriver(async ({ text }) => {
        if (text === 'ROLLBACK') throw rejection('57014');
        return { rows: [] };
      }, connect);
      const pool = poolOf(driver, settings);
      await assert.rejects(fail(pool), { name: 'DomainError' });
      await sendRead(pool);
      assert.equal(connect.mock.callCount(), 2);
      await pool.close();
    });
  }
});

describe('calls to a PostgreSQL that refuses more connections', () => {
  const answerSoon = async () => {
    await nextTurn();
    return { rows: [] };
  };
  for (const [failure, what] of [
    [refusal('53300'), 'it has no free one'],
    [refusal('08P01'), 'PgBouncer has no free one'],
    [refusal('58000'), 'pgcat has no free one'],
    [refusal('XX000'), 'Supavisor has no free one'],
    [refusal('28P01'), 'the password was changed'],
    [refusal('42501'), 'the role may no longer connect'],
    [refusal('55000'), 'the database accepts no more connections'],
    [fromSystem('EAI_AGAIN'), 'no DNS server responds'],
    [fromSystem('EMFILE'), 'the process has no free file descriptor'],
  ] as const) {
    it(`wait for the open ones if ${what}`, async () => {
      const driver = fakeDriver(answerSoon, roomFor(2, failure).connect);
      const pool = poolOf(driver, { ...settings, maxWaiting: 50, waitTimeoutMs: 60_000 });
      for (let round = 0; round < 10; round += 1)
        await Promise.all(Array.from({ length: 40 }, () => sendRead(pool)));
      await pool.close();
    });
  }

  const several: PoolSettings['hosts'] = [
    { name: 'primary', url: 'postgres://primary' },
    { name: 'standby', url: 'postgres://standby' },
  ];
  for (const hosts of [settings.hosts, several]) {
    it(`use more connections when it allows them again, of ${hosts.length} hosts`, async (t) => {
      let now = performance.now();
      t.mock.method(performance, 'now', () => now);
      const room = roomFor(2);
      const connects: string[] = [];
      const driver = fakeDriver(answerSoon, async (url) => {
        connects.push(url);
        if (url.endsWith('standby')) throw new Error('takes no writes');
        await room.connect();
      });
      const pool = poolOf(driver, { ...settings, maxWaiting: 50, hosts });
      const readAll = () => Promise.all(Array.from({ length: 40 }, () => sendRead(pool)));
      await sendRead(pool);
      await readAll();
      for (let i = 0; i < 2; i += 1) await sendPing(pool);
      assert.equal(room.opened, 2, 'pings share the connections of calls');
      for (const waitedMs of [0, 200]) {
        connects.length = 0;
        now += waitedMs;
        await readAll();
        assert.equal(connects.length, waitedMs === 0 ? 0 : 1);
      }
      room.most = 5;
      now += 200;
      for (let round = 0; round < 4; round += 1) await readAll();
      assert.equal(room.opened, 5, 'the pool uses the connections that are now allowed');
      const others = connects.filter((url) => url.endsWith('standby'));
      assert.deepEqual(others, [], 'the other hosts are not asked');
      await pool.close();
    });
  }

  const losses: readonly [what: string, waitedMs: number, others: 'run' | 'end'][] = [
    ['one is lost while the others run', 0, 'run'],
    ['one is lost after a long wait and the others end', 1_000, 'end'],
  ];
  for (const [what, waitedMs, others] of losses)
    it(`open another one when ${what}`, async (t) => {
      let isFull = false;
      const { driver, statements, answer } = heldDriver(async () => {
        if (isFull) throw refusal('53300');
      });
      const pool = poolOf(driver, settings);
      const [first, lost] = [sendWrite(pool), sendWrite(pool)];
      await until(() => statements.length === 2, 'both calls run');
      isFull = true;
      const waiting = sendRead(pool);
      await settle();
      const start = performance.now();
      t.mock.method(performance, 'now', () => start + waitedMs);
      isFull = false;
      // The waiting call is given the connection of the first one, which is suspect before it is used.
      if (others === 'end') statements[0]?.resolve({ rows: [] });
      statements[1]?.reject(refusal('57P01'));
      await assert.rejects(lost, { message: 'the connection to the database was lost' });
      await until(() => statements.length === 3, 'the waiting call runs');
      answer();
      await Promise.all([first, waiting]);
      await pool.close();
    });

  it('are all replaced for waiting writes when they are lost', async (t) => {
    const room = roomFor(5);
    const { driver, statements, answer } = heldDriver(room.connect);
    const pool = poolOf(driver, settings);
    const calls = Promise.allSettled(Array.from({ length: 20 }, () => sendWrite(pool)));
    await until(() => statements.length === 5, 'five calls run');
    room.opened = 0;
    for (const statement of statements.splice(0)) statement.reject(refusal('57P01'));
    await until(() => statements.length === 5, 'five other calls run');
    const timer = setInterval(answer);
    t.after(() => clearInterval(timer));
    await calls;
    clearInterval(timer);
    await pool.close();
  });

  it('leave one to reads, also long after the server refused the last one', async (t) => {
    const room = roomFor(5);
    const { driver, statements, answer } = heldDriver(room.connect);
    const pool = poolOf(driver, settings);
    const call = (kind: 'read' | 'write') => pool[kind]({ text: kind }, []);
    const first = Promise.all(Array.from({ length: 6 }, () => call('read')));
    const timer = setInterval(answer);
    t.after(() => clearInterval(timer));
    await first;
    clearInterval(timer);
    statements.length = 0;
    const later = performance.now() + 1_000;
    const clock = t.mock.method(performance, 'now', () => later);
    const calls = [call('write'), call('write'), call('write'), call('write'), call('write'), call('read')];
    await settle();
    const texts = statements.map(({ text }) => text);
    assert.deepEqual(texts, ['write', 'write', 'write', 'write', 'read']);
    clock.mock.restore();
    const end = setInterval(answer);
    t.after(() => clearInterval(end));
    await Promise.all(calls);
    clearInterval(end);
    await pool.close();
  });

  it('find another host when no connection of the pool can be used', async () => {
    let isFull = false;
    const driver = fakeDriver(
      async () => ({ rows: [] }),
      async (url) => {
        if (url.endsWith('standby') !== isFull)
          throw isFull ? refusal('53300') : new Error('takes no writes');
      },
    );
    const pool = poolOf(driver, { ...settings, hosts: several });
    await sendPing(pool);
    // The idle connection of pings is suspect from now on.
    pool.hosts.generation += 1;
    isFull = true;
    await sendWrite(pool);
    assert.equal(pool.hosts.current.name, 'standby');
    await pool.close();
  });

  it('find another host when a demoted one rejects a write too', async () => {
    let isDemoted = false;
    const driver: CreateClient = (url) => {
      const isPrimary = () => url.endsWith('standby') === isDemoted;
      const connect = async () => {
        if (!isPrimary()) throw isDemoted ? refusal('53300') : new Error('takes no writes');
      };
      const query = async () => {
        if (!isPrimary()) throw rejection('25006');
        return { rows: [] };
      };
      return fakeDriver(query, connect)(url);
    };
    const pool = poolOf(driver, { ...settings, hosts: several });
    await sendWrite(pool);
    isDemoted = true;
    await sendWrite(pool);
    assert.equal(pool.hosts.current.name, 'standby');
    await pool.close();
  });

  it('keep the open one when a ping waits too long for it', async () => {
    const room = roomFor(1);
    const statement = Promise.withResolvers<object>();
    const driver = fakeDriver(() => statement.promise, room.connect);
    const pool = poolOf(driver, { ...settings, pingTimeoutMs: 20 });
    const calls = [sendWrite(pool), sendWrite(pool)];
    await nextTurn();
    await assert.rejects(sendPing(pool), noAnswer);
    statement.resolve({ rows: [] });
    await Promise.all(calls);
    assert.equal(room.opened, 1);
    await pool.close();
  });

  for (const [what, send] of [
    ['a ping', sendPing],
    ['the feed', sendFeedRead],
  ] as const) {
    it(`take the connection of ${what} if that is the only one, and share it`, async (t) => {
      let now = 1_000;
      t.mock.method(performance, 'now', () => now);
      const room = roomFor(1);
      const pool = poolOf(fakeDriver(answerSoon, room.connect), {
        ...settings,
        poolSize: 2,
        waitTimeoutMs: 60_000,
      });
      await send(pool);
      const readAll = () => Promise.all(Array.from({ length: 10 }, () => sendRead(pool)));
      await Promise.all([readAll(), sendWrite(pool)]);
      const sendAll = () => Promise.all([sendPing(pool), sendFeedRead(pool), readAll()]);
      await sendAll();
      room.most = 10;
      const before = room.attempts;
      await sendAll();
      assert.deepEqual([room.attempts - before, room.opened], [0, 1]);
      now += 200;
      await sendAll();
      assert.equal(room.opened, 4, 'the ping, the feed and the calls have connections of their own again');
      await pool.close();
    });
  }

  it('leave the feed its idle connection while they have one', async () => {
    const { driver, statements, answer } = heldDriver();
    const pool = poolOf(driver, { ...settings, poolSize: 1 });
    const feedRead = sendFeedRead(pool);
    await until(() => statements.length === 1, 'the feed has a connection');
    answer();
    await feedRead;
    const calls = [sendRead(pool)];
    await until(() => statements.length === 2, 'the call has another one');
    pool.hosts.failure = { cause: new Error('gone') };
    calls.push(sendRead(pool));
    await until(() => pool.hosts.failure === undefined, 'the next call has found the host again');
    await settle();
    assert.equal(statements.length, 2);
    answer();
    await until(() => statements.length === 3, 'the next call runs');
    answer();
    await Promise.all(calls);
    await pool.close();
  });

  it('leave the feed its connection when it may not have a second one', async (t) => {
    t.mock.method(performance, 'now', () => 1_000);
    const held = Promise.withResolvers<object>();
    const answer = async ({ text }: Statement) => (text === 'held' ? held.promise : answerSoon());
    const pool = poolOf(fakeDriver(answer, roomFor(2).connect), { ...settings, poolSize: 1 });
    const running = pool.read({ text: 'held' }, []);
    for (let round = 0; round < 2; round += 1) await Promise.all([sendFeedRead(pool), sendFeedRead(pool)]);
    held.resolve({ rows: [] });
    await running;
    await pool.close();
  });

  it('fail at once, each time, while a ping uses the only connection', async () => {
    const { driver, statements, answer } = heldDriver(roomFor(1).connect);
    const pool = poolOf(driver, { ...settings, poolSize: 1, waitTimeoutMs: 60_000, pingTimeoutMs: 60_000 });
    const ping = sendPing(pool);
    await until(() => statements.length === 1, 'the ping runs');
    for (let i = 0; i < 3; i += 1) {
      await assert.rejects(sendWrite(pool), noCapacity);
    }
    answer();
    await ping;
    await pool.close();
  });

  it('cost a ping or the feed, which has none, an attempt only each 200 ms', async (t) => {
    let now = 1_000;
    t.mock.method(performance, 'now', () => now);
    const room = roomFor(1);
    const pool = poolOf(fakeDriver(answerSoon, room.connect), { ...settings, poolSize: 1 });
    await sendRead(pool);
    for (const waitedMs of [0, 199, 1]) {
      now += waitedMs;
      for (let i = 0; i < 3; i += 1) await Promise.all([sendPing(pool), sendFeedRead(pool)]);
    }
    assert.equal(room.attempts, 1 + 2 * 2);
    room.most = 3;
    now += 200;
    await Promise.all([sendPing(pool), sendFeedRead(pool)]);
    assert.equal(room.opened, 3);
    await pool.close();
  });

  it('fail at once, with the reason, when the last open one is lost', async () => {
    const statement = Promise.withResolvers<object>();
    const driver = fakeDriver(() => statement.promise, roomFor(1).connect);
    const pool = poolOf(driver, { ...settings, waitTimeoutMs: 60_000 });
    const first = sendWrite(pool);
    await nextTurn();
    const others = Promise.allSettled(Array.from({ length: 15 }, () => sendWrite(pool)));
    await nextTurn();
    statement.reject(refusal('57P01'));
    await assert.rejects(first, { message: 'the connection to the database was lost' });
    const reasons = (await others).map((other) => other.status === 'rejected' && other.reason.message);
    assert.deepEqual(new Set(reasons), new Set([noCapacity.message]));
    await pool.close();
  });

  it('that write use all idle connections as soon as the server accepts one more', async (t) => {
    let now = 1_000;
    t.mock.method(performance, 'now', () => now);
    const room = roomFor(10);
    const { driver, statements } = heldDriver(room.connect);
    const pool = poolOf(driver, { ...settings, poolSize: 20 });
    const call = (kind: 'read' | 'write') => pool[kind](prepared('SELECT 1'), []);
    const finish = async (calls: readonly Promise<unknown>[], sent: number) => {
      await until(() => statements.length === sent, `${sent} calls run`);
      for (const statement of statements.splice(0)) statement.resolve({ rows: [] });
      await Promise.all(calls);
    };
    const reads = Array.from({ length: 10 }, () => call('read'));
    await until(() => statements.length === 10, 'ten reads run');
    reads.push(call('read'));
    await nextTurn();
    statements.pop()?.resolve({ rows: [] });
    await finish(reads, 10);
    const writes = Array.from({ length: 10 }, () => call('write'));
    await until(() => statements.length === 8, 'eight writes run, and two connections are left to reads');
    now += 1_000;
    room.most += 1;
    await finish([...writes, call('write')], 11);
    await pool.close();
  });

  it('that read all open a connection at once when the last one is lost', async (t) => {
    t.mock.method(performance, 'now', () => 1_000);
    const stuck = Promise.withResolvers<void>();
    let attempts = 0;
    const { driver, statements, answer } = heldDriver(async () => {
      attempts += 1;
      if (attempts === 2) throw refusal('53300');
      if (attempts > 2) await stuck.promise;
    });
    const pool = poolOf(driver, settings);
    const lost = sendWrite(pool);
    await until(() => statements.length === 1, 'the write runs');
    const waiting = [sendRead(pool)];
    await until(() => attempts === 2, 'the second connection is refused');
    await nextTurn();
    waiting.push(sendRead(pool));
    statements[0]?.reject(refusal('57P01'));
    await assert.rejects(lost, unavailable);
    await nextTurn();
    assert.equal(attempts, 4);
    stuck.resolve();
    await until(() => statements.length === 3, 'both reads run');
    answer();
    await Promise.all(waiting);
    await pool.close();
  });
});

describe('a pooler that ends one session of a PostgreSQL pool with a fatal error', () => {
  it('(XX000) receives a write only once, because it may have taken effect', async () => {
    let sent = 0;
    const driver = fakeDriver(async () => {
      sent += 1;
      throw refusal('XX000');
    });
    const pool = poolOf(driver, settings);
    await assert.rejects(sendWrite(pool), unavailable);
    assert.equal(sent, 1);
    await pool.close();
  });

  for (const [code, reads] of [
    ['58000', 1],
    ['XX000', 2],
    ['26000', 2],
  ] as const) {
    it(`(${code}) loses only that one`, async (t) => {
      const connect = t.mock.fn(async () => {});
      const { driver, statements, answer } = heldDriver(connect);
      const pool = poolOf(driver, settings);
      const [other, ended] = [sendRead(pool), sendRead(pool)];
      await until(() => statements.length === 2, 'both calls run');
      statements[1]?.reject(refusal(code));
      if (reads === 1) {
        await assert.rejects(ended, unavailable);
        assert.equal(connect.mock.callCount(), 2);
      } else {
        await until(() => statements.length === 3, 'the read is sent again');
        assert.equal(connect.mock.callCount(), 3, 'on a new connection');
      }
      answer();
      await Promise.allSettled([other, ended]);
      const last = sendRead(pool);
      await until(() => statements.length === reads + 2, 'the last read runs');
      assert.equal(connect.mock.callCount(), reads + 1, 'an open connection serves the next call');
      statements.at(-1)?.resolve({ rows: [] });
      await last;
      await pool.close();
    });
  }
});

it('a preparation that takes more than 5 s is reported while it runs', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const warnings: string[] = [];
  const driver = fakeDriver(async () => ({}));
  const pool = poolOf(driver, settings, (warning) => warnings.push(warning));
  for (const expected of [0, 1]) {
    const started = Promise.withResolvers<void>();
    const work = Promise.withResolvers<void>();
    const prepared = pool.prepare(() => {
      started.resolve();
      return work.promise;
    });
    await started.promise;
    t.mock.timers.tick(expected === 0 ? 4_999 : 5_000);
    assert.equal(warnings.length, expected);
    work.resolve();
    await prepared;
    t.mock.timers.tick(5_000);
    assert.equal(warnings.length, expected, 'it was reported after its end');
  }
  assert.match(warnings[0] ?? '', /^opening PostgreSQL takes more than 5 s: /);
});

it('a call that begins after the pool was closed opens no connection', async (t) => {
  const connect = t.mock.fn(async () => {});
  const driver = fakeDriver(async () => ({ rows: [] }), connect);
  const pool = poolOf(driver, settings);
  await sendRead(pool);
  const closing = pool.close();
  const closed = { message: 'the store is closed' };
  const reads = [sendRead(pool), sendFeedRead(pool)].map((read) => assert.rejects(read, closed));
  await Promise.all([closing, ...reads]);
  assert.equal(connect.mock.callCount(), 1);
});

it('a search that was waiting when the pool was closed opens no connection', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  // Otherwise a slow machine would not pause between the two searches.
  t.mock.method(performance, 'now', () => 0);
  const connect = t.mock.fn(() => Promise.reject(fromSystem('ECONNREFUSED')));
  const driver = fakeDriver(async () => ({ rows: [] }), connect);
  const pool = poolOf(driver, settings);
  await assert.rejects(sendRead(pool), unavailable);
  const before = connect.mock.callCount();
  const leaving = new AbortController();
  const read = sendRead(pool, leaving.signal);
  await nextTurn();
  leaving.abort();
  await assert.rejects(read, { kind: 'cancelled' });
  const closing = pool.close();
  await nextTurn();
  t.mock.timers.tick(200);
  await closing;
  assert.equal(connect.mock.callCount(), before);
});

it('a pool that closes also waits for the calls that its running calls start', async () => {
  const { driver, statements } = heldDriver();
  const pool = poolOf(driver, settings);
  const calls = sendRead(pool)
    .then(() => sendRead(pool))
    .then(() => sendRead(pool));
  await until(() => statements.length === 1, 'the first call runs');
  const closing = pool.close();
  statements[0]?.resolve({ rows: [] });
  await until(() => statements.length === 2, 'the second call runs');
  statements[1]?.resolve({ rows: [] });
  await until(() => statements.length === 3, 'the third call runs');
  statements[2]?.resolve({ rows: [] });
  await Promise.all([calls, closing]);
});

it('a pool that closes also waits for the end of a probe', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const [connected, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const destroy = () => connected.reject(new Error('Connection terminated'));
  const client = Object.assign(new EventEmitter(), {
    connection: { stream: { destroy } },
    connect: () => connected.promise,
    end: () => ended.promise,
  });
  const { hosts } = settings;
  const pool = poolOf(() => client as unknown as Client, { ...settings, hosts: [hosts[0], ...hosts] });
  pool.hosts.check();
  let isClosed = false;
  const closing = pool.close().then(() => {
    isClosed = true;
  });
  await settle();
  assert.equal(isClosed, false);
  ended.resolve();
  await closing;
});

describe('a PostgreSQL pool', () => {
  /** A server that answers only when it is told to, and the connections to it that were destroyed. */
  function slowPool(t: TestContext, changes: Partial<PoolSettings>) {
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    const connects: PromiseWithResolvers<void>[] = [];
    const setups: PromiseWithResolvers<object>[] = [];
    const destroyed: string[] = [];
    const createClient = (url: string) => {
      const lost = Promise.withResolvers<never>();
      lost.promise.catch(() => {});
      const waitFor = <T>(answers: PromiseWithResolvers<T>[]) => {
        const answer = Promise.withResolvers<T>();
        answers.push(answer);
        return Promise.race([answer.promise, lost.promise]);
      };
      const destroy = () => {
        destroyed.push(url);
        lost.reject(new Error('Connection terminated'));
      };
      const client = Object.assign(new EventEmitter(), {
        connection: { stream: { destroy } },
        connect: () => waitFor(connects),
        query: (sent: string | Statement) => (typeof sent === 'string' ? waitFor(setups) : { rows: [] }),
        async end() {
          client.emit('end');
        },
      });
      return client as unknown as Client;
    };
    const pool = poolOf(createClient, { ...settings, ...changes });
    t.after(async () => {
      let isClosed = false;
      const closing = pool.close().finally(() => {
        isClosed = true;
      });
      for (; !isClosed; await settle()) t.mock.timers.tick(1_000);
      await closing;
    });
    const tick = async (ms: number) => {
      t.mock.timers.tick(ms);
      await settle();
    };
    /** Accepts a connection, which then waits for the answer to its first statement. */
    const accept = async (connection: number) => {
      await settle();
      connects.at(connection)?.resolve();
      await settle();
    };
    /** Accepts a connection and answers its first statement. */
    const open = async (connection: number) => {
      await accept(connection);
      setups.at(-1)?.resolve({ rows: [session] });
      await settle();
    };
    return { pool, connects, destroyed, tick, accept, open };
  }
  const hosts: PoolSettings['hosts'] = [
    { name: 'a', url: 'postgres://a' },
    { name: 'b', url: 'postgres://b' },
  ];

  it('uses a connection that was connecting while others failed', async (t) => {
    const { pool, connects, open } = slowPool(t, {});
    const read = sendRead(pool);
    await settle();
    pool.hosts.generation += 1;
    await open(0);
    await read;
    assert.equal(connects.length, 1);
  });

  it('does not treat a server that is too slow for a ping as unreachable', async (t) => {
    const { pool, connects, open } = slowPool(t, { pingTimeoutMs: 1 });
    const ping = sendPing(pool);
    await assert.rejects(ping, noAnswer);
    assert.equal(connects.length, 1);
    await open(0);
    assert.equal(pool.hosts.failure, undefined);
    await pool.read(prepared('SELECT 1'), [], undefined, 'pings');
    assert.equal(connects.length, 1, 'the next ping uses the connection');
  });

  it('checks a host if a ping waits too long for a connection to it', async (t) => {
    const { pool, connects } = slowPool(t, { hosts, pingTimeoutMs: 1 });
    await assert.rejects(sendPing(pool), noAnswer);
    assert.equal(connects.length, 2);
  });

  it('keeps a host when a check of it fails on this machine or with an error of the server, and leaves it when its name is gone', async (t) => {
    const { pool, connects } = slowPool(t, { hosts });
    for (const [error, isLeft] of [
      [fromSystem('EAI_AGAIN'), false],
      [fromSystem('EMFILE'), false],
      // The server starts.
      [rejection('57P03'), false],
      [fromSystem('ENOTFOUND'), true],
    ] as const) {
      pool.hosts.check();
      await settle();
      connects.at(-1)?.reject(error);
      await settle();
      assert.equal(pool.hosts.failure !== undefined, isLeft, error.message);
    }
  });

  it('leaves a host, and ends its calls, if it accepts connections but answers no statement', async (t) => {
    const limits = { hosts, pingTimeoutMs: 100, statementTimeoutMs: 10_000 };
    const { pool, destroyed, tick, accept, open } = slowPool(t, limits);
    const read = sendRead(pool);
    await open(0);
    await read;
    pool.hosts.check();
    await accept(1);
    await tick(100);
    assert.notEqual(pool.hosts.failure, undefined);
    assert.equal(pool.hosts.generation, 1, 'no earlier connection is used again');
    assert.deepEqual(destroyed, ['postgres://a', 'postgres://a'], 'the probe and the open connection');
  });

  it('keeps a host that completes a statement while it accepts no connection, as a busy pooler', async (t) => {
    const limits = { hosts, pingTimeoutMs: 100, statementTimeoutMs: 10_000 };
    const { pool, destroyed, tick, accept, open } = slowPool(t, limits);
    const first = sendRead(pool);
    await open(0);
    await first;
    const check = async () => {
      pool.hosts.check();
      await accept(-1);
    };
    await check();
    await sendRead(pool);
    await tick(100);
    assert.equal(pool.hosts.failure, undefined);
    assert.equal(destroyed.length, 1, 'only the probe is ended');
    await check();
    await tick(100);
    assert.notEqual(pool.hosts.failure, undefined, 'statements before the check do not count');
  });

  it('leaves a host that does not answer the first statement of a connection', async (t) => {
    const { pool, connects, destroyed, tick, accept } = slowPool(t, { hosts, statementTimeoutMs: 10_000 });
    const aborter = new AbortController();
    const read = sendRead(pool, aborter.signal);
    await accept(0);
    await tick(settings.waitTimeoutMs);
    assert.deepEqual(destroyed, ['postgres://a']);
    assert.equal(connects.length, 3, 'the search connects to both hosts');
    aborter.abort();
    await assert.rejects(read);
  });

  it('does not use a connection to an earlier host, or the result of its check, after a search', async (t) => {
    const { pool, connects, open } = slowPool(t, { hosts });
    const read = sendRead(pool);
    await settle();
    pool.hosts.check();
    await settle();
    const search = pool.hosts.recover();
    await settle();
    assert.equal(connects.length, 4, 'of the read, of the check, and of the probes of both hosts');
    await open(3);
    await search;
    connects[1]?.reject(fromSystem('ENOTFOUND'));
    await open(0);
    assert.equal(pool.hosts.failure, undefined);
    assert.equal(connects.length, 5, 'the read connects to the other host');
    await open(4);
    await read;
  });

  it('ends the probe of a host that hangs when a search has found another', async (t) => {
    const { pool, destroyed, open } = slowPool(t, { hosts });
    const search = pool.hosts.recover();
    await open(1);
    await search;
    await settle();
    assert.deepEqual(destroyed, ['postgres://a']);
  });

  it('keeps the probes of a search when it leaves a host that hangs', async (t) => {
    const { pool, destroyed, tick } = slowPool(t, { hosts, pingTimeoutMs: 100 });
    pool.hosts.check();
    pool.hosts.recover().catch(() => {});
    await settle();
    await tick(100);
    assert.deepEqual(destroyed, ['postgres://a'], 'only the check ends');
  });
});

describe('a write that a read-only PostgreSQL rejects', () => {
  /** A pool over one host. Connections remember whether the server was read-only when they were opened. */
  async function readOnlyPool(t: TestContext) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const server = { isReadOnly: true, failure: undefined as Error | undefined, opened: 0 };
    const createClient: CreateClient = (url) => {
      let isReadOnly = false;
      const client = fakeDriver(
        async ({ text }) => {
          if (text === 'write' && isReadOnly) throw rejection('25006');
          return { rows: [{ isReadOnly }] };
        },
        async () => {
          if (server.failure !== undefined) throw server.failure;
          server.opened += 1;
          isReadOnly = server.isReadOnly;
        },
      )(url);
      const setUp = async () => ({ rows: [{ ...session, read_only: isReadOnly ? 'on' : 'off' }] });
      const query = client.query.bind(client) as (sent: Statement) => Promise<object>;
      return Object.assign(client, {
        query: (sent: string | Statement) => (typeof sent === 'string' ? setUp() : query(sent)),
      });
    };
    const pool = poolOf(createClient, { ...settings, writable: false });
    const read = () => pool.read<{ isReadOnly: boolean }>({ text: 'read' }, []);
    await Promise.all(Array.from({ length: 10 }, read));
    assert.equal(server.opened, 10);
    /** Sends one write, and lets as much time pass as it needs. */
    const write = async () => {
      let isOver = false;
      const result = pool.write({ text: 'write' }, []).then(
        () => 'accepted',
        (error: Error) => error.message,
      );
      result.finally(() => {
        isOver = true;
      });
      for (; !isOver; await nextTurn()) {
        now += 10;
        t.mock.timers.tick(10);
      }
      return await result;
    };
    return { pool, server, read, write };
  }
  const rejected = 'the database takes no writes at present';

  it('closes no connection that serves reads, and opens at most one each 200 ms', async (t) => {
    const { pool, server, read, write } = await readOnlyPool(t);
    const since = performance.now();
    for (let i = 0; i < 20; i += 1) assert.equal(await write(), rejected);
    const results = await Promise.all(Array.from({ length: 20 }, write));
    assert.deepEqual(new Set(results), new Set([rejected]));
    const checks = server.opened - 10;
    assert.ok(
      checks >= 20 && checks <= 1 + (performance.now() - since) / 200,
      `${checks} connections in ${performance.now() - since} ms`,
    );
    await Promise.all(Array.from({ length: 10 }, read));
    assert.equal(server.opened, 10 + checks, 'the first connections are still open');
    await pool.close();
  });

  it('is sent to the server to which the address leads now, and all older connections are replaced', async (t) => {
    const { pool, server, read, write } = await readOnlyPool(t);
    assert.equal(await write(), rejected);
    server.isReadOnly = false;
    assert.equal(await write(), 'accepted');
    const rows = await Promise.all(Array.from({ length: 10 }, read));
    assert.ok(rows.flat().every(({ isReadOnly }) => !isReadOnly));
    await pool.close();
  });

  for (const [failure, keeps] of [
    [refusal('53300'), true],
    [new Error('connect ECONNREFUSED'), false],
  ] as const) {
    it(`${keeps ? 'keeps' : 'loses'} the older connections if a new one fails: ${failure.message}`, async (t) => {
      const { pool, server, read, write } = await readOnlyPool(t);
      server.failure = failure;
      assert.equal(await write(), keeps ? rejected : 'the database cannot be reached');
      if (keeps) await Promise.all(Array.from({ length: 10 }, read));
      await pool.close();
    });
  }
});

it('a statement without a result makes the pool check the host, and loses its connection at its limit', async (t) => {
  const hung = Promise.withResolvers<object>();
  const driver = fakeDriver(() => hung.promise);
  const pool = poolOf(driver, { ...settings, pingTimeoutMs: 500 });
  const check = t.mock.method(pool.hosts, 'check', () => undefined);
  const kill = t.mock.method(Connection.prototype, 'kill', () => hung.reject(new Error('lost')));
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const read = assert.rejects(sendRead(pool));
  await settle();
  // The server gets a second more to end the statement itself.
  const limitMs = settings.statementTimeoutMs + 1_000;
  for (const [ms, checks, kills] of [
    [499, 0, 0],
    [1, 1, 0],
    [limitMs - 501, 1, 0],
    [1, 1, 1],
  ] as const) {
    t.mock.timers.tick(ms);
    assert.deepEqual([check.mock.callCount(), kill.mock.callCount()], [checks, kills], `after ${ms} ms more`);
  }
  await read;
  await pool.close();
});

it('a ping without an answer makes the pool use none of its earlier connections again', async (t) => {
  const connect = t.mock.fn(async () => {});
  const { driver, statements } = heldDriver(connect);
  const pool = poolOf(driver, { ...settings, pingTimeoutMs: 1 });
  const read = async () => {
    const call = sendRead(pool);
    const before = statements.length;
    while (statements.length === before) await nextTurn();
    statements.at(-1)?.resolve({ rows: [] });
    await call;
  };
  await read();
  await assert.rejects(sendPing(pool), unavailable);
  const ping = statements.at(-1);
  await read();
  assert.equal(connect.mock.callCount(), 3);
  ping?.resolve({ rows: [] });
  await pool.close();
});

for (const [first, expected, effect] of [
  ['read', 2, 'ends no other connection if an earlier one completes a statement'],
  ['ping', 3, 'ends all connections if only a later one completes a statement'],
] as const) {
  it(`a ping without an answer ${effect}`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const aborter = new AbortController();
    t.mock.method(AbortSignal, 'timeout', () => aborter.signal);
    const connect = t.mock.fn(async () => {});
    const { driver, statements } = heldDriver(connect);
    const pool = poolOf(driver, settings);
    const start = async (kind: 'read' | 'ping') => {
      const call = kind === 'ping' ? pool.ping({ text: kind }) : pool.read({ text: kind }, []);
      const before = statements.length;
      while (statements.length === before) await nextTurn();
      return { call, end: () => statements[before]?.resolve({ rows: [] }) };
    };
    const one = await start(first);
    const other = await start(first === 'read' ? 'ping' : 'read');
    const [read, ping] = first === 'read' ? [one, other] : [other, one];
    read.end();
    await read.call;
    aborter.abort(new DOMException('', 'TimeoutError'));
    await assert.rejects(ping.call, unavailable);
    ping.end();
    const next = await start('read');
    next.end();
    await next.call;
    assert.equal(connect.mock.callCount(), expected);
    await pool.close();
  });
}

it('a ping without an answer is sent once more, on a new connection, if its own has worked before', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const limits: AbortController[] = [];
  t.mock.method(AbortSignal, 'timeout', () => {
    const limit = new AbortController();
    limits.push(limit);
    return limit.signal;
  });
  const connect = t.mock.fn(async () => {});
  const { driver, statements, answer } = heldDriver(connect);
  const pool = poolOf(driver, settings);
  const first = sendPing(pool);
  await settle();
  answer();
  await first;
  const second = assert.rejects(sendPing(pool), noAnswer);
  for (const sent of [2, 3]) {
    await settle();
    assert.deepEqual([statements.length, connect.mock.callCount()], [sent, sent - 1]);
    limits.at(-1)?.abort(new DOMException('', 'TimeoutError'));
  }
  await second;
  await settle();
  assert.equal(statements.length, 3);
  answer();
  await pool.close();
});

it('a ping ends no long call on a connection that may still work', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { driver, statements, answer } = heldDriver();
  const pool = poolOf(driver, settings);
  const calls = [sendRead(pool), sendWrite(pool)];
  await settle();
  t.mock.timers.tick(settings.pingTimeoutMs);
  const ping = sendPing(pool);
  await settle();
  statements.at(-1)?.resolve({ rows: [] });
  await ping;
  answer();
  await Promise.all(calls);
  await pool.close();
});

it('a ping uses an open connection if none of several hosts accepts another one, also after a failure', async () => {
  const room = roomFor(1);
  const driver = fakeDriver(
    async () => ({ rows: [] }),
    async (url) => {
      if (url === standby.url) throw new Error('takes no writes');
      await room.connect();
    },
  );
  const standby = { name: 'standby:5432', url: 'postgres://standby' };
  const pool = poolOf(driver, { ...settings, hosts: [...settings.hosts, standby] });
  await sendRead(pool);
  pool.hosts.failure = { cause: new Error('lost') };
  await sendPing(pool);
  await pool.close();
});

it('pings end the connection of a long read once, so it does not fail if the connection still works', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { driver, statements, answer } = heldDriver();
  const destroy = t.mock.fn(() => statements[0]?.reject(new Error('Connection terminated')));
  const create: CreateClient = (url) => Object.assign(driver(url), { connection: { stream: { destroy } } });
  const pool = poolOf(create, settings);
  const read = sendRead(pool);
  for (let round = 0; round < 2; round += 1) {
    await settle();
    t.mock.timers.tick(settings.pingTimeoutMs);
    // As if another connection was lost.
    pool.hosts.generation += 1;
    const ping = sendPing(pool);
    await settle();
    statements.at(-1)?.resolve({ rows: [] });
    await ping;
    assert.equal(destroy.mock.callCount(), 1);
  }
  answer();
  await read;
  await pool.close();
});

it('a ping whose answer has arrived, but is read after its time limit, ends no connection', async (t) => {
  const aborter = new AbortController();
  t.mock.method(AbortSignal, 'timeout', () => aborter.signal);
  const connect = t.mock.fn(async () => {});
  const { driver, statements, answer } = heldDriver(connect);
  const pool = poolOf(driver, settings);
  const read = sendRead(pool);
  await until(() => statements.length === 1, 'the read runs');
  answer();
  await read;
  const ping = sendPing(pool);
  await until(() => statements.length === 2, 'the ping runs');
  // As after a pause of the process: its timers run before it reads its sockets.
  setImmediate(answer);
  aborter.abort(new DOMException('', 'TimeoutError'));
  await assert.rejects(ping, noAnswer);
  const next = sendRead(pool);
  await until(() => statements.length === 3, 'the next read runs');
  answer();
  await next;
  assert.equal(connect.mock.callCount(), 2);
  await pool.close();
});

it('a statement that runs for 100 ms after its call was aborted loses its connection', async (t) => {
  const hung = Promise.withResolvers<object>();
  const driver = fakeDriver(() => hung.promise);
  const pool = poolOf(driver, settings);
  const kill = t.mock.method(Connection.prototype, 'kill', () => hung.reject(new Error('lost')));
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stop = new AbortController();
  const read = sendRead(pool, stop.signal);
  await settle();
  stop.abort();
  await assert.rejects(read, { kind: 'cancelled' });
  t.mock.timers.tick(99);
  assert.equal(kill.mock.callCount(), 0);
  t.mock.timers.tick(1);
  assert.equal(kill.mock.callCount(), 1);
  await pool.close();
});

it('the name of a prepared statement identifies its text, in every process', () => {
  assert.equal(prepared('SELECT 1').name, 'users-service-e004ebd5b5532a4b85984a62');
  assert.notEqual(prepared('SELECT 1').name, prepared('SELECT 2').name);
});
