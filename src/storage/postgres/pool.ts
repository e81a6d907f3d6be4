import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Pool, PoolClient, QueryResultRow } from 'pg';
import { aborted, DomainError } from '../../domain/errors.ts';
import { cannotConnect, type Fault, faultOf, toDomainError } from './errors.ts';
import { Gate } from './gate.ts';
import type { PostgresSettings } from './options.ts';

/** A statement; with a name, each connection parses it once. */
export interface Sql {
  readonly name?: string;
  readonly text: string;
}

/** Sends a statement and resolves to its rows. */
export type Send = <Row extends QueryResultRow>(sql: Sql, values?: readonly unknown[]) => Promise<Row[]>;

/** How often a statement is sent at most, by what became of it. A write that may have happened: once. */
const attempts: Readonly<Record<Fault, { read: number; write: number }>> = {
  lost: { read: 2, write: 1 },
  stale: { read: 2, write: 2 },
  'rolled-back': { read: 6, write: 6 },
  final: { read: 1, write: 1 },
};
// Doubled with each attempt, and spread at random, lest the same transactions meet again.
const retryDelayMs = 2;
// Most statements end within this time, which saves their connections.
const abortGraceMs = 100;
// The server ends a long statement itself, and says so, unless it can no longer be heard.
const watchdogGraceMs = 1_000;
// A server that starts anew has better to do than to refuse each of thousands of calls by itself.
const reconnectDelayMs = 50;

interface Call {
  readonly kind: 'read' | 'write';
  readonly signal?: AbortSignal | undefined;
  /** While a statement runs on it. */
  client?: PoolClient | undefined;
}

/** Connections to one database: bounded waiting, retries where they are safe, and nothing left behind. */
export class PostgresPool {
  readonly #pool: Pool;
  readonly #settings: PostgresSettings;
  readonly #gate: Gate;
  readonly #running = new Set<Promise<unknown>>();
  /** Connections that ended by themselves. */
  readonly #dead = new WeakSet<PoolClient>();
  /** When one connection fails, all of its age are suspect: the server may have moved or restarted. */
  #generation = 0;
  readonly #generations = new WeakMap<PoolClient, number>();
  #unreachable: { readonly cause: unknown; readonly until: number } | undefined;
  #probe: Promise<unknown> | undefined;

