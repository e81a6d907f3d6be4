import { hash } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { PoolClient, QueryResultRow } from 'pg';
import { aborted } from '../../domain/errors.ts';
import type { Connection } from './connection.ts';
import { type Call, Connections, type Driver, type PoolSettings } from './connections.ts';
import { type Fault, faultOf, notInTime, toDomainError } from './errors.ts';
import type { Host } from './hosts.ts';
import { unlessAborted, type Warn } from './session.ts';

/** A statement. If it has a name, each connection parses it once. */
export interface Sql {
  readonly name?: string;
  readonly text: string;
}

/**
 * A statement that each connection parses once. Its name is a hash of the text, so that behind a pooler with shared
 * sessions a name never means the statement of another release.
 */
export function prepared(text: string): Sql {
  return { name: `users-service-${hash('sha256', text).slice(0, 24)}`, text };
}

/** Sends a statement and resolves to its rows. */
export type Send = <Row extends QueryResultRow>(sql: Sql, values?: readonly unknown[]) => Promise<Row[]>;

/** Sends statements on one connection. */
type Work<T> = (send: Send, connection: Connection) => Promise<T>;

/** The maximum number of attempts by kind of failure. A write that may have been committed is sent only once. */
const attempts: Readonly<Record<Fault, { read: number; write: number }>> = {
  lost: { read: 2, write: 1 },
  stale: { read: 2, write: 2 },
  unprepared: { read: 2, write: 2 },
  'rolled-back': { read: 6, write: 6 },
  final: { read: 1, write: 1 },
};
// Doubled with each attempt, and randomized so that the same transactions do not conflict again.
const retryDelayMs = 2;
// Most statements end within this time, so that their connections can be kept.
const abortGraceMs = 100;

