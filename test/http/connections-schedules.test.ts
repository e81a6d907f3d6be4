import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Connection, connectionOf } from '../../src/http/connection.ts';
import { Connections } from '../../src/http/connections.ts';
import { MemoryBudget } from '../../src/http/memory-budget.ts';
import { scheduler } from '../../src/http/scheduler.ts';
import { until } from '../kit/until.ts';
import { countKept } from '../support/garbage.ts';
import { Scheduler, testSchedules } from '../support/scheduler.ts';

const max = 4;
const maxIdleMs = 3_000;
// A connection that has been idle for so long may be closed for a new one.
const minIdleMs = 100;
const maxRejectingAtOnce = 100;

const request = {} as NonNullable<Connection['running']>;

class FakeSocket extends EventEmitter {
  destroyed = false;
  paused = false;
  sent = '';
  writableLength = 0;
  /** Whether its client has closed it. */
  hasLeft = false;

  get writable(): boolean {
    return !this.destroyed;
  }

  get writableEnded(): boolean {
    return this.destroyed || this.sent !== '';
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit('close');
  }

  end(bytes: string): void {
    this.sent = bytes;
  }

  pause(): this {
    this.paused = true;
    return this;
  }

  resume(): this {
    this.paused = false;
    this.emit('resume');
    return this;
  }
}

/** A client that sends a few requests with pauses, and then may disconnect. Some read the end of a response slowly. */
async function live(scheduler: Scheduler, socket: FakeSocket): Promise<void> {
  const connection = connectionOf(socket as unknown as Socket);
  for (let requests = scheduler.random.below(4); requests > 0 && !socket.destroyed; requests -= 1) {
    connection.running = request;
    await scheduler.sleep(scheduler.random.below(maxIdleMs * 3));
    connection.running = undefined;
    connection.idleSince = scheduler.now;
    assert.ok(!socket.destroyed, 'a busy connection was closed');
    socket.writableLength = scheduler.random.below(2);
    await scheduler.sleep(scheduler.random.below(maxIdleMs));
    assert.ok(!socket.destroyed || socket.writableLength === 0, 'a connection lost the end of its response');
    socket.writableLength = 0;
  }
  if (!scheduler.oneIn(2)) return;
  socket.hasLeft = !socket.destroyed;
  socket.destroy();
}

it('each connection of a burst replaces an idle one, although many of them are not read yet', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const server = new EventEmitter();
  new Connections(server as unknown as Server, 300, ({ type }) => {
    assert.equal(type, 'warning', 'a connection was rejected while another was idle');
  });
  const sockets = Array.from({ length: 550 }, () => new FakeSocket().pause());
  const accept = (from: number, to?: number) =>
    sockets.slice(from, to).map((socket) => server.emit('connection', socket));
  accept(0, 300);
  while (sockets.slice(0, 300).some(({ paused }) => paused)) await nextTurn();
  now = minIdleMs;
  accept(300);
  await nextTurn();
});

it('a connection that was not read yet is not closed for a new one', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const server = new EventEmitter();
  let rejected = 0;
  const connections = new Connections(server as unknown as Server, 1, ({ type }) => {
    if (type === 'refused') rejected += 1;
  });
  const connect = (): FakeSocket => {
    const socket = new FakeSocket().pause();
    server.emit('connection', socket);
    now += minIdleMs;
    return socket;
  };
  const unread = connect();
  const others = [connect(), connect()];
  await nextTurn();
  assert.equal(rejected, 2);
  assert.deepEqual(connections.sockets, [unread, ...others]);
  while (unread.paused) await nextTurn();
  now += minIdleMs;
  const newest = connect();
  await nextTurn();
  assert.deepEqual([unread.destroyed, rejected], [true, 2]);
  for (const socket of [newest, ...others]) socket.destroy();
  assert.deepEqual(connections.sockets, []);
});