  constructor(pool: Pool, settings: PostgresSettings) {
    this.#pool = pool;
    this.#settings = settings;
    this.#gate = new Gate({ ...settings, places: settings.poolSize });
    // Without listeners, a connection that the server ends would end the process.
    this.#pool.on('error', () => {});
    this.#pool.on('connect', (client) => {
      this.#generations.set(client, this.#generation);
      client.on('error', () => this.#dead.add(client));
    });
  }

  /** A statement that changes nothing. It ends with the signal, and may be sent twice. */
  read<Row extends QueryResultRow>(
    sql: Sql,
    values: readonly unknown[],
    signal?: AbortSignal,
  ): Promise<Row[]> {
    const call: Call = { kind: 'read', signal };
    const rows = this.#start(call, (client) => this.#send<Row>(client, sql, values));
    return signal === undefined ? rows : unlessAborted(rows, signal, () => this.#abandon(call));
  }

  /** A statement that is a transaction. The signal ends its wait for a connection, not the statement. */
  write<Row extends QueryResultRow>(
    sql: Sql,
    values: readonly unknown[],
    signal?: AbortSignal,
  ): Promise<Row[]> {
    return this.#start({ kind: 'write', signal }, (client) => this.#send<Row>(client, sql, values));
  }

  /** Several statements, all or none; `work` runs again when another transaction was in its way. */
  transaction<T>(work: (send: Send) => Promise<T>): Promise<T> {
    return this.#start({ kind: 'write' }, async (client) => {
      const send: Send = (sql, values = []) => this.#send(client, sql, values);
      await send({ text: 'BEGIN' });
      try {
        const result = await work(send);
        await send({ text: 'COMMIT' });
        return result;
      } catch (error) {
        await send({ text: 'ROLLBACK' }).catch(() => this.#dead.add(client));
        throw error;
      }
    });
  }

  /**
   * A statement on a connection of its own, in `pingTimeoutMs`, so that a busy store is not taken for a
   * dead one. Probes at the same time are one.
   */
  probe(sql: Sql, signal?: AbortSignal): Promise<unknown> {
    this.#probe ??= this.#sendProbe(sql).finally(() => {
      this.#probe = undefined;
    });
    return signal === undefined ? this.#probe : unlessAborted(this.#probe, signal);
  }

  /** Waits for the calls under way, and for those they go on with, and ends the connections. */
  async close(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.allSettled(this.#running);
      await nextTurn();
    }
    await this.#pool.end();
  }

  async #sendProbe(sql: Sql): Promise<unknown> {
    const signal = AbortSignal.timeout(this.#settings.pingTimeoutMs);
    const call: Call = { kind: 'read', signal };
    const rows = this.#track(this.#attempt(call, (client) => this.#send(client, sql, [])));
    try {
      return await unlessAborted(rows, signal, () => this.#abandon(call));
    } catch (caught) {
      if (!signal.aborted) throw caught;
      // Perhaps nobody is at the other end any more, and no packet will ever tell.
      this.#generation += 1;
      throw new DomainError('unavailable', 'the database does not answer in time', { cause: caught });
    }
  }

  /** Settles when the call has given its connection back. */
  #start<T>(call: Call, work: (client: PoolClient) => Promise<T>): Promise<T> {
    return this.#track(this.#pass(call, work));
  }

  #track<T>(call: Promise<T>): Promise<T> {
    this.#running.add(call);
    const forget = () => this.#running.delete(call);
    call.then(forget, forget);
    return call;
  }

  async #pass<T>(call: Call, work: (client: PoolClient) => Promise<T>): Promise<T> {
    await this.#gate.enter(call.signal);
    try {
      return await this.#attempt(call, work);
    } finally {
      this.#gate.leave();
    }
  }

  async #attempt<T>(call: Call, work: (client: PoolClient) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const client = await this.#connect();
      if (call.signal?.aborted) {
        client.release();
        throw aborted(call.signal);
      }
      call.client = client;
      try {
        const result = await work(client);
        client.release();
        return result;
      } catch (error) {
        const fault = this.#dead.has(client) ? 'lost' : faultOf(error);
        const broken = fault === 'lost' || fault === 'stale';
        client.release(broken);
        if (call.signal?.aborted) throw aborted(call.signal);
        if (broken) this.#renewFrom(client);
        if (attempt >= attempts[fault][call.kind]) throw toDomainError(error, fault);
        if (fault === 'rolled-back') await delay(Math.random() * retryDelayMs * 2 ** attempt);
      } finally {
        call.client = undefined;
      }
    }
  }

  async #connect(): Promise<PoolClient> {
    for (;;) {
      const client = await this.#checkOut();
      if (this.#generations.get(client) === this.#generation) return client;
      client.release(true);
    }
  }

  async #checkOut(): Promise<PoolClient> {
    if (this.#unreachable !== undefined && this.#pool.idleCount === 0) {
      const { cause, until } = this.#unreachable;
      if (performance.now() < until) throw cannotConnect(cause);
    }
    try {
      const client = await this.#pool.connect();
      this.#unreachable = undefined;
      return client;
    } catch (cause) {
      this.#unreachable = { cause, until: performance.now() + reconnectDelayMs };
      throw cannotConnect(cause);
    }
  }

  #renewFrom(client: PoolClient): void {
    // Those connected after the failure that ended this one's generation are sound.
    if (this.#generations.get(client) === this.#generation) this.#generation += 1;
  }

  async #send<Row extends QueryResultRow>(
    client: PoolClient,
    sql: Sql,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const limitMs = this.#settings.statementTimeoutMs + watchdogGraceMs;
    const watchdog = setTimeout(() => client.connection.stream.destroy(), limitMs);
    try {
      return (await client.query<Row>({ ...sql, values: [...values] })).rows;
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** Ends what still runs for a caller that has left, here and on the server, if it does not end soon. */
  #abandon(call: Call): void {
    setTimeout(() => {
      const { client } = call;
      if (client === undefined) return;
      client.connection.stream.destroy();
      const processId = 'processID' in client ? client.processID : undefined;
      // When this fails, the statement's own time limit is left.
      this.#pool.query('SELECT pg_cancel_backend($1)', [processId]).catch(() => {});
    }, abortGraceMs).unref();
  }
}

/** Lets the caller go at once when its signal aborts. */
function unlessAborted<T>(result: Promise<T>, signal: AbortSignal, onAbort?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(aborted(signal));
      onAbort?.();
    };
    signal.addEventListener('abort', abort);
    result.finally(() => signal.removeEventListener('abort', abort)).then(resolve, reject);
  });
}
