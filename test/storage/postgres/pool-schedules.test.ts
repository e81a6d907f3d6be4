import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Client } from 'pg';
import { DomainError } from '../../../src/domain/errors.ts';
import { feedConnections } from '../../../src/storage/postgres/pool.ts';
import { type Scheduler, testSchedules } from '../../support/scheduler.ts';
import { settings as fake, poolOf, session } from './fake-session.ts';

const poolSize = 3;
const maxWaiting = 4;
const timeouts = { waitTimeoutMs: 100, statementTimeoutMs: 200, pingTimeoutMs: 50 };
// Also one for pings, one for a search, and one for a check of the host.
const most = poolSize + feedConnections + 3;
const settings = { ...fake, ...timeouts, poolSize, maxWaiting };
/** Errors without an effect: a deadlock, a read-only server, a lost prepared statement, a permanent error. */
const refusals = ['40P01', '25006', '26000', '22012'];

/**
 * A server that rejects statements and further connections, hangs and loses connections, also without notice, and counts
 * the effects of each write.
 */
class FakeServer {
  readonly scheduler: Scheduler;
  readonly effects = new Map<unknown, number>();
  readonly clients = new Set<FakeClient>();
  /** How many connections it allows. */
  room: number;
  /** Whether it completes every statement. */
  isCalm = false;
  /** Whether the network loses all packets. */
  isDown = false;
  /** What the pool did wrong. The pool would take a thrown error for one of the server. */
  readonly violations: string[] = [];
  /** The highest numbers of reads and writes that ran so far. */
  readonly most = { read: 0, write: 0 };

  constructor(scheduler: Scheduler) {
    this.scheduler = scheduler;
    this.room = scheduler.oneIn(2) ? 1 : Number.POSITIVE_INFINITY;
  }

  require(isRight: boolean, violation: string): void {
    if (!isRight) this.violations.push(violation);
  }

  /** Checks the limits. Connections that a ping would take for lost do not count. */
  check(): void {
    const live = [...this.clients].filter((one) => !one.isQuiet());
    this.require(live.length <= most, 'too many connections are open');
    for (const kind of ['read', 'write'] as const) {
      const count = live.filter(({ running }) => running === kind).length;
      this.most[kind] = Math.max(this.most[kind], count);
    }
    this.require(this.most.read <= poolSize, 'too many reads run');
    this.require(this.most.write < poolSize, 'no connection is left to reads');
  }

  /** Simulates a network that loses all open connections without notice, and for some time also new ones. */
  async cutOff(): Promise<void> {
    for (const client of this.clients) client.isCutOff = true;
    this.isDown = this.scheduler.oneIn(2);
    await this.scheduler.sleep(this.scheduler.random.below(300));
    this.isDown = false;
    await this.scheduler.sleep(this.scheduler.random.below(2_000));
    for (const client of this.clients) client.resume();
  }
}

class FakeClient extends EventEmitter {
  readonly host = 'host';
  readonly port = 5432;
  readonly connection = { stream: { destroy: () => this.lose() } };
  readonly #server: FakeServer;
  isLost = false;
  isCutOff: boolean;
  running: string | undefined;
  #sentAt = 0;
  #fail: ((error: Error) => void) | undefined;
  /** The packets that the network holds back. */
  #held: (() => void)[] = [];

  constructor(server: FakeServer) {
    super();
    this.#server = server;
    this.isCutOff = server.isDown;
  }

  isQuiet(): boolean {
    const { now } = this.#server.scheduler;
    return this.isCutOff || (this.running !== undefined && now - this.#sentAt >= timeouts.pingTimeoutMs);
  }

  resume(): void {
    this.isCutOff = false;
    for (const deliver of this.#held.splice(0)) this.#send(deliver);
  }

  #send(deliver: () => void): void {
    this.#server.scheduler.soon(() => {
      if (this.isCutOff) this.#held.push(deliver);
      else if (!this.isLost) deliver();
    });
  }

  /** Waits for an answer of the server, or for the end of the connection. */
  async #request<T>(run: (resolve: (answer: T) => void, reject: (error: Error) => void) => void): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#fail = reject;
    this.#send(() => run(resolve, reject));
    return await promise.finally(() => {
      this.#fail = undefined;
      this.running = undefined;
    });
  }

  async connect(): Promise<void> {
    const server = this.#server;
    server.clients.add(this);
    server.check();
    await this.#request<void>((resolve) => resolve());
    const { clients, room, scheduler } = server;
    if (clients.size === 1 || (clients.size <= room && !scheduler.oneIn(6))) return;
    await this.end();
    throw Object.assign(new Error('too many connections'), { code: '53300', severity: 'FATAL' });
  }

  async end(): Promise<void> {
    if (this.isLost) return;
    this.#server.require(this.#fail === undefined, 'a connection in use is closed');
    if (this.isCutOff) await new Promise((resolve) => this.once('end', resolve));
    else this.#leave();
  }

  #leave(): void {
    this.isLost = true;
    this.#server.clients.delete(this);
    this.emit('end');
  }

  /** Simulates a connection that the network or the server ends. */
  lose(): void {
    if (this.isLost) return;
    const error = new Error('Connection terminated');
    this.emit('error', error);
    this.#fail?.(error);
    this.#leave();
  }

  async query(
    statement: string | { readonly text: string; readonly values: readonly unknown[] },
  ): Promise<{ rows: object[] }> {
    const server = this.#server;
    const { scheduler, effects } = server;
    server.require(this.#fail === undefined, 'a connection serves two calls at a time');
    server.require(!this.isLost, 'a call got a lost connection');
    if (typeof statement === 'string') return this.#request((resolve) => resolve({ rows: [session] }));
    const { text, values } = statement;
    const [id] = values;
    this.running = text;
    this.#sentAt = scheduler.now;
    server.check();
    return this.#request((resolve, reject) => {
      const fate = server.isCalm ? 7 : scheduler.random.below(13);
      const code = refusals[fate];
      if (code !== undefined) return reject(Object.assign(new Error(code), { code, severity: 'ERROR' }));
      // The statement has no effect and no response, so the watchdog ends it.
      if (fate === 4) return;
      effects.set(id, (effects.get(id) ?? 0) + 1);
      if (fate === 5) return this.lose();
      const respond = () => resolve({ rows: [{ id }] });
      // The network may lose the connection after the statement has taken effect.
      if (fate === 6) this.#send(respond);
      else respond();
    });
  }
}

