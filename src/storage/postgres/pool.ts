import { hash } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Client, QueryResultRow } from 'pg';
import { aborted } from '../../domain/errors.ts';
import type { Connection, Warn } from './connection.ts';
import { type Call, Connections, type CreateClient, type PoolSettings } from './connections.ts';
import { type Fault, faultOf, notInTime, toDomainError } from './errors.ts';
import { unlessAborted } from './promises.ts';

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
const abortGraceMs = 100;

/** Sends statements to one database, with bounded waiting and with retries where they are safe. */
export class PostgresPool {
  readonly #connections: Connections;
  readonly #settings: PoolSettings;
  readonly #warn: Warn;
  /** The number of calls by purpose that run or wait for a connection. One that was aborted does not count. */
  readonly #counts = { calls: 0, feed: 0, pings: 0 };
  /** The calls that have not ended, including aborted ones. */
  readonly #running = new Set<Promise<unknown>>();
  #ping: Promise<unknown> | undefined;
  /** False after a pooler has mixed up the prepared statements of its clients. */
  #namesHold = true;

  constructor(createClient: CreateClient, settings: PoolSettings, warn: Warn) {
    this.#connections = new Connections(createClient, settings, warn);
    this.#settings = settings;
    this.#warn = warn;
  }

  /** Runs work on a connection that has no time limit, before the first call. */
  prepare(work: (client: Client) => Promise<void>): Promise<void> {
    return this.#start({ kind: 'write', purpose: 'calls' }, (_, connection) =>
      work(connection.client).catch((error) => {
        this.#connections.discard(connection);
        throw error;
      }),
    );
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
    return this.#start({ kind: 'read', purpose, signal }, work);
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
  async close(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.allSettled(this.#running);
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
      this.#connections.hosts.generation += 1;
      this.#connections.hosts.check();
      throw notInTime(caught);
    }
  }

  #start<T>(call: Call, work: Work<T>): Promise<T> {
    const { poolSize, maxWaiting } = this.#settings;
    const { purpose, signal } = call;
    if (this.#counts[purpose] >= poolSize + maxWaiting) return Promise.reject(this.#connections.refusal());
    this.#counts[purpose] += 1;
    const running = this.#run(call, work);
    this.#running.add(running);
    // Most statements end soon, so that their connections can be kept.
    const abandon = () => setTimeout(() => call.connection?.kill(), abortGraceMs).unref();
    const result = unlessAborted(running, signal, abandon).finally(() => {
      this.#counts[purpose] -= 1;
    });
    const forget = () => this.#running.delete(running);
    running.then(forget, forget);
    return result;
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
        if (fault === 'unprepared') {
          this.#namesHold = false;
          this.#warn('a connection pooler does not keep prepared statements: each is now parsed every time');
        }
        if (attempt >= attempts[fault][call.kind]) throw toDomainError(error, fault);
      } finally {
        this.#connections.release(call);
      }
      if (fault === 'rolled-back') await delay(Math.random() * retryDelayMs * 2 ** attempt);
    }
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
}
