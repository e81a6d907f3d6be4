import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Client } from 'pg';
import { aborted, type DomainError, storeClosed, unlessAborted } from '../../domain/errors.ts';
import type { Connection, PoolSettings, Send, Sql } from './connection.ts';
import {
  attempts,
  cannotConnect,
  isFatal,
  isRefusal,
  type Meaning,
  meaningOf,
  notInTime,
  overloaded,
} from './errors.ts';
import { HostSearch } from './host-search.ts';
import { type CallKind, ConnectionQueue } from './queue.ts';

type Work<T> = (send: Send, connection: Connection) => Promise<T>;

/** What a queue serves. So a store that is busy with calls still responds to pings, and shows its changes at once. */
type Purpose = 'calls' | 'feed' | 'pings';

/** A call that waits for a connection, or has one. */
interface Call {
  readonly kind: CallKind;
  readonly purpose: Purpose;
  readonly signal?: AbortSignal | undefined;
  connection?: Connection | undefined;
  /** Whether it is not sent again if the connection is lost. */
  isLast?: boolean;
  /** Lets its queue open another connection in place of its own, although the call still runs. */
  replace?: () => void;
}

export const feedConnections = 2;
// Maximum pause before the first retry, doubled by each further one. It is random, to avoid the same conflict again.
const retryDelayMs = 4;
// How long the statement of an aborted call may still run. Most end during this time, and their connections are kept.
const abortGraceMs = 100;
// The server ends a long statement itself, and reports it, unless the network is down.
const watchdogGraceMs = 1_000;
const slowMs = 5_000;
const mixUpWarning = 'a connection pooler does not keep prepared statements: each is now parsed every time';
const slowWarning = `opening PostgreSQL takes more than ${slowMs / 1_000} s: it migrates, waits for a lock or hangs`;

/** Sends statements to one database, with bounded waiting and with retries where they are safe. */
export class PostgresPool {
  readonly hosts: HostSearch;
  readonly #settings: PoolSettings;
  readonly #queues: Readonly<Record<Purpose, ConnectionQueue>>;
  /** The calls that have not ended, including aborted ones. */
  readonly #running = new Set<Promise<unknown>>();
  /** The calls whose statement takes long. */
  readonly #slowCalls = new Set<Call>();
  #ping: Promise<void> | undefined;
  /** Whether prepared statements have names. False after a pooler has mixed up the statements of its clients. */
  #usesNames = true;
  #isClosed = false;

  constructor(settings: PoolSettings) {
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = settings;
    this.#settings = settings;
    this.hosts = new HostSearch(settings);
    const feed = new ConnectionQueue(feedConnections, waitTimeoutMs, this.hosts);
    const pings = new ConnectionQueue(1, pingTimeoutMs, this.hosts);
    const calls = new ConnectionQueue(poolSize, waitTimeoutMs, this.hosts, feed, pings);
    this.#queues = { calls, feed, pings };
  }

