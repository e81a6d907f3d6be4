import type { Client, Pool, PoolClient, PoolConfig } from 'pg';
import { aborted, DomainError } from '../../domain/errors.ts';
import { Connection } from './connection.ts';
import { cannotConnect, isWaitTimeout, notInTime, overloaded } from './errors.ts';
import { HostSearch, type SearchSettings } from './host-search.ts';
import {
  endClient,
  openSession,
  type SessionLimits,
  setUpSession,
  unlessLate,
  type Warn,
} from './session.ts';

export interface PoolSettings extends SessionLimits, SearchSettings {
  readonly poolSize: number;
  readonly maxWaiting: number;
}

/** The parts of the package `pg` that are used. */
export interface Driver {
  createPool(
    config: Required<Pick<PoolConfig, 'connectionString' | 'max' | 'connectionTimeoutMillis'>>,
  ): Pool;
  createClient(config: { readonly connectionString: string }): Client;
}

/** A call that waits for a connection, or has one. */
export interface Call {
  readonly kind: 'read' | 'write';
  readonly purpose: 'calls' | 'feed' | 'pings';
  readonly signal?: AbortSignal | undefined;
  /** Set while statements of the call run on it. */
  connection?: Connection | undefined;
}

// The server ends a long statement itself, and reports it, unless the network is down.
const watchdogGraceMs = 1_000;

/** Pings and followers do not wait for calls: a busy store still responds to pings, and shows its changes at once. */
type Pools = Readonly<Record<Call['purpose'], Pool>>;

/** The open connections to one database, with prepared sessions. */
export class Connections {
  readonly #driver: Driver;
  readonly #settings: PoolSettings;
  readonly #warn: Warn;
  readonly hosts: HostSearch;
  /** The pools of the current host. Earlier ones end when their last connection is released. */
  #pools: Pools;
  readonly #ending = new Set<Promise<unknown>>();
  /** Aborts when the current host is abandoned, so that calls stop waiting for it. */
  #left = new AbortController();
  /** The number of finished calls of each pool. */
  readonly #served = { calls: 0, feed: 0, pings: 0 };
  #generation = 0;
  readonly #known = new WeakMap<PoolClient, Connection>();
  readonly #inUse = new Set<Connection>();

  constructor(driver: Driver, settings: PoolSettings, warn: Warn) {
    this.#driver = driver;
    this.#settings = settings;
    this.#warn = warn;
    this.hosts = new HostSearch(
      settings,
      async ({ url: connectionString }, signal) => {
        const client = driver.createClient({ connectionString });
        await openSession(client, settings, warn, signal);
        await endClient(client);
      },
      () => this.#arrive(),
      () => this.#leave(),
    );
    this.#pools = this.#openPools();
  }

  /** Gives the call a connection of the current generation for its statements. */
  async acquire(call: Call): Promise<Connection> {
    for (let hasSearched = false; ; ) {
      if (call.signal?.aborted) throw aborted(call.signal);
      if (this.hosts.failure !== undefined && this.#pools[call.purpose].idleCount === 0) {
        if (hasSearched && this.hosts.hasOthers) throw cannotConnect(this.hosts.failure.cause);
        await this.hosts.recover(call.signal);
        hasSearched = true;
      }
      const left = this.#left.signal;
      try {
        const connection = await this.#checkOut(call, left);
        const isStale = left.aborted || connection.generation !== this.#generation;
        if (isStale || call.signal?.aborted) {
          connection.client.release(isStale);
          continue;
        }
        this.#inUse.add(connection);
        if (!connection.isSetUp) await this.#setUp(connection);
        this.hosts.succeeded();
        call.connection = connection;
        return connection;
      } catch (cause) {
        if (left.aborted) continue;
        if (cause instanceof DomainError) throw cause;
        this.hosts.failed(cause);
        if (hasSearched || !this.hosts.hasOthers) throw cannotConnect(cause);
      }
    }
  }

