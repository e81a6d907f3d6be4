import type { Pool, PoolClient } from 'pg';
import { aborted, DomainError } from '../../domain/errors.ts';
import { cannotConnect, isWaitTimeout, messageOf, overloaded } from './errors.ts';
import { kill, type SessionLimits, setUpSession, type Warn } from './session.ts';

export interface ConnectionSettings extends SessionLimits {
  readonly poolSize: number;
  readonly waitTimeoutMs: number;
  readonly pingTimeoutMs: number;
  /** Tried in this order; the one found is kept until it fails. */
  readonly hosts: readonly [Host, ...Host[]];
}

/** A server, by a URL for it alone. */
export interface Host {
  readonly name: string;
  readonly url: string;
}

export type CreatePool = (size: { readonly max: number; readonly connectionTimeoutMillis: number }) => Pool;

/** What waits for a connection, or has one. */
export interface Call {
  readonly kind: 'read' | 'write';
  readonly purpose: 'calls' | 'pings';
  readonly signal?: AbortSignal | undefined;
  /** While statements run on it. */
  client?: PoolClient | undefined;
}

interface HostFailure {
  readonly host: Host;
  readonly cause: unknown;
}

// The server ends a long statement itself, and reports it, unless the network is down.
const watchdogGraceMs = 1_000;
// A server that is starting should not have to refuse each of thousands of calls by itself.
const reconnectDelayMs = 50;

/** Open connections to one database, whose sessions are set up. */
export class Connections {
  readonly #settings: ConnectionSettings;
  readonly #warn: Warn;
  /** One connection is for pings, so that a busy store is not taken for a dead one. */
  readonly #pools: Readonly<Record<'calls' | 'pings', Pool>>;
  /** Where connections are opened now. */
  #host: Host;
  /** When one connection fails, all of its age are suspect: the server may have moved or restarted. */
  #generation = 0;
  readonly #generations = new WeakMap<PoolClient, number>();
  /** Connections whose session is set up. */
  readonly #ready = new WeakSet<PoolClient>();
  /** Connections that have ended, or are of no more use. */
  readonly #dead = new WeakSet<PoolClient>();
  readonly #killed = new WeakSet<PoolClient>();
  /** Why the last connection could not be opened, and when a call may try again. */
  #failure: { readonly cause: unknown; retryAt: number } | undefined;

  constructor(createPool: CreatePool, settings: ConnectionSettings, warn: Warn) {
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = settings;
    this.#settings = settings;
    this.#warn = warn;
    this.#pools = {
      calls: createPool({ max: poolSize, connectionTimeoutMillis: waitTimeoutMs }),
      pings: createPool({ max: 1, connectionTimeoutMillis: pingTimeoutMs }),
    };
    [this.#host] = settings.hosts;
    this.#moveTo(this.#host);
    for (const pool of Object.values(this.#pools)) {
      // Without listeners, a connection that the server ends would end the process.
      pool.on('error', () => {});
      pool.on('connect', (client) => {
        this.#generations.set(client, this.#generation);
        client.on('error', () => this.#dead.add(client));
      });
    }
  }

  /** Gives the call a connection of the present generation, on which it sends its statements. */
  async acquire(call: Call): Promise<PoolClient> {
    const failures: HostFailure[] = [];
    for (;;) {
      if (call.signal?.aborted) throw aborted(call.signal);
      const host = this.#host;
      try {
        const client = await this.#checkOut(this.#pools[call.purpose], call.signal);
        const isStale = this.#generations.get(client) !== this.#generation;
        if (isStale || call.signal?.aborted) {
          client.release(isStale);
          continue;
        }
        call.client = client;
        if (!this.#ready.has(client)) await this.#setUp(client);
        return client;
      } catch (cause) {
        if (cause instanceof DomainError) throw cause;
        failures.push({ host, cause });
        if (failures.length === this.#settings.hosts.length) throw this.#cannotConnect(failures);
        this.#leave(host);
      }
    }
  }

  release(client: PoolClient): void {
    client.release(this.#dead.has(client) || this.#killed.has(client));
  }

  isDead(client: PoolClient): boolean {
    return this.#dead.has(client);
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

  /** Kills the connection when the server does not end what runs on it in time. Cleared by the caller. */
  watch(client: PoolClient): NodeJS.Timeout {
    return setTimeout(() => this.kill(client), this.#settings.statementTimeoutMs + watchdogGraceMs);
  }

  async end(): Promise<void> {
    await Promise.all(Object.values(this.#pools).map((pool) => pool.end()));
  }

  async #checkOut(pool: Pool, signal: AbortSignal | undefined): Promise<PoolClient> {
    if (this.#failure !== undefined && pool.idleCount === 0) {
      if (performance.now() < this.#failure.retryAt) throw cannotConnect(this.#failure.cause);
      // This call tries for all the others.
      this.#failure.retryAt = performance.now() + reconnectDelayMs;
    }
    const connecting = pool.connect();
    try {
      const client = await (signal === undefined ? connecting : unlessLate(connecting, signal));
      this.#failure = undefined;
      return client;
    } catch (cause) {
      throw isWaitTimeout(cause) ? overloaded() : cause;
    }
  }

  async #setUp(client: PoolClient): Promise<void> {
    const watchdog = this.watch(client);
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

  /** Turns to the next host, unless another call has done so already. */
  #leave(host: Host): void {
    if (this.#host !== host) return;
    const { hosts } = this.#settings;
    this.#moveTo(hosts[(hosts.indexOf(host) + 1) % hosts.length] ?? host);
  }

  #moveTo(host: Host): void {
    this.#host = host;
    for (const pool of Object.values(this.#pools)) pool.options.connectionString = host.url;
  }

  #cannotConnect(failures: readonly HostFailure[]): DomainError {
    const cause = failures.length === 1 ? failures[0]?.cause : new Error(failures.map(reasonOf).join('; '));
    this.#failure = { cause, retryAt: performance.now() + reconnectDelayMs };
    return cannotConnect(cause);
  }
}

function reasonOf({ host, cause }: HostFailure): string {
  return `${host.name}: ${messageOf(cause)}`;
}

/** The driver's queue cannot be left: a connection that comes after the signal goes back at once. */
function unlessLate(connecting: Promise<PoolClient>, signal: AbortSignal): Promise<PoolClient> {
  const giveBack = () => connecting.then((client) => client.release()).catch(() => {});
  return unlessAborted(connecting, signal, giveBack);
}

/** Settles at once when the signal aborts. */
export function unlessAborted<T>(result: Promise<T>, signal: AbortSignal, onAbort?: () => void): Promise<T> {
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
