import { addAbortListener } from 'node:events';
import { messageOf, storeClosed, unlessAborted } from '../../domain/errors.ts';
import { Connection, type PoolSettings } from './connection.ts';
import { cannotConnect, isRefusal, sqlState } from './errors.ts';
import type { Host } from './hosts.ts';

// How often to probe each host. A connection of each waiting request would overload a server that starts.
export const probeIntervalMs = 200;

/** Opens connections to one of the hosts, and finds another one when it fails. */
export class HostSearch {
  /** The host that new connections go to. */
  current: Host;
  /** Why the last connection could not be opened; `undefined` after a success. */
  failure: { readonly cause: unknown } | undefined;
  /** Raised when a connection fails. No older one is used again, because the server may have moved or restarted. */
  generation = 0;
  readonly #settings: PoolSettings;
  readonly #open = new Set<Connection>();
  readonly #closing = new AbortController();
  #search: Promise<void> | undefined;
  /** When the last search or confirmation began, by `performance.now()`. */
  #searchedAt = Number.NEGATIVE_INFINITY;
  #check: Promise<unknown> | undefined;
  #confirmation: Promise<void> | undefined;

  constructor(settings: PoolSettings) {
    this.#settings = settings;
    [this.current] = settings.hosts;
  }

  /** Connects to the current host. `undefined` if it seems to have failed; rejects if it works, but refuses more. */
  async open(): Promise<Connection | undefined> {
    const host = this.current;
    try {
      const connection = await this.#connect(host, this.#settings.waitTimeoutMs);
      // Failures while it connected do not matter, unless a search has found another host.
      if (host === this.current) connection.generation = this.generation;
      this.#open.add(connection);
      connection.client.once('end', () => this.#open.delete(connection));
      return connection;
    } catch (cause) {
      if (isRefusal(cause) && [...this.#open].some((one) => this.isUsable(one))) {
        this.#settings.warn(`no further connection to ${host.name} can be opened: ${messageOf(cause)}`);
        throw cannotConnect(cause);
      }
      // A search may have found another host in the meantime.
      if (host === this.current) this.failure = { cause };
      return undefined;
    }
  }

  isUsable({ isDead, generation }: Connection): boolean {
    return !isDead && generation === this.generation;
  }

  /** Whether a usable connection has completed a statement since a time. With `other`, only older ones count. */
  isServing(since: number, other?: Connection): boolean {
    // In the order in which they opened.
    const open = [...this.#open];
    const older = open.slice(0, other && open.indexOf(other));
    return older.some((one) => one.succeededAt > since && this.isUsable(one));
  }

  /** Abandons a failed connection, and all others of its generation. */
  discard({ generation }: Connection): void {
    if (generation === this.generation) this.generation += 1;
  }

  /** Searches for a host. Fails with the reasons of all. */
  recover(signal?: AbortSignal): Promise<void> {
    this.#search ??= this.#find();
    return unlessAborted(this.#search, signal);
  }

  /**
   * With several hosts, abandons the current one unless it accepts a connection soon, or completes a statement. A host
   * that hangs closes no connection, so calls would wait for their timeouts. A pooler may only have no free session.
   */
  check(): void {
    if (this.#settings.hosts.length === 1 || this.failure !== undefined) return;
    const [host, startedAt] = [this.current, performance.now()];
    this.#check ??= this.#probe(host, this.#settings.pingTimeoutMs, this.#closing.signal)
      .catch((cause: unknown) => {
        // A server that reports an error, such as too many connections, is alive.
        const isAlive = this.isServing(startedAt) || sqlState(cause) !== undefined || isRefusal(cause);
        if (isAlive || host !== this.current) return;
        this.failure = { cause };
        this.generation += 1;
        // Ends all running calls.
        for (const connection of this.#open) connection.destroy();
      })
      .finally(() => {
        this.#check = undefined;
      });
  }

  /** After a rejected write, abandons the generation of the connection, unless a new connection is read-only too. */
  confirmReadOnly({ generation }: Connection): Promise<void> | undefined {
    if (generation === this.generation) this.#confirmation ??= this.#confirm();
    return this.#confirmation;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled([this.#search, this.#check]);
    await Promise.all(Array.from(this.#open, (connection) => connection.close()));
  }

  /** Fails unless the host accepts the connection in time, and accepts writes if they are needed. */
  async #connect({ url }: Host, timeoutMs: number, signal?: AbortSignal): Promise<Connection> {
    if (this.#closing.signal.aborted) throw storeClosed();
    return new Connection(this.#settings.createClient(url)).open(this.#settings, timeoutMs, signal);
  }

  /** Resolves to whether the host is read-only. */
  async #probe(host: Host, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const connection = await this.#connect(host, timeoutMs, signal);
    await connection.close();
    return connection.isReadOnly;
  }

  async #confirm(): Promise<void> {
    await this.#pause();
    const probe = this.#probe(this.current, this.#settings.waitTimeoutMs, this.#closing.signal);
    // The address may lead to another server now. If that is read-only too, or full, the open connections serve reads.
    const servesReads = await probe.catch(isRefusal);
    if (!servesReads) this.generation += 1;
    this.#confirmation = undefined;
  }

  async #pause(): Promise<void> {
    const pauseMs = this.#searchedAt + probeIntervalMs - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    this.#searchedAt = performance.now();
  }

  async #find(): Promise<void> {
    await this.#pause();
    // Not `AbortSignal.any`, whose signals Node.js 24.0 to 24.11 keeps for as long as the service runs.
    const probes = new AbortController();
    using _ = addAbortListener(this.#closing.signal, () => probes.abort());
    try {
      const found = await this.#firstToPass(probes.signal);
      this.failure = undefined;
      // Connections to the same host may be lost too, after a loss of power. An only host may just be busy.
      if (this.#settings.hosts.length > 1) this.generation += 1;
      this.current = found;
    } catch (cause) {
      this.failure = { cause };
      throw cannotConnect(cause);
    } finally {
      probes.abort();
      this.#search = undefined;
    }
  }

  /**
   * Resolves to the first host that passes. Probes all at an interval: one that hangs delays none, and is found as soon
   * as it responds. Fails with all reasons when every host fails in the same round.
   */
  #firstToPass(signal: AbortSignal): Promise<Host> {
    const { hosts, waitTimeoutMs } = this.#settings;
    const { promise, resolve, reject } = Promise.withResolvers<Host>();
    const probeAll = () => {
      const probes = hosts.map((host) => this.#probe(host, waitTimeoutMs, signal).then(() => host));
      Promise.any(probes).then(resolve, ({ errors }: AggregateError) => {
        const reasons = hosts.map(({ name }, i) => `${name}: ${messageOf(errors[i])}`);
        const refusal = errors.find(isRefusal);
        reject(hosts.length === 1 ? errors[0] : new Error(reasons.join('; '), refusal && { cause: refusal }));
      });
    };
    probeAll();
    const timer = setInterval(probeAll, probeIntervalMs);
    return promise.finally(() => clearInterval(timer));
  }
}