it('an idle connection whose request has arrived together with a new connection is not closed for it', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const server = new EventEmitter();
  const connections = new Connections(server as unknown as Server, 2, () => undefined);
  const sockets = Array.from({ length: 4 }, () => new FakeSocket().pause());
  const [first, second, third, fourth] = sockets;
  /** The event loop accepts the connection, then reads the request of another one. */
  const connectBefore = async (requesting: FakeSocket | undefined, socket: FakeSocket | undefined) => {
    server.emit('connection', socket);
    connectionOf(requesting as unknown as Socket).running = request;
    await nextTurn();
  };
  for (const socket of [first, second]) server.emit('connection', socket);
  while (first?.paused || second?.paused) await nextTurn();
  now += minIdleMs;
  await connectBefore(second, third);
  // It has replaced the other one.
  assert.deepEqual([first?.destroyed, second?.destroyed], [true, false]);
  while (third?.paused) await nextTurn();
  now += minIdleMs;
  await connectBefore(third, fourth);
  assert.deepEqual([third?.destroyed, fourth?.sent.slice(0, 13)], [false, 'HTTP/1.1 503 ']);
  assert.deepEqual(connections.sockets, [second, third, fourth]);
});

it('with TLS, a connection that is reset while it waits for a place does not end the process', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
  const connections = new Connections(server as unknown as Server, 1, () => undefined);
  const [first, second] = [new FakeSocket(), new FakeSocket()];
  server.emit('connection', first);
  now += minIdleMs;
  server.emit('connection', second);
  second.emit('error', new Error('ECONNRESET'));
  second.destroy();
  await nextTurn();
  assert.deepEqual(connections.sockets, [first]);
});

it('a hundred rejected connections at once get a response, and further ones are closed', async (t) => {
  const server = new EventEmitter();
  // Otherwise, on a slow machine, the first connection is idle for long enough to be replaced.
  t.mock.method(performance, 'now', () => 0);
  t.mock.timers.enable({ apis: ['setInterval'] });
  const connections = new Connections(server as unknown as Server, 1, () => undefined);
  const sockets = Array.from({ length: 3 + maxRejectingAtOnce }, () => new FakeSocket());
  for (const socket of sockets) server.emit('connection', socket);
  await nextTurn();
  const [accepted, ...others] = sockets;
  const rejected = others.slice(0, maxRejectingAtOnce);
  assert.deepEqual(connections.sockets, [accepted, ...rejected]);
  assert.ok(rejected.every(({ sent, destroyed }) => sent.startsWith('HTTP/1.1 503 ') && !destroyed));
  assert.deepEqual(
    others.slice(maxRejectingAtOnce).map(({ sent, destroyed }) => [sent, destroyed]),
    [
      ['', true],
      ['', true],
    ],
  );
});

