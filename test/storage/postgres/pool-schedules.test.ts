import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Pool } from 'pg';
import { DomainError } from '../../../src/domain/errors.ts';
import { PostgresPool } from '../../../src/storage/postgres/pool.ts';
import { type Scheduler, testSchedules } from '../../support/scheduler.ts';
import { settings as fake, session } from './fake-session.ts';

const poolSize = 3;
const maxWaiting = 4;
const settings = {
  ...fake,
  poolSize,
  maxWaiting,
  waitTimeoutMs: 100,
  statementTimeoutMs: 200,
  pingTimeoutMs: 50,
};
/** Errors without an effect: a deadlock, a read-only server, a lost prepared statement, a permanent error. */
const refusals = ['40P01', '25006', '26000', '22012'];

/** A server that rejects statements, hangs and loses connections, and counts the effects of each write. */
class FakeServer {
  readonly effects = new Map<unknown, number>();
  inUse = 0;
  open = 0;
  readonly #scheduler: Scheduler;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  readonly createPool = ({ max = 1, connectionTimeoutMillis = 0 }): Pool => {
    const scheduler = this.#scheduler;
    const idle: FakeClient[] = [];
    const waiting: ((client: FakeClient) => void)[] = [];
    let clients = 0;
    const release = (client: FakeClient, isBroken: boolean) => {
      assert.ok(client.isOut, 'a connection was released twice');
      client.isOut = false;
      this.inUse -= 1;
      if (!isBroken && !client.isLost) idle.push(client);
      else {
        client.lose();
        clients -= 1;
      }
      serve();
    };
    const serve = () => {
      while (waiting.length > 0 && (idle.length > 0 || clients < max)) {
        const take = waiting.shift();
        const client = idle.pop();
        if (client !== undefined) take?.(client);
        else {
          clients += 1;
          assert.ok(clients <= max, 'too many connections are open');
          scheduler.soon(() => {
            const made = new FakeClient(scheduler, this.effects, release);
            pool.emit('connect', made);
            take?.(made);
          });
        }
      }
    };
    const connect = () =>
      new Promise<FakeClient>((resolve, reject) => {
        const take = (client: FakeClient) => {
          clearTimeout(timer);
          client.isOut = true;
          this.inUse += 1;
          resolve(client);
        };
        const timer = setTimeout(() => {
          const place = waiting.indexOf(take);
          if (place < 0) return;
          waiting.splice(place, 1);
          reject(new Error('timeout exceeded when trying to connect'));
        }, connectionTimeoutMillis);
        waiting.push(take);
        serve();
      });
    const pool = Object.assign(new EventEmitter(), {
      connect,
      // Resolves when every connection is released.
      async end() {
        while (clients > idle.length) await scheduler.sleep(1);
      },
      options: {},
      get idleCount() {
        return idle.length;
      },
      get waitingCount() {
        return waiting.length;
      },
    });
    return pool as unknown as Pool;
  };
}

class FakeClient extends EventEmitter {
  readonly host = 'host';
  readonly port = 5432;
  readonly connection = { stream: { destroy: () => this.lose() } };
  readonly release: (isBroken?: boolean) => void;
  isOut = false;
  isLost = false;
  readonly #scheduler: Scheduler;
  readonly #effects: Map<unknown, number>;
  #fail: ((error: Error) => void) | undefined;

  constructor(
    scheduler: Scheduler,
    effects: Map<unknown, number>,
    release: (client: FakeClient, isBroken: boolean) => void,
  ) {
    super();
    this.#scheduler = scheduler;
    this.#effects = effects;
    this.release = (isBroken = false) => release(this, isBroken);
  }

  /** Simulates a connection that the network or the server ends. */
  lose(): void {
    if (this.isLost) return;
    this.isLost = true;
    const error = new Error('Connection terminated');
    this.emit('error', error);
    this.#fail?.(error);
  }

  query(statement: string | { readonly values: readonly unknown[] }): Promise<{ rows: object[] }> {
    assert.ok(this.isOut && this.#fail === undefined, 'a connection serves two calls at a time');
    if (this.isLost) return Promise.reject(new Error('Client has encountered a connection error'));
    const scheduler = this.#scheduler;
    return new Promise<{ rows: object[] }>((resolve, reject) => {
      this.#fail = reject;
      scheduler.soon(() => {
        if (typeof statement === 'string') return resolve({ rows: [session] });
        const [id] = statement.values;
        const fate = scheduler.random.below(12);
        const code = refusals[fate];
        if (code !== undefined) reject(Object.assign(new Error(code), { code, severity: 'ERROR' }));
        // The statement has no effect and no response, so the watchdog ends it.
        else if (fate === 4) return undefined;
        else {
          this.#effects.set(id, (this.#effects.get(id) ?? 0) + 1);
          if (fate === 5) this.lose();
          else resolve({ rows: [{ id }] });
        }
        return undefined;
      });
    }).finally(() => {
      this.#fail = undefined;
    });
  }
}

testSchedules(
  'each call of the pool ends, a write has at most one effect, and every connection is released',
  async (scheduler) => {
    const server = new FakeServer(scheduler);
    const createClient = () => assert.fail('there must be no search with one host');
    const pool = new PostgresPool({ createPool: server.createPool, createClient }, settings, () => undefined);
    let under = 0;
    const call = async (id: number) => {
      const isWrite = scheduler.oneIn(2);
      const leaves = !isWrite && scheduler.oneIn(3) ? new AbortController() : undefined;
      if (leaves !== undefined) scheduler.soon(() => leaves.abort(new DOMException('left', 'AbortError')));
      const isFull = under >= poolSize + maxWaiting;
      under += 1;
      try {
        const sql = { text: 'a statement' };
        const result = isWrite ? pool.write(sql, [id]) : pool.read(sql, [id], leaves?.signal);
        assert.deepEqual(await result, [{ id }]);
        if (isWrite) assert.equal(server.effects.get(id), 1, 'an acknowledged write must have one effect');
      } catch (caught) {
        if (!(caught instanceof DomainError)) throw caught;
        if (isFull) assert.ok(['overloaded', 'unavailable'].includes(caught.kind), caught.message);
      } finally {
        under -= 1;
      }
      if (isWrite)
        assert.ok((server.effects.get(id) ?? 0) <= 1, 'a write that may have been executed was sent again');
    };
    const calls: Promise<unknown>[] = [];
    for (let id = 0; id < 2 + scheduler.random.below(12); id += 1) {
      calls.push(scheduler.oneIn(8) ? pool.ping({ text: 'ping' }).catch(() => undefined) : call(id));
      if (scheduler.oneIn(3)) await scheduler.turn();
    }
    await Promise.all(calls);
    await pool.close();
    assert.equal(server.inUse, 0, 'a connection was not released');
  },
);
