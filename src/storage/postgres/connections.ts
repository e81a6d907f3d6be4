import type { Pool, PoolClient, PoolConfig } from 'pg';
import { aborted, DomainError } from '../../domain/errors.ts';
import { cannotConnect, isWaitTimeout, overloaded, sqlState } from './errors.ts';
import { findHost, type Host } from './hosts.ts';
import { kill, type SessionLimits, setUpSession, unlessAborted, unlessLate, type Warn } from './session.ts';

export interface ConnectionSettings extends SessionLimits {
  readonly poolSize: number;
  readonly waitTimeoutMs: number;
  readonly pingTimeoutMs: number;
  /** The first is tried first. The one found is kept until it fails. */
  readonly hosts: readonly [Host, ...Host[]];
}

export type CreatePool = (
  config: Required<Pick<PoolConfig, 'connectionString' | 'max' | 'connectionTimeoutMillis'>>,
) => Pool;

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
// A server that is starting should not have to refuse each of thousands of calls by itself.
const reconnectDelayMs = 50;

/** Open connections to one database, whose sessions are set up. */
export class Connections {
  readonly #createPool: CreatePool;
  readonly #settings: ConnectionSettings;
  readonly #warn: Warn;
  /** Neither pings nor followers wait behind calls: a busy store is not dead, and shows its changes at once. */
  readonly #pools: Readonly<Record<Call['purpose'], Pool>>;
  /** Where connections are opened now. */
  #host: Host;
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
  /** Why the last connection could not be opened, and when a call may try again. */
  #failure: { readonly cause: unknown; retryAt: number } | undefined;
  #search: Promise<void> | undefined;
  #check: Promise<void> | undefined;

  constructor(createPool: CreatePool, settings: ConnectionSettings, warn: Warn) {
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = settings;
    this.#createPool = createPool;
    this.#settings = settings;
    this.#warn = warn;
    [this.#host] = settings.hosts;
    this.#pools = {
      calls: this.#openPool(poolSize, waitTimeoutMs),
      feed: this.#openPool(2, waitTimeoutMs),
      pings: this.#openPool(1, pingTimeoutMs),
    };
  }

  /** Gives the call a connection of the present generation, on which it sends its statements. */
  async acquire(call: Call): Promise<PoolClient> {
    const pool = this.#pools[call.purpose];
    for (let hasWaited = false; ; ) {
      if (call.signal?.aborted) throw aborted(call.signal);
      if (this.#failure !== undefined && pool.idleCount === 0 && !hasWaited) {
        await this.#recover(this.#failure, call.signal);
        hasWaited = true;
      }
      const host = this.#host;
      try {
        const client = await this.#checkOut(pool, call.signal);
        const isStale = this.#generations.get(client) !== this.#generation;
        if (isStale || call.signal?.aborted) {
          client.release(isStale);
          continue;
        }
        if (!this.#ready.has(client)) await this.#setUp(client);
        this.#failure = undefined;
        this.#inUse.add(client);
        call.client = client;
        return client;
      } catch (cause) {
        if (cause instanceof DomainError) throw cause;
        // Another call has found the host to use meanwhile.
        if (host !== this.#host) continue;
        const isLast = hasWaited || this.#settings.hosts.length === 1;
        this.#failure = { cause, retryAt: isLast ? performance.now() + reconnectDelayMs : 0 };
        if (isLast) throw cannotConnect(cause);
      }
    }
  }

  release(client: PoolClient): void {
    this.#inUse.delete(client);
    client.release(this.#dead.has(client) || this.#killed.has(client));
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

  /**
   * Among several hosts, leaves the present one unless it accepts a connection soon. A server that hangs, or
   * a network that has lost the route, ends no connection.
   */
  checkHost(): void {
    if (this.#settings.hosts.length === 1 || this.#failure !== undefined) return;
    const host = this.#host;
    this.#check ??= this.#probe(host, this.#settings.pingTimeoutMs)
      .catch((cause: unknown) => {
        // A server that reports an error, such as too many connections, is alive.
        if (host !== this.#host || sqlState(cause) !== undefined) return;
        this.#failure = { cause, retryAt: 0 };
        this.renew();
        for (const client of this.#inUse) {
          this.#killed.add(client);
          client.connection.stream.destroy();
        }
      })
      .finally(() => {
        this.#check = undefined;
      });
  }

  async end(): Promise<void> {
    const pools = Object.values(this.#pools).map((pool) => pool.end());
    await Promise.allSettled([...pools, this.#search, this.#check]);
  }

  #openPool(max: number, connectionTimeoutMillis: number, { url } = this.#host): Pool {
    const pool = this.#createPool({ connectionString: url, max, connectionTimeoutMillis });
    // Without listeners, a connection that the server ends would end the process.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      // Opened at the host before, it may have waited for a server that has since been replaced.
      const isHere = `${client.host}:${client.port}` === this.#host.name;
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

  async #checkOut(pool: Pool, signal: AbortSignal | undefined): Promise<PoolClient> {
    const connecting = pool.connect();
    try {
      return await (signal === undefined ? connecting : unlessLate(connecting, signal));
    } catch (cause) {
      if (!isWaitTimeout(cause)) throw cause;
      // All connections may be in use because the host hangs.
      await this.#check;
      throw this.#failure === undefined ? overloaded() : cannotConnect(this.#failure.cause);
    }
  }

  async #setUp(client: PoolClient): Promise<void> {
    const watchdog = setTimeout(() => this.kill(client), this.#settings.statementTimeoutMs + watchdogGraceMs);
    try {
      await setUpSession(client, this.#settings, this.#warn);
      this.#ready.add(client);
    } catch (cause) {
      client.release(true);
      throw cause;
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** Resolves when the call may open a connection after a failure. */
  async #recover(failure: { cause: unknown; retryAt: number }, signal?: AbortSignal): Promise<void> {
    if (performance.now() < failure.retryAt) throw cannotConnect(failure.cause);
    if (this.#settings.hosts.length === 1) {
      // This call tries for all the others.
      failure.retryAt = performance.now() + reconnectDelayMs;
      return;
    }
    this.#search ??= this.#findHost().finally(() => {
      this.#search = undefined;
    });
    await (signal === undefined ? this.#search : unlessAborted(this.#search, signal));
  }

  async #findHost(): Promise<void> {
    const { hosts, waitTimeoutMs } = this.#settings;
    try {
      this.#moveTo(await findHost(hosts, (host) => this.#probe(host, waitTimeoutMs)));
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = { cause, retryAt: performance.now() + reconnectDelayMs };
      throw cannotConnect(cause);
    }
  }

  /** Fails unless a host accepts a connection in time, and takes writes where they are needed. */
  async #probe(host: Host, timeoutMs: number): Promise<void> {
    const pool = this.#openPool(1, timeoutMs, host);
    try {
      const client = await pool.connect();
      const timer = setTimeout(() => client.connection.stream.destroy(), timeoutMs);
      await this.#setUp(client).finally(() => clearTimeout(timer));
      client.release(true);
    } finally {
      await pool.end();
    }
  }

  #moveTo(host: Host): void {
    this.#host = host;
    this.renew();
    for (const pool of Object.values(this.#pools)) pool.options.connectionString = host.url;
  }
}