testSchedules(
  'a server accepts connections up to its maximum, and closes only those that are idle',
  async (scheduler) => {
    // With TLS, the server counts a connection as soon as it is accepted.
    const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
    const taken = new Set<FakeSocket>();
    server.on('connection', (socket: FakeSocket) => {
      taken.add(socket);
      assert.ok(taken.size <= max, 'more connections are open than the maximum');
      socket.on('close', () => taken.delete(socket));
    });
    let warnings = 0;
    const waitedMs = (socket: FakeSocket) => {
      const { running, idleSince } = connectionOf(socket as unknown as Socket);
      return running || socket.writableLength > 0 ? 0 : scheduler.now - idleSince;
    };
    const isReplaceable = (socket: FakeSocket) => waitedMs(socket) >= minIdleMs;
    const connections = new Connections(server as unknown as Server, max, ({ type }) => {
      if (type === 'warning') warnings += 1;
      else {
        assert.equal(taken.size, max, 'a connection was rejected below the maximum');
        assert.ok(![...taken].some(isReplaceable), 'a connection was rejected while another was idle');
      }
    });
    const burst = 2 + scheduler.random.below(8);
    const sockets: FakeSocket[] = [];
    const lives: Promise<void>[] = [];
    for (let i = 0; i < burst; i += 1) {
      const socket = new FakeSocket();
      sockets.push(socket);
      const full = taken.size === max;
      const others = [...taken];
      const replaceable = others.filter(isReplaceable);
      const states = replaceable.map((one) => connectionOf(one as unknown as Socket));
      const waitingSince = states.map((state) => state.waitingSince);
      server.emit('connection', socket);
      // A connection is closed for a new one at the end of the turn, unless there is room or it is no longer idle.
      await nextTurn();
      const closed = others.filter(({ destroyed, hasLeft }) => destroyed && !hasLeft);
      const areSame = states.every(
        (state, n) => state.waitingSince === waitingSince[n] || replaceable[n]?.destroyed,
      );
      if (areSame && !others.some(({ hasLeft }) => hasLeft)) {
        assert.equal(closed.length, Number(taken.has(socket) && full), 'not one idle connection was closed');
        const longest = Math.min(...waitingSince);
        // A client that has waited longer may have read the end of its response only meanwhile.
        for (const one of replaceable.length > 0 ? closed : [])
          assert.ok(
            connectionOf(one as unknown as Socket).idleSince <= longest,
            'another one had waited longer',
          );
      } else assert.ok(closed.length <= Number(full), 'more than one idle connection was closed');
      if (taken.has(socket)) {
        server.emit('secureConnection', socket);
        lives.push(live(scheduler, socket));
      }
      if (scheduler.oneIn(2)) await scheduler.sleep(scheduler.random.below(minIdleMs * 2));
    }
    await Promise.all(lives);
    assert.ok(warnings <= 1, 'the warning was repeated within a minute');
    for (const socket of sockets) socket.destroy();
    assert.deepEqual(connections.sockets, []);
  },
);

it('a search for an idle connection continues where the last one has ended', async (t) => {
  let now = 1_000;
  t.mock.method(performance, 'now', () => now);
  const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
  new Connections(server as unknown as Server, 150, () => undefined);
  const sockets = Array.from({ length: 152 }, () => new FakeSocket());
  for (const [i, socket] of sockets.entries()) {
    if (i === 150) now += minIdleMs;
    server.emit('connection', socket);
    if (i < 100) connectionOf(socket as unknown as Socket).running = request;
  }
  await nextTurn();
  // One of the idle connections was closed for the last one.
  assert.deepEqual(
    [sockets.slice(100, 150), sockets.slice(150)].map(
      (some) => some.filter(({ destroyed }) => destroyed).length,
    ),
    [1, 1],
  );
  assert.equal(sockets[150]?.destroyed, true);
});

it('with TLS, a connection waits for its first request from the end of its handshake', (t) => {
  let now = 1_000;
  t.mock.method(performance, 'now', () => now);
  const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
  new Connections(server as unknown as Server, max, () => undefined);
  const socket = new FakeSocket();
  server.emit('keylog', Buffer.from('CLIENT_HANDSHAKE_TRAFFIC_SECRET'), socket);
  now += maxIdleMs;
  server.emit('secureConnection', socket);
  assert.equal(connectionOf(socket as unknown as Socket).idleSince, now);
});

it('a connection that is closing makes room for only one new connection', async (t) => {
  let now = 1_000;
  t.mock.method(performance, 'now', () => now);
  const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
  new Connections(server as unknown as Server, 1, () => undefined);
  // As a real one, it emits `close` in a later turn.
  const state = { writable: true, writableLength: 0, destroy: () => undefined };
  const idle = Object.assign(new EventEmitter(), state);
  idle.destroy = () => {
    idle.writable = false;
  };
  const [first, second] = [new FakeSocket(), new FakeSocket()];
  server.emit('connection', idle);
  now += minIdleMs;
  for (const socket of [first, second]) server.emit('connection', socket);
  await nextTurn();
  assert.deepEqual([first.destroyed, second.destroyed], [false, true]);
});