const standby = { name: 'standby:5432', url: 'postgres://standby' };
const rejecting = () =>
  Object.assign(new EventEmitter(), {
    connect: () => Promise.reject(new Error('takes no writes')),
    end: async () => {},
  });

testSchedules(
  'each call of the pool ends, a write has at most one effect, and every connection is closed',
  async (scheduler) => {
    const server = new FakeServer(scheduler);
    const createClient = (url: string) =>
      (url === standby.url ? rejecting() : new FakeClient(server)) as unknown as Client;
    const hosts = scheduler.oneIn(2) ? settings.hosts : ([...settings.hosts, standby] as const);
    const pool = poolOf(createClient, { ...settings, hosts });
    const under = { read: 0, write: 0 };
    const call = async (id: number) => {
      const kind = scheduler.oneIn(2) ? 'write' : 'read';
      const isWrite = kind === 'write';
      const leaves = !isWrite && scheduler.oneIn(3) ? new AbortController() : undefined;
      if (leaves !== undefined) scheduler.soon(() => leaves.abort(new DOMException('left', 'AbortError')));
      const isFull = under[kind] >= poolSize + maxWaiting;
      under[kind] += 1;
      try {
        const sql = { text: kind };
        const result = isWrite ? pool.write(sql, [id]) : pool.read(sql, [id], leaves?.signal);
        assert.deepEqual(await result, [{ id }]);
        if (isWrite) assert.equal(server.effects.get(id), 1, 'an acknowledged write must have one effect');
      } catch (caught) {
        if (!(caught instanceof DomainError)) throw caught;
        if (isFull) assert.ok(['overloaded', 'unavailable'].includes(caught.kind), caught.message);
      } finally {
        under[kind] -= 1;
      }
      if (isWrite)
        assert.ok((server.effects.get(id) ?? 0) <= 1, 'a write that may have been executed was sent again');
    };
    const calls: Promise<unknown>[] = [];
    for (let id = 0; id < 2 + scheduler.random.below(12); id += 1) {
      const other = scheduler.random.below(10);
      if (other === 0) calls.push(pool.ping({ text: 'ping' }).catch(() => undefined));
      else if (other === 1)
        calls.push(pool.read({ text: 'feed' }, [], undefined, 'feed').catch(() => undefined));
      else if (other === 2) calls.push(server.cutOff());
      else calls.push(call(id));
      if (scheduler.oneIn(3)) await scheduler.turn();
      if (scheduler.oneIn(8)) await scheduler.sleep(scheduler.random.below(100));
    }
    let isOver = false;
    const ping = () => pool.ping({ text: 'ping' });
    const pinging = async () => {
      for (; !isOver; await scheduler.sleep(20 + scheduler.random.below(200))) await ping().catch(() => {});
    };
    const pings = scheduler.oneIn(2) ? pinging() : undefined;
    await Promise.all(calls);
    isOver = true;
    await pings;
    // A server that works serves all kinds of calls again, however few connections it allows.
    server.isCalm = true;
    const isServed = (sent: Promise<unknown>) => sent.then(() => true).catch(() => false);
    const sends = [() => pool.read({ text: 'read' }, []), () => pool.write({ text: 'write' }, []), ping];
    for (const send of sends) while (!(await isServed(send()))) await scheduler.sleep(100);
    server.isCalm = false;
    // The calls have released all that they may use.
    server.room = Number.POSITIVE_INFINITY;
    for (const [kind, highest] of [
      ['read', poolSize],
      ['write', poolSize - 1],
    ] as const) {
      server.most[kind] = 0;
      while (server.most[kind] < highest) {
        await Promise.allSettled(
          Array.from({ length: poolSize }, () => pool[kind]({ text: kind }, ['last'])),
        );
      }
    }
    await pool.close();
    assert.deepEqual(server.violations, []);
    assert.equal(server.clients.size, 0, 'a connection was not closed');
  },
);
