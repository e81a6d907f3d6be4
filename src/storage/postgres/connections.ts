import type { Client, Pool, PoolClient, PoolConfig } from 'pg';
import { aborted, DomainError } from '../../domain/errors.ts';
import { cannotConnect, isWaitTimeout, notInTime, overloaded } from './errors.ts';
import { HostSearch, type SearchSettings } from './host-search.ts';
import type { Host } from './hosts.ts';
import { kill, probe, type SessionLimits, setUpSession, unlessLate, type Warn } from './session.ts';

export interface ConnectionSettings extends SessionLimits, SearchSettings {
  readonly poolSize: number;
}

/** What is used of the package `pg`. */
export interface Driver {
  createPool(
    config: Required<Pick<PoolConfig, 'connectionString' | 'max' | 'connectionTimeoutMillis'>>,
  ): Pool;
  createClient(config: { readonly connectionString: string }): Client;
}

/** What waits for a connection, or has one. */
export interface Call {
  readonly kind: 'read' | 'write';
  readonly purpose: 'calls' | 'feed' | 'pings';
  readonly signal?: AbortSignal | undefined;
  /** While statements run on it. */
  client?: PoolClient | undefined;
}

// The server ends a long statement itself, and reports it, unless the network is down.
const watchdogGraceMs = 1_000;

/** Neither pings nor followers wait behind calls: a busy store is not dead, and shows its changes at once. */
type Pools = Readonly<Record<Call['purpose'], Pool>>;

/** Open connections to one database, whose sessions are set up. */
export class Connections {
  readonly #driver: Driver;
  readonly #settings: ConnectionSettings;
  readonly #warn: Warn;
  readonly #hosts: HostSearch;
  /** Those of the present host; the others end when their last connection is released. */
  #pools: Pools;
  readonly #ending = new Set<Promise<unknown>>();
  /** Aborted when the present host is left: what waits for it waits in vain. */
  #left = new AbortController();
  /** How many calls of each pool have had their answer. */
  readonly #served = { calls: 0, feed: 0, pings: 0 };
  /** When one connection fails, all of its age are suspect: the server may have moved or restarted. */
  #generation = 0;
  readonly #generations = new WeakMap<PoolClient, number>();
  readonly #inUse = new Set<PoolClient>();
  /** Connections whose session is set up. */
  readonly #ready = new WeakSet<PoolClient>();
  /** Connections that have ended, or are of no more use. */
  readonly #dead = new WeakSet<PoolClient>();
  readonly #killed = new WeakSet<PoolClient>();
  readonly #unconfirmed = new WeakSet<PoolClient>();