  release(connection: Connection, { purpose }: Call): void {
    const isLost = connection.isDead || connection.isKilled;
    if (!isLost) this.#served[purpose] += 1;
    this.#inUse.delete(connection);
    connection.client.release(isLost);
  }

  /** The reason to reject a call that cannot wait: too many calls wait, or no server is available. */
  refusal(): DomainError {
    return this.hosts.failure === undefined ? overloaded() : cannotConnect(this.hosts.failure.cause);
  }

  /** Closes a failed connection, and later all others of its generation. */
  discard(connection: Connection): void {
    connection.isDead = true;
    // Connections of a later generation were opened after the failure, and remain usable.
    if (connection.generation === this.#generation) this.renew();
  }

  /** Replaces all connections before they are used again. */
  renew(): void {
    this.#generation += 1;
  }

  /**
   * Kills the connection if the server does not end its statement in time. The caller calls the returned function
   * when the statement has ended.
   */
  watch(connection: Connection): () => void {
    const limitMs = this.#settings.statementTimeoutMs + watchdogGraceMs;
    const quietMs = Math.min(this.#settings.pingTimeoutMs, limitMs);
    let timer = setTimeout(() => {
      timer = setTimeout(() => connection.kill(), limitMs - quietMs);
      this.hosts.check();
    }, quietMs);
    return () => clearTimeout(timer);
  }

  async end(): Promise<void> {
    this.#endPools();
    await Promise.allSettled([...this.#ending, this.hosts.close()]);
  }

  #openPools(): Pools {
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = this.#settings;
    return {
      calls: this.#openPool(poolSize, waitTimeoutMs),
      feed: this.#openPool(2, waitTimeoutMs),
      pings: this.#openPool(1, pingTimeoutMs),
    };
  }

  #openPool(max: number, connectionTimeoutMillis: number): Pool {
    const pool = this.#driver.createPool({
      connectionString: this.hosts.current.url,
      max,
      connectionTimeoutMillis,
    });
    // Without listeners, a connection that the server ends would end the process.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      this.#known.set(client, new Connection(client, this.#generation));
    });
    return pool;
  }

  #endPools(): void {
    const ends = Object.values(this.#pools).map((pool) => pool.end());
    const ending: Promise<unknown> = Promise.allSettled(ends).then(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async #checkOut({ purpose, signal }: Call, left: AbortSignal): Promise<Connection> {
    const pool = this.#pools[purpose];
    const served = this.#served[purpose];
    const mustWait = pool.waitingCount >= pool.idleCount;
    const connecting = pool.connect();
    try {
      const client = await unlessLate(connecting, mustWait ? left : undefined, signal);
      const connection = this.#known.get(client);
      if (connection === undefined) throw new Error('the pool has not reported a connection');
      return connection;
    } catch (cause) {
      if (!isWaitTimeout(cause)) throw cause;
      // All connections may be in use because the host hangs.
      await this.hosts.checked();
      // The store is overloaded only if other calls were served in the meantime.
      throw this.#served[purpose] === served ? notInTime(cause) : this.refusal();
    }
  }

  async #setUp(connection: Connection): Promise<void> {
    const stopWatching = this.watch(connection);
    try {
      await setUpSession(connection.client, this.#settings, this.#warn);
      connection.isSetUp = true;
    } catch (cause) {
      this.#inUse.delete(connection);
      connection.client.release(true);
      throw cause;
    } finally {
      stopWatching();
    }
  }

  #arrive(): void {
    this.#stopWaiting();
    this.#endPools();
    this.#pools = this.#openPools();
  }

  /** Ends all calls on a host that does not respond. */
  #leave(): void {
    this.#stopWaiting();
    for (const connection of this.#inUse) {
      connection.isKilled = true;
      connection.client.connection.stream.destroy();
    }
  }

  #stopWaiting(): void {
    this.renew();
    this.#left.abort();
    this.#left = new AbortController();
  }
}
