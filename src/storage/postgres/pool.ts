import { hash } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Pool, PoolClient, QueryResultRow } from 'pg';
import { aborted, DomainError, storeClosed } from '../../domain/errors.ts';
import { cannotConnect, type Fault, faultOf, isWaitTimeout, overloaded, toDomainError } from './errors.ts';
import { kill, type SessionLimits, setUpSession, type Warn } from './session.ts';

/** A statement; with a name, each connection parses it once. */
export interface Sql {
  readonly name?: string;
  readonly text: string;
}

/**
 * A statement that each connection parses once. The name is made from the text: behind a pooler that
 * shares its sessions, a name can then never stand for the statement of another release.
 */
export function prepared(text: string): Sql {
  return { name: `users-service-${hash('sha256', text).slice(0, 24)}`, text };
}

/** Sends a statement and resolves to its rows. */
export type Send = <Row extends QueryResultRow>(sql: Sql, values?: readonly unknown[]) => Promise<Row[]>;

export interface PoolSettings extends SessionLimits {
  readonly poolSize: number;
  readonly waitTimeoutMs: number;
  readonly maxWaiting: number;
  readonly pingTimeoutMs: number;
}

type CreatePool = (size: { readonly max: number; readonly connectionTimeoutMillis: number }) => Pool;