  /** Runs work on a connection before the first call, without a limit on its time. */
  prepare<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const timer = setTimeout(this.#settings.warn, slowMs, slowWarning);
    return this.#start({ kind: 'write', purpose: 'calls' }, (_, connection) =>
      work(connection.client).catch((error) => {
        this.hosts.discard(connection);
        throw error;
      }),
    ).finally(() => clearTimeout(timer));
  }

  /** A statement that changes nothing. It ends with the signal, and may be sent again. */
  read<Row extends object>(sql: Sql, values: readonly unknown[], signal?: AbortSignal, purpose?: Purpose) {
    return this.reads((send) => send<Row>(sql, values), signal, purpose);
  }

  /** Several such statements on one connection. All of them may be sent again. */
  reads<T>(work: Work<T>, signal?: AbortSignal, purpose: Purpose = 'calls'): Promise<T> {
    return this.#start({ kind: 'read', purpose, signal }, work);
  }

  /** A statement that is a transaction. */
  write<Row extends object>(sql: Sql, values: readonly unknown[], purpose: Purpose = 'calls') {
    return this.#start({ kind: 'write', purpose }, (send) => send<Row>(sql, values));
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
        // If the transaction may still be open, no other call may get its connection.
        await send({ text: 'ROLLBACK' }).catch(() => this.hosts.discard(connection));
        throw error;
      }
    });
  }

  /** Sends a statement within `pingTimeoutMs`, whatever the load. Concurrent pings share one, so all must be equal. */
  ping(sql: Sql, signal?: AbortSignal): Promise<void> {
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
    this.#isClosed = true;
    await this.hosts.close();
  }

  async #sendPing(sql: Sql): Promise<void> {
    const signal = AbortSignal.timeout(this.#settings.pingTimeoutMs);
    const call: Call = { kind: 'read', purpose: 'pings', signal };
    const startedAt = performance.now();
    try {
      await this.#start(call, (send) => send(sql));
      for (const { isLast, connection, replace } of this.#slowCalls) {
        if (connection?.generation === this.hosts.generation) continue;
        // The network may have lost the connection. A read is sent again, once. Other responses may still come.
        if (isLast) replace?.();
        else connection?.destroy();
      }
    } catch (caught) {
      if (!signal.aborted) throw caught;
      // If this process was paused, the response has arrived but is not read yet. Afterwards the call has no connection.
      await nextTurn();
      // The network may have lost the route of this and all older connections. Then no packet reports their failure.
      const { connection } = call;
      this.hosts.check();
      if (connection && !this.hosts.isServing(startedAt, connection)) {
        this.hosts.discard(connection);
        call.replace?.();
        // A new connection shows whether only the earlier ones are lost.
        if (connection.succeededAt > 0) void this.#sendPing(sql).catch(() => {});
      }
      throw notInTime(caught);
    }
  }

  /** Rejects a call if too many run or wait, else runs it. An aborted call fails at once, although it still runs. */
  #start<T>(call: Call, work: Work<T>): Promise<T> {
    const { poolSize, maxWaiting } = this.#settings;
    const { kind, purpose, signal } = call;
    if (this.#isClosed) return Promise.reject(storeClosed());
    const queue = this.#queues[purpose];
    // The feed has few connections, but as many of its reads may wait as of other calls.
    if (queue.callCounts[kind] >= Math.max(queue.size, poolSize) + maxWaiting) {
      const { failure } = this.hosts;
      return Promise.reject(failure === undefined ? overloaded() : cannotConnect(failure.cause));
    }
    queue.callCounts[kind] += 1;
    const running = this.#run(call, work);
    this.#running.add(running);
    const forget = () => this.#running.delete(running);
    running.then(forget, forget);
    return unlessAborted(running, signal).finally(() => {
      queue.callCounts[kind] -= 1;
      if (signal?.aborted) setTimeout(() => call.connection?.kill(), abortGraceMs).unref();
    });
  }

  /** Sends statements of a call. If one takes long, checks the host, and later kills the connection. */
  #sender(connection: Connection, call: Call): Send {
    const { pingTimeoutMs, statementTimeoutMs } = this.#settings;
    const limitMs = statementTimeoutMs + watchdogGraceMs;
    const quietMs = Math.min(pingTimeoutMs, limitMs);
    return async <Row extends object>({ name, text }: Sql, values: readonly unknown[] = []) => {
      let timer = setTimeout(() => {
        timer = setTimeout(() => connection.kill(), limitMs - quietMs);
        this.#slowCalls.add(call);
        this.hosts.check();
      }, quietMs);
      try {
        const sql = { name: this.#usesNames ? name : undefined, text, values: [...values] };
        const { rows } = await connection.client.query<Row>(sql);
        if (connection.isUnconfirmed) throw notInTime(new Error('the commit was not replicated'));
        connection.succeededAt = performance.now();
        return rows;
      } finally {
        clearTimeout(timer);
        this.#slowCalls.delete(call);
      }
    };
  }

  /** Runs the work on a connection of its queue, and again after a fault while `attempts` allows it. */
  async #run<T>(call: Call, work: Work<T>): Promise<T> {
    const { calls, [call.purpose]: own } = this.#queues;
    // While the server accepts no more connections, all purposes share those for calls.
    let queue = own.isRefused ? calls : own;
    for (let attempt = 1; ; attempt += 1) {
      const connection = await queue.acquire(call.kind, call.signal).catch((error: DomainError) => {
        if (queue === calls || !isRefusal(error.cause)) throw error;
        queue = calls;
        return queue.acquire(call.kind, call.signal);
      });
      call.connection = connection;
      call.isLast = attempt >= attempts.lost[call.kind];
      call.replace = () => queue.replace(connection, call.kind);
      let meaning: Meaning;
      try {
        return await work(this.#sender(connection, call), connection);
      } catch (error) {
        meaning = meaningOf(error, connection.isDead);
        // The session is over already, though the connection may close later.
        if (isFatal(error)) connection.isDead = true;
        if (call.signal?.aborted) throw aborted(call.signal);
        const isDemoted = meaning.fault === 'stale' && this.#settings.writable;
        // Such a connection can serve no other call.
        if (['lost', 'outdated'].includes(meaning.fault) || isDemoted) this.hosts.discard(connection);
        if (meaning.fault === 'unprepared') {
          this.#usesNames = false;
          this.#settings.warn(mixUpWarning);
        }
        if (attempt >= attempts[meaning.fault][call.kind]) throw meaning.error(error);
      } finally {
        call.connection = undefined;
        queue.release(connection, call.kind);
      }
      if (meaning.fault === 'stale') await this.hosts.confirmReadOnly(connection);
      if (meaning.fault === 'rolled-back') await delay(Math.random() * retryDelayMs * 2 ** (attempt - 1));
    }
  }
}