it('at a stop, an idle connection is closed, but not one that has ended and reads the rest of its client', (t) => {
  t.mock.method(performance, 'now', () => 0);
  const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
  const connections = new Connections(server as unknown as Server, 0, () => undefined);
  const [idle, ended] = [new FakeSocket(), new FakeSocket()];
  Object.defineProperty(ended, 'writable', { value: false });
  for (const socket of [idle, ended]) server.emit('connection', socket);
  connections.closeIdle(0);
  assert.deepEqual([idle.destroyed, ended.destroyed], [true, false]);
});

testSchedules(
  'pipelined requests of a connection run one at a time, in order, and none after it has closed',
  async (scheduler) => {
    const memory = new MemoryBudget(() => undefined, 0, 100_000_000);
    const serve = async (socket: FakeSocket) => {
      const connection = connectionOf(socket as unknown as Socket);
      const count = 1 + scheduler.random.below(30);
      let [running, last, isLeft] = [0, -1, false];
      const ended: Promise<void>[] = [];
      const responses: EventEmitter[] = [];
      const start = async (id: number) => {
        assert.equal(running, 0, 'two requests run at a time');
        assert.equal(id, last + 1, 'the requests run out of order');
        assert.ok(!socket.destroyed, 'a request started after the end of its connection');
        [running, last, connection.running] = [1, id, request];
        await scheduler.turn();
        [running, connection.running] = [0, undefined];
        if (!socket.destroyed) responses.shift()?.emit('socket');
      };
      for (let id = 0; id < count && !isLeft; id += 1) {
        if (!connection.running) ended.push(start(id));
        else {
          const req = { headers: {}, rawHeaders: [] };
          const response = Object.assign(new EventEmitter(), { req });
          responses.push(response);
          const waiting = response as unknown as ServerResponse;
          connection.wait(waiting, memory, () => void ended.push(start(id)));
        }
        const isRead = !socket.paused;
        assert.ok(
          !isRead || responses.length <= 16,
          'a connection with too many waiting requests is still read',
        );
        if (scheduler.oneIn(6)) await scheduler.turn();
        isLeft = scheduler.oneIn(20);
      }
      if (isLeft) socket.destroy();
      for (let i = 0; i < ended.length; i += 1) await ended[i];
    };
    await Promise.all(Array.from({ length: 1 + scheduler.random.below(3) }, () => serve(new FakeSocket())));
  },
);

it('connections that have closed are not kept in memory, also after a search for an idle one', async () => {
  const server = Object.assign(new EventEmitter(), { setSecureContext: () => undefined });
  const connections = new Connections(server as unknown as Server, 50, () => undefined);
  // V8 replaces the table of a `Set` as it grows and shrinks. Each table points to the next one.
  const openAndClose = async (count: number): Promise<WeakRef<FakeSocket>[]> => {
    const sockets = Array.from({ length: count }, () => new FakeSocket());
    for (const socket of sockets) {
      server.emit('connection', socket);
      connectionOf(socket as unknown as Socket).idleSince = Number.NEGATIVE_INFINITY;
    }
    await nextTurn();
    assert.equal(connections.count, Math.min(count, 50));
    for (const socket of sockets) socket.destroy();
    return sockets.map((socket) => new WeakRef(socket));
  };
  const closed: WeakRef<FakeSocket>[] = [];
  for (const count of [40, 60, 40]) closed.push(...(await openAndClose(count)));
  assert.deepEqual(connections.sockets, []);
  assert.equal(await countKept(closed), 0);
});

it('turns that an earlier test has left continue in real time while a schedule runs', async () => {
  let left = 50;
  const take = (): void => {
    left -= 1;
    if (left > 0) scheduler.addConnection(take);
  };
  scheduler.addConnection(take);
  await new Scheduler(1).run(async (simulated) => {
    for (let turn = 0; turn < 10; turn += 1) await simulated.turn();
  });
  await until(() => left === 0, 'the turns continue');
});