/** How often a statement is sent at most, by what became of it. A write that may have happened: once. */
const attempts: Readonly<Record<Fault, { read: number; write: number }>> = {
  lost: { read: 2, write: 1 },
  stale: { read: 2, write: 2 },
  unprepared: { read: 2, write: 2 },
  'rolled-back': { read: 6, write: 6 },
  final: { read: 1, write: 1 },
};
// Doubled with each attempt, and spread at random, lest the same transactions meet again.
const retryDelayMs = 2;
// Most statements end within this time, which saves their connections.
const abortGraceMs = 100;
// The server ends a long statement itself, and reports it, unless the network is down.
const watchdogGraceMs = 1_000;
// A server that is starting should not have to refuse each of thousands of calls by itself.
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
  /** One connection for pings, so that a busy store is not taken for a dead one. */
  readonly #pingPool: Pool;
  readonly #settings: PoolSettings;
  readonly #warn: Warn;
  /** The calls that run or wait for a connection. */
  readonly #calls = new Set<Promise<unknown>>();
  #ping: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;
  /** When one connection fails, all of its age are suspect: the server may have moved or restarted. */
  #generation = 0;
  readonly #generations = new WeakMap<PoolClient, number>();
  /** Connections whose session is set up. */
  readonly #ready = new WeakSet<PoolClient>();
  /** Connections that ended, or are about to. */
  readonly #dead = new WeakSet<PoolClient>();
  readonly #killed = new WeakSet<PoolClient>();
  /** Why the last connection could not be opened, and when a call may try again. */
  #failure: { readonly cause: unknown; retryAt: number } | undefined;
  /** Until a pooler mixes up the statements of its clients. */
  #namesHold = true;

  constructor(createPool: CreatePool, settings: PoolSettings, warn: Warn) {
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = settings;
    this.#settings = settings;
    this.#warn = warn;
    this.#pool = this.#observed(createPool({ max: poolSize, connectionTimeoutMillis: waitTimeoutMs }));
    this.#pingPool = this.#observed(createPool({ max: 1, connectionTimeoutMillis: pingTimeoutMs }));
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

  /** A statement that is a transaction. */
  write<Row extends QueryResultRow>(sql: Sql, values: readonly unknown[]): Promise<Row[]> {
    return this.#start({ kind: 'write' }, (client) => this.#send<Row>(client, sql, values));
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

  /** A statement in `pingTimeoutMs`, whatever the load. Pings at the same time are one. */
  ping(sql: Sql, signal?: AbortSignal): Promise<unknown> {
    this.#ping ??= this.#sendPing(sql).finally(() => {
      this.#ping = undefined;
    });
    return signal === undefined ? this.#ping : unlessAborted(this.#ping, signal);
  }

  /** Every call of the store begins here; what it then sends is sent though the store is closed meanwhile. */
  enter(): void {
    if (this.#closing !== undefined) throw storeClosed();
  }

  /** Waits for the calls under way, and for those they go on with, and ends the connections. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    while (this.#calls.size > 0 || this.#ping !== undefined) {
      await Promise.allSettled([...this.#calls, this.#ping]);
      await nextTurn();
    }
    await Promise.all([this.#pool.end(), this.#pingPool.end()]);
  }

  #observed(pool: Pool): Pool {
    // Without listeners, a connection that the server ends would end the process.
    pool.on('error', () => {});
    return pool.on('connect', (client) => {
      this.#generations.set(client, this.#generation);
      client.on('error', () => this.#dead.add(client));
    });
  }

  async #sendPing(sql: Sql): Promise<unknown> {
    const signal = AbortSignal.timeout(this.#settings.pingTimeoutMs);
    const call: Call = { kind: 'read', signal };
    const rows = this.#run(this.#pingPool, call, (client) => this.#send(client, sql, []));
    try {
      return await unlessAborted(rows, signal, () => this.#abandon(call));
    } catch (caught) {
      if (!signal.aborted) throw caught;
      // The network may have lost the route, and then no packet ever reports it.
      this.#generation += 1;
      throw new DomainError('unavailable', 'the database does not answer in time', { cause: caught });
    }
  }

  /** Settles when the call has given its connection back, or has stopped waiting for one. */
  #start<T>(call: Call, work: (client: PoolClient) => Promise<T>): Promise<T> {
    const { poolSize, maxWaiting } = this.#settings;
    if (this.#calls.size >= poolSize + maxWaiting) return Promise.reject(overloaded());
    const running = this.#run(this.#pool, call, work);
    this.#calls.add(running);
    const forget = () => this.#calls.delete(running);
    running.then(forget, forget);
    return running;
  }

  async #run<T>(pool: Pool, call: Call, work: (client: PoolClient) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const client = await this.#connect(pool, call);
      try {
        const result = await work(client);
        client.release(this.#killed.has(client));
        return result;
      } catch (error) {
        const fault = this.#dead.has(client) ? 'lost' : faultOf(error);
        const broken = fault === 'lost' || fault === 'stale';
        client.release(broken || this.#killed.has(client));
        if (call.signal?.aborted) throw aborted(call.signal);
        if (broken) this.#renewFrom(client);
        if (fault === 'unprepared') this.#stopNaming();
        if (attempt >= attempts[fault][call.kind]) throw toDomainError(error, fault);
        if (fault === 'rolled-back') await delay(Math.random() * retryDelayMs * 2 ** attempt);
      } finally {
        call.client = undefined;
      }
    }
  }

  /** A connection of the present generation whose session is set up. */
  async #connect(pool: Pool, call: Call): Promise<PoolClient> {
    for (;;) {
      if (call.signal?.aborted) throw aborted(call.signal);
      const client = await this.#checkOut(pool, call.signal);
      const isStale = this.#generations.get(client) !== this.#generation;
      if (isStale || call.signal?.aborted) {
        client.release(isStale);
        continue;
      }
      call.client = client;
      if (!this.#ready.has(client)) await this.#setUp(client);
      return client;
    }
  }

  async #checkOut(pool: Pool, signal: AbortSignal | undefined): Promise<PoolClient> {
    if (this.#failure !== undefined && pool.idleCount === 0) {
      if (performance.now() < this.#failure.retryAt) throw cannotConnect(this.#failure.cause);
      // This call tries for all the others.
      this.#failure.retryAt = performance.now() + reconnectDelayMs;
    }
    const checkedOut = pool.connect().then(
      (client) => {
        this.#failure = undefined;
        return client;
      },
      (cause: unknown) => {
        throw isWaitTimeout(cause) ? overloaded() : this.#cannotConnect(cause);
      },
    );
    if (signal === undefined) return checkedOut;
    // The driver's queue cannot be left: a connection that comes too late goes back at once.
    const giveBack = () => checkedOut.then((client) => client.release()).catch(() => {});
    return unlessAborted(checkedOut, signal, giveBack);
  }

  async #setUp(client: PoolClient): Promise<void> {
    try {
      await this.#watched(client, () => setUpSession(client, this.#settings, this.#warn));
      this.#ready.add(client);
    } catch (cause) {
      client.release(true);
      throw this.#cannotConnect(cause);
    }
  }

  #cannotConnect(cause: unknown): DomainError {
    this.#failure = { cause, retryAt: performance.now() + reconnectDelayMs };
    return cannotConnect(cause);
  }

  #renewFrom(client: PoolClient): void {
    // Those connected after the failure that ended this one's generation are sound.
    if (this.#generations.get(client) === this.#generation) this.#generation += 1;
  }

  #stopNaming(): void {
    this.#namesHold = false;
    this.#warn('a connection pooler does not keep prepared statements: each is now parsed every time');
  }

  async #send<Row extends QueryResultRow>(
    client: PoolClient,
    { name, text }: Sql,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const named = name !== undefined && this.#namesHold ? { name } : {};
    const query = () => client.query<Row>({ ...named, text, values: [...values] });
    return (await this.#watched(client, query)).rows;
  }

  async #watched<T>(client: PoolClient, work: () => Promise<T>): Promise<T> {
    const limitMs = this.#settings.statementTimeoutMs + watchdogGraceMs;
    const watchdog = setTimeout(() => this.#kill(client), limitMs);
    try {
      return await work();
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** Ends what still runs for a caller that has left, here and on the server, if it does not end soon. */
  #abandon(call: Call): void {
    setTimeout(() => call.client && this.#kill(call.client), abortGraceMs).unref();
  }

  #kill(client: PoolClient): void {
    this.#killed.add(client);
    kill(client);
  }
}

/** Settles at once when the signal aborts. */
function unlessAborted<T>(result: Promise<T>, signal: AbortSignal, onAbort?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(aborted(signal));
      onAbort?.();
    };
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort);
    result.finally(() => signal.removeEventListener('abort', abort)).then(resolve, reject);
  });
}
