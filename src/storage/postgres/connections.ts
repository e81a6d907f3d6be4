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

/** Open connections to one database, whose sessions are set up. */
export class Connections {
  readonly #driver: Driver;
  readonly #settings: ConnectionSettings;
  readonly #warn: Warn;
  /** Where connections are opened now. */
  readonly #hosts: HostSearch;
  /** Neither pings nor followers wait behind calls: a busy store is not dead, and shows its changes at once. */
  readonly #pools: Readonly<Record<Call['purpose'], Pool>>;
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
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = settings;
    this.#driver = driver;
    this.#settings = settings;
    this.#warn = warn;
    this.#hosts = new HostSearch(
      settings,
      (host, signal) => probe(driver.createClient({ connectionString: host.url }), settings, warn, signal),
      (host) => this.#moveTo(host),
      () => this.#leave(),
    );
    this.#pools = {
      calls: this.#openPool(poolSize, waitTimeoutMs),
      feed: this.#openPool(2, waitTimeoutMs),
      pings: this.#openPool(1, pingTimeoutMs),
    };
  }

  /** Where the next connection is opened. */
  get host(): Host {
    return this.#hosts.current;
  }

  /** Gives the call a connection of the present generation, on which it sends its statements. */
  async acquire(call: Call): Promise<PoolClient> {
    const pool = this.#pools[call.purpose];
    for (let hasSearched = false; ; ) {
      if (call.signal?.aborted) throw aborted(call.signal);
      if (this.#hosts.failure !== undefined && pool.idleCount === 0 && !hasSearched) {
        await this.#hosts.recover(call.signal);
        hasSearched = true;
      }
      const host = this.host;
      try {
        const client = await this.#checkOut(pool, call);
        const isStale = this.#generations.get(client) !== this.#generation;
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
        if (cause instanceof DomainError) throw cause;
        // Another call has found the host to use meanwhile.
        if (host !== this.host) continue;
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
    const pools = Object.values(this.#pools).map((pool) => pool.end());
    await Promise.allSettled([...pools, this.#hosts.close()]);
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
      // Opened at the host before, it may have waited for a server that has since been replaced.
      const isHere = `${client.host}:${client.port}` === this.host.name;
      this.#generations.set(client, isHere ? this.#generation : -1);
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

  async #checkOut(pool: Pool, { purpose, signal }: Call): Promise<PoolClient> {
    const served = this.#served[purpose];
    const connecting = pool.connect();
    try {
      return await (signal === undefined ? connecting : unlessLate(connecting, signal));
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

  #moveTo({ url }: Host): void {
    this.renew();
    for (const pool of Object.values(this.#pools)) pool.options.connectionString = url;
  }

  /** Ends all that runs at a host that hangs. */
  #leave(): void {
    this.renew();
    for (const client of this.#inUse) {
      this.#killed.add(client);
      client.connection.stream.destroy();
    }
  }
}
