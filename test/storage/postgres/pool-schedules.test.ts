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

/** A server that rejects statements and further connections, hangs and loses connections, and counts the effects of each write. */
class FakeServer {
  readonly scheduler: Scheduler;
  readonly effects = new Map<unknown, number>();
  open = 0;
  /** How many connections it allows. */
  room: number;
  /** Whether it completes every statement. */
  isCalm = false;
  /** What the pool did wrong. The pool would take a thrown error for one of the server. */
  readonly violations: string[] = [];
  /** The number of writes that run, and the highest so far. */
  writes = 0;
  mostWrites = 0;

  constructor(scheduler: Scheduler) {
    this.scheduler = scheduler;
    this.room = scheduler.oneIn(2) ? 1 : Number.POSITIVE_INFINITY;
  }

  require(isRight: boolean, violation: string): void {
    if (!isRight) this.violations.push(violation);
  }
}

class FakeClient extends EventEmitter {
  readonly host = 'host';
  readonly port = 5432;
  readonly connection = { stream: { destroy: () => this.lose() } };
  readonly #server: FakeServer;
  isLost = false;
  #fail: ((error: Error) => void) | undefined;

  constructor(server: FakeServer) {
    super();
    this.#server = server;
  }

  async connect(): Promise<void> {
    this.#server.open += 1;
    this.#server.require(this.#server.open <= most, 'too many connections are open');
    await this.#server.scheduler.turn();
    if (this.isLost) throw new Error('Connection terminated');
    const { open, room, scheduler } = this.#server;
    if (open === 1 || (open <= room && !scheduler.oneIn(6))) return;
    await this.end();
    throw Object.assign(new Error('too many connections'), { code: '53300', severity: 'FATAL' });
  }

  async end(): Promise<void> {
    if (this.isLost) return;
    this.#server.require(this.#fail === undefined, 'a connection in use is closed');
    this.isLost = true;
    this.#server.open -= 1;
    this.emit('end');
  }

  /** Simulates a connection that the network or the server ends. */
  lose(): void {
    if (this.isLost) return;
    this.isLost = true;
    this.#server.open -= 1;
    const error = new Error('Connection terminated');
    this.emit('error', error);
    this.#fail?.(error);
    this.emit('end');
  }

  query(
    statement: string | { readonly text: string; readonly values: readonly unknown[] },
  ): Promise<{ rows: object[] }> {
    const server = this.#server;
    server.require(this.#fail === undefined, 'a connection serves two calls at a time');
    if (this.isLost) return Promise.reject(new Error('Client has encountered a connection error'));
    const { scheduler, effects } = server;
    const writes = typeof statement !== 'string' && statement.text === 'write' ? 1 : 0;
    server.writes += writes;
    server.mostWrites = Math.max(server.mostWrites, server.writes);
    server.require(server.writes < poolSize, 'no connection is left to reads');
    return new Promise<{ rows: object[] }>((resolve, reject) => {
      this.#fail = reject;
      scheduler.soon(() => {
        if (typeof statement === 'string') return resolve({ rows: [session] });
        const [id] = statement.values;
        const fate = server.isCalm ? 6 : scheduler.random.below(12);
        const code = refusals[fate];
        if (code !== undefined) reject(Object.assign(new Error(code), { code, severity: 'ERROR' }));
        // The statement has no effect and no response, so the watchdog ends it.
        else if (fate === 4) return undefined;
        else {
          effects.set(id, (effects.get(id) ?? 0) + 1);
          if (fate === 5) this.lose();
          else resolve({ rows: [{ id }] });
        }
        return undefined;
      });
    }).finally(() => {
      server.writes -= writes;
      this.#fail = undefined;
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
      const other = scheduler.random.below(8);
      if (other === 0) calls.push(pool.ping({ text: 'ping' }).catch(() => undefined));
      else if (other === 1)
        calls.push(pool.read({ text: 'feed' }, [], undefined, 'feed').catch(() => undefined));
      else calls.push(call(id));
      if (scheduler.oneIn(3)) await scheduler.turn();
    }
    await Promise.all(calls);
    // A server that works serves both kinds of calls again, however few connections it allows.
    server.isCalm = true;
    for (const kind of ['read', 'write'] as const) {
      const isServed = () => pool[kind]({ text: kind }, [kind]).then(Boolean, () => false);
      while (!(await isServed())) await scheduler.sleep(100);
    }
    server.isCalm = false;
    // The writes have released all that they may use.
    server.room = Number.POSITIVE_INFINITY;
    server.mostWrites = 0;
    while (server.mostWrites < poolSize - 1) {
      await Promise.allSettled(
        Array.from({ length: poolSize }, () => pool.write({ text: 'write' }, ['last'])),
      );
    }
    await pool.close();
    assert.deepEqual(server.violations, []);
    assert.equal(server.open, 0, 'a connection was not closed');
  },
);