  constructor(driver: Driver, settings: ConnectionSettings, warn: Warn) {
    this.#driver = driver;
    this.#settings = settings;
    this.#warn = warn;
    this.#hosts = new HostSearch(
      settings,
      (host, signal) => probe(driver.createClient({ connectionString: host.url }), settings, warn, signal),
      () => this.#arrive(),
      () => this.#leave(),
    );
    this.#pools = this.#openPools();
  }

  /** Where the next connection is opened. */
  get host(): Host {
    return this.#hosts.current;
  }

  /** Gives the call a connection of the present generation, on which it sends its statements. */
  async acquire(call: Call): Promise<PoolClient> {
    for (let hasSearched = false; ; ) {
      if (call.signal?.aborted) throw aborted(call.signal);
      if (this.#hosts.failure !== undefined && this.#pools[call.purpose].idleCount === 0) {
        if (hasSearched && this.#hosts.hasOthers) throw cannotConnect(this.#hosts.failure.cause);
        await this.#hosts.recover(call.signal);
        hasSearched = true;
      }
      const left = this.#left.signal;
      try {
        const client = await this.#checkOut(call, left);
        const isStale = left.aborted || this.#generations.get(client) !== this.#generation;
        if (isStale || call.signal?.aborted) {
          client.release(isStale);
          continue;
        }
        this.#inUse.add(client);
        if (!this.#ready.has(client)) await this.#setUp(client);
        this.#hosts.succeeded();
        call.client = client;
        return client;
      } catch (cause) {
        if (left.aborted) continue;
        if (cause instanceof DomainError) throw cause;
        this.#hosts.failed(cause);
        if (hasSearched || !this.#hosts.hasOthers) throw cannotConnect(cause);
      }
    }
  }

  release(client: PoolClient, { purpose }: Call): void {
    const isLost = this.#dead.has(client) || this.#killed.has(client);
    if (!isLost) this.#served[purpose] += 1;
    this.#inUse.delete(client);
    client.release(isLost);
  }

  /** Why a call is refused when there is no room for more: too many wait, or there is no server. */
  refusal(): DomainError {
    return this.#hosts.failure === undefined ? overloaded() : cannotConnect(this.#hosts.failure.cause);
  }

  isDead(client: PoolClient): boolean {
    return this.#dead.has(client);
  }

  /** Whether the server gave up waiting until a standby has a commit, which may be lost in a failover. */
  isUnconfirmed(client: PoolClient): boolean {
    return this.#unconfirmed.has(client);
  }

  /** Ends a connection that is of no more use, and in time all others of its age. */
  discard(client: PoolClient): void {
    this.#dead.add(client);
    // Those connected after the failure that ended this one's generation are sound.
    if (this.#generations.get(client) === this.#generation) this.renew();
  }

  /** Replaces all connections before they are used again. */
  renew(): void {
    this.#generation += 1;
  }

  /** Ends a connection and what still runs on it, here and on the server. */
  kill(client: PoolClient): void {
    this.#killed.add(client);
    kill(client);
  }

  /**
   * Kills the connection when the server does not end what runs on it in time. The caller calls the result
   * when it has ended.
   */
  watch(client: PoolClient): () => void {
    const limitMs = this.#settings.statementTimeoutMs + watchdogGraceMs;
    const quietMs = Math.min(this.#settings.pingTimeoutMs, limitMs);
    let timer = setTimeout(() => {
      timer = setTimeout(() => this.kill(client), limitMs - quietMs);
      this.checkHost();
    }, quietMs);
    return () => clearTimeout(timer);
  }

  /** Leaves the present host if it hangs. */
  checkHost(): void {
    this.#hosts.check();
  }

  async end(): Promise<void> {
    this.#endPools();
    await Promise.allSettled([...this.#ending, this.#hosts.close()]);
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
      connectionString: this.host.url,
      max,
      connectionTimeoutMillis,
    });
    // Without listeners, a connection that the server ends would end the process.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      this.#generations.set(client, this.#generation);
      client.on('error', () => this.#dead.add(client));
      client.on('notice', (notice) => {
        // The function that reports it; the text depends on the language of the server.
        if (notice.routine !== 'SyncRepWaitForLSN') return;
        this.#unconfirmed.add(client);
        this.#dead.add(client);
      });
    });
    return pool;
  }

  #endPools(): void {
    const ends = Object.values(this.#pools).map((pool) => pool.end());
    const ending: Promise<unknown> = Promise.allSettled(ends).then(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async #checkOut({ purpose, signal }: Call, left: AbortSignal): Promise<PoolClient> {
    const pool = this.#pools[purpose];
    const served = this.#served[purpose];
    const mustWait = pool.waitingCount >= pool.idleCount;
    const connecting = pool.connect();
    try {
      return await unlessLate(connecting, mustWait ? left : undefined, signal);
    } catch (cause) {
      if (!isWaitTimeout(cause)) throw cause;
      // All connections may be in use because the host hangs.
      await this.#hosts.checked();
      // The store has too much to do only if others were served meanwhile.
      throw this.#served[purpose] === served ? notInTime(cause) : this.refusal();
    }
  }

  async #setUp(client: PoolClient): Promise<void> {
    const stopWatching = this.watch(client);
    try {
      await setUpSession(client, this.#settings, this.#warn);
      this.#ready.add(client);
    } catch (cause) {
      this.#inUse.delete(client);
      client.release(true);
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

  /** Ends all that runs at a host that hangs. */
  #leave(): void {
    this.#stopWaiting();
    for (const client of this.#inUse) {
      this.#killed.add(client);
      client.connection.stream.destroy();
    }
  }

  #stopWaiting(): void {
    this.renew();
    this.#left.abort();
    this.#left = new AbortController();
  }
}