/** Sends statements to one database, with bounded waiting and with retries where they are safe. */
export class PostgresPool {
  readonly #connections: Connections;
  readonly #settings: PoolSettings;
  readonly #warn: Warn;
  /** The calls that run or wait for a connection, by purpose. */
  readonly #calls: Readonly<Record<Call['purpose'], Set<Promise<unknown>>>> = {
    calls: new Set(),
    feed: new Set(),
    pings: new Set(),
  };
  #ping: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;
  /** False after a pooler has mixed up the prepared statements of its clients. */
  #namesHold = true;

  constructor(driver: Driver, settings: PoolSettings, warn: Warn) {
    this.#connections = new Connections(driver, settings, warn);
    this.#settings = settings;
    this.#warn = warn;
  }

  /** The host that new connections go to. */
  get host(): Host {
    return this.#connections.hosts.current;
  }

  /** Runs work on a connection that has no time limit, before the first call. */
  async prepare(work: (client: PoolClient) => Promise<void>): Promise<void> {
    const call: Call = { kind: 'write', purpose: 'calls' };
    const connection = await this.#connections.acquire(call);
    try {
      await work(connection.client);
    } catch (error) {
      this.#connections.discard(connection);
      throw error;
    } finally {
      this.#connections.release(connection, call);
    }
  }

  /** A statement that changes nothing. It ends with the signal, and may be sent twice. */
  read<Row extends QueryResultRow>(
    sql: Sql,
    values: readonly unknown[],
    signal?: AbortSignal,
    purpose?: Call['purpose'],
  ): Promise<Row[]> {
    return this.reads((send) => send<Row>(sql, values), signal, purpose);
  }

  /** Several such statements on one connection. All of them may be sent twice. */
  reads<T>(
    work: (send: Send, connection: object) => Promise<T>,
    signal?: AbortSignal,
    purpose: Call['purpose'] = 'calls',
  ): Promise<T> {
    const call: Call = { kind: 'read', purpose, signal };
    return unlessAborted(this.#start(call, work), signal, () => this.#abandon(call));
  }

  /** A statement that is a transaction. */
  write<Row extends QueryResultRow>(sql: Sql, values: readonly unknown[]): Promise<Row[]> {
    return this.#start({ kind: 'write', purpose: 'calls' }, (send) => send<Row>(sql, values));
  }

  /** Several statements in one transaction; `work` runs again after a conflict with another transaction. */
  transaction<T>(work: (send: Send) => Promise<T>): Promise<T> {
    return this.#start({ kind: 'write', purpose: 'calls' }, async (send, connection) => {
      await send({ text: 'BEGIN' });
      try {
        const result = await work(send);
        await send({ text: 'COMMIT' });
        return result;
      } catch (error) {
        await send({ text: 'ROLLBACK' }).catch(() => this.#connections.discard(connection));
        throw error;
      }
    });
  }

  /** A statement with the limit `pingTimeoutMs`, independent of load. Concurrent pings share one statement. */
  ping(sql: Sql, signal?: AbortSignal): Promise<unknown> {
    this.#ping ??= this.#sendPing(sql).finally(() => {
      this.#ping = undefined;
    });
    return unlessAborted(this.#ping, signal);
  }

  /** Waits for running calls and for those that they start, then closes the connections. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    for (;;) {
      const running = Object.values(this.#calls).flatMap((calls) => [...calls]);
      if (running.length === 0) break;
      await Promise.allSettled(running);
      await nextTurn();
    }
    await this.#connections.end();
  }

  async #sendPing(sql: Sql): Promise<unknown> {
    const signal = AbortSignal.timeout(this.#settings.pingTimeoutMs);
    try {
      return await this.read(sql, [], signal, 'pings');
    } catch (caught) {
      if (!signal.aborted) throw caught;
      // The network may have lost the route. Then no packet reports the failure of a connection.
      this.#connections.renew();
      this.#connections.hosts.check();
      throw notInTime(caught);
    }
  }

  /** Settles when the call has released its connection, or has stopped waiting for one. */
  #start<T>(call: Call, work: Work<T>): Promise<T> {
    const { poolSize, maxWaiting } = this.#settings;
    const calls = this.#calls[call.purpose];
    if (calls.size >= poolSize + maxWaiting) return Promise.reject(this.#connections.refusal());
    const running = this.#run(call, work);
    calls.add(running);
    const forget = () => calls.delete(running);
    running.then(forget, forget);
    return running;
  }

  async #run<T>(call: Call, work: Work<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const connection = await this.#connections.acquire(call);
      let fault: Fault;
      try {
        return await work((sql, values = []) => this.#send(connection, sql, values), connection);
      } catch (error) {
        fault = connection.isDead ? 'lost' : faultOf(error);
        if (call.signal?.aborted) throw aborted(call.signal);
        if (fault === 'lost' || fault === 'stale') this.#connections.discard(connection);
        if (fault === 'unprepared') this.#stopNaming();
        if (attempt >= attempts[fault][call.kind]) throw toDomainError(error, fault);
      } finally {
        call.connection = undefined;
        this.#connections.release(connection, call);
      }
      if (fault === 'rolled-back') await delay(Math.random() * retryDelayMs * 2 ** attempt);
    }
  }

  #stopNaming(): void {
    this.#namesHold = false;
    this.#warn('a connection pooler does not keep prepared statements: each is now parsed every time');
  }

  async #send<Row extends QueryResultRow>(
    connection: Connection,
    { name, text }: Sql,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const stopWatching = this.#connections.watch(connection);
    try {
      const statement = { name: this.#namesHold ? name : undefined, text, values: [...values] };
      const { rows } = await connection.client.query<Row>(statement);
      if (connection.isUnconfirmed) throw notInTime(new Error('the commit was not replicated'));
      return rows;
    } finally {
      stopWatching();
    }
  }

  /** Ends a statement of a call that was aborted, unless the statement ends soon. */
  #abandon(call: Call): void {
    setTimeout(() => call.connection?.kill(), abortGraceMs).unref();
  }
}
