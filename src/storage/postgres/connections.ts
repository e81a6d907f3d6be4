import type { Client } from 'pg';
import { aborted, type DomainError, storeClosed } from '../../domain/errors.ts';
import { Connection, type SessionLimits, type Warn } from './connection.ts';
import { cannotConnect, notInTime, overloaded } from './errors.ts';
import { type Host, HostSearch, type Probe, type SearchSettings } from './hosts.ts';

export interface PoolSettings extends SessionLimits, SearchSettings {
  readonly poolSize: number;
  readonly maxWaiting: number;
}

/** Creates a client of the driver, which is not connected yet. */
export type CreateClient = (url: string) => Client;

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

/** A limited number of connections, and the calls that wait for one in the order of their arrival. */
class ConnectionQueue {
  readonly waitTimeoutMs: number;
  /** How many more connections may be opened. */
  #unopened: number;
  /** How often a call has returned a connection that can be used again. */
  #served = 0;
  readonly #idle: Connection[] = [];
  readonly #waiting = new Set<(given: Connection | undefined) => void>();

  constructor(size: number, waitTimeoutMs: number) {
    this.#unopened = size;
    this.waitTimeoutMs = waitTimeoutMs;
  }

  get hasIdle(): boolean {
    return this.#idle.length > 0;
  }

  /** Resolves to a connection, or to `undefined` if the caller may open one. */
  async take(signal: AbortSignal | undefined): Promise<Connection | undefined> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#unopened > 0) {
      this.#unopened -= 1;
      return undefined;
    }
    const { promise, resolve, reject } = Promise.withResolvers<Connection | undefined>();
    // Leaves the queue at once, so that no connection is given to a call that has stopped waiting.
    const leave = (error: DomainError) => {
      if (this.#waiting.delete(resolve)) reject(error);
    };
    const served = this.#served;
    const timer = setTimeout(() => {
      // The store is overloaded only if other calls were served in the meantime.
      leave(this.#served === served ? notInTime(new Error('all connections are in use')) : overloaded());
    }, this.waitTimeoutMs);
    const abort = () => signal && leave(aborted(signal));
    signal?.addEventListener('abort', abort);
    this.#waiting.add(resolve);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Gives back a connection, or the right to open one, to the call that waits longest. */
  give(connection?: Connection): void {
    if (connection !== undefined) this.#served += 1;
    const [next] = this.#waiting;
    if (next !== undefined) {
      this.#waiting.delete(next);
      next(connection);
    } else if (connection !== undefined) {
      this.#idle.push(connection);
    } else {
      this.#unopened += 1;
    }
  }
}

/** The open connections to one database, with prepared sessions. */
export class Connections {
  readonly #createClient: CreateClient;
  readonly #settings: PoolSettings;
  readonly #warn: Warn;
  readonly hosts: HostSearch;
  /** Pings and followers do not wait for calls: a busy store still responds to pings, and shows its changes at once. */
  readonly #queues: Readonly<Record<Call['purpose'], ConnectionQueue>>;
  readonly #open = new Set<Connection>();
  #isClosed = false;

  constructor(createClient: CreateClient, settings: PoolSettings, warn: Warn) {
    const { poolSize, waitTimeoutMs, pingTimeoutMs } = settings;
    this.#createClient = createClient;
    this.#settings = settings;
    this.#warn = warn;
    this.#queues = {
      calls: new ConnectionQueue(poolSize, waitTimeoutMs),
      feed: new ConnectionQueue(2, waitTimeoutMs),
      pings: new ConnectionQueue(1, pingTimeoutMs),
    };
    const probe: Probe = async (host, timeoutMs, signal) => {
      signal.throwIfAborted();
      const connection = this.#create(host);
      await connection.open(settings, warn, { timeoutMs, signal });
      await connection.close();
    };
    this.hosts = new HostSearch(settings, probe, () => {
      // Ends all calls on the host, but no probe of another host.
      for (const connection of this.#open) {
        if (connection.generation !== undefined) connection.destroy();
      }
    });
  }

  /** Gives the call a connection of the current generation for its statements. */
  async acquire(call: Call): Promise<Connection> {
    const queue = this.#queues[call.purpose];
    for (let hasRecovered = false; ; ) {
      if (this.#isClosed) throw storeClosed();
      if (call.signal?.aborted) throw aborted(call.signal);
      if (this.hosts.failure !== undefined && !queue.hasIdle) {
        if (hasRecovered) throw cannotConnect(this.hosts.failure.cause);
        await this.hosts.recover(call.signal);
        hasRecovered = true;
      }
      call.connection = await queue.take(call.signal);
      if (call.connection === undefined && (this.hosts.failure === undefined || hasRecovered)) {
        call.connection = await this.#tryToOpen(queue);
      }
      const { connection } = call;
      if (connection !== undefined && this.#isUsable(connection) && !call.signal?.aborted) {
        this.hosts.failure = undefined;
        return connection;
      }
      this.release(call);
    }
  }

  /** Returns the connection of a call, or the right to open one. */
  release(call: Call): void {
    const { connection } = call;
    call.connection = undefined;
    const isUsable = connection !== undefined && this.#isUsable(connection);
    if (!isUsable) void connection?.close();
    this.#queues[call.purpose].give(isUsable ? connection : undefined);
  }

  #create(host: Host, generation?: number): Connection {
    if (this.#isClosed) throw storeClosed();
    const connection = new Connection(this.#createClient(host.url), generation);
    this.#open.add(connection);
    connection.client.once('end', () => this.#open.delete(connection));
    return connection;
  }

  /** The reason to reject a call that cannot wait: too many calls wait, or no server is available. */
  refusal(): DomainError {
    return this.hosts.failure === undefined ? overloaded() : cannotConnect(this.hosts.failure.cause);
  }

  /** Abandons a failed connection, and all others of its generation. */
  discard(connection: Connection): void {
    connection.isDead = true;
    // Connections of a later generation were opened after the failure, and remain usable.
    if (connection.generation === this.hosts.generation) this.hosts.generation += 1;
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

  /** Closes all connections. Later calls fail. */
  async end(): Promise<void> {
    this.#isClosed = true;
    await this.hosts.close();
    await Promise.all(Array.from(this.#open, (connection) => connection.close()));
  }

  /** Opens a connection to the current host. Resolves to `undefined` if this fails. */
  async #tryToOpen({ waitTimeoutMs: timeoutMs }: ConnectionQueue): Promise<Connection | undefined> {
    const host = this.hosts.current;
    const startedAt = performance.now();
    let connection: Connection | undefined;
    try {
      const opened = this.#create(host, this.hosts.generation);
      connection = opened;
      const watch = () => {
        // Failures while it was connecting do not concern it: the host has just responded.
        if (host === this.hosts.current) opened.generation = this.hosts.generation;
        return this.watch(opened);
      };
      await opened.open(this.#settings, this.#warn, { timeoutMs, watch });
      return opened;
    } catch (cause) {
      // A host that is too slow for a ping may be fast enough for a call.
      const isTooSlow = connection?.isCut && timeoutMs < this.#settings.waitTimeoutMs;
      if (!isTooSlow) this.hosts.failed(cause, startedAt);
      return undefined;
    }
  }

  #isUsable({ isDead, isCut, generation }: Connection): boolean {
    return !isDead && !isCut && generation === this.hosts.generation;
  }
}
