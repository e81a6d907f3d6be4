import { messageOf } from '../../domain/errors.ts';
import { cannotConnect, sqlState } from './errors.ts';
import type { Host } from './hosts.ts';
import { unlessAborted } from './session.ts';

// The interval of probes to each host while requests wait for a server that accepts writes. Connections of all waiting
// requests would overload a server that takes over.
const askAgainMs = 200;
// A server that is starting should not have to reject thousands of connections.
const reconnectDelayMs = 50;

/** Fails unless a host accepts a connection, and accepts writes if they are needed. */
export type Probe = (host: Host, signal: AbortSignal) => Promise<void>;

export interface SearchSettings {
  /** The hosts in order of preference. The found host is used until it fails. */
  readonly hosts: readonly [Host, ...Host[]];
  /** How long a host may take to accept a connection: during a search, and when it seems to hang. */
  readonly waitTimeoutMs: number;
  readonly pingTimeoutMs: number;
}

/** Stores the host for new connections, and finds another when that host fails. */
export class HostSearch {
  readonly #settings: SearchSettings;
  readonly #probe: Probe;
  readonly #onFound: () => void;
  readonly #onHang: () => void;
  readonly #closing = new AbortController();
  /** Running probes. Some of them end after their search. */
  readonly #probes = new Set<Promise<void>>();
  #current: Host;
  #failure: { readonly cause: unknown; retryAt: number } | undefined;
  #search: Promise<void> | undefined;
  /** When the last search began, by `performance.now()`. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #check: Promise<void> | undefined;

  constructor(settings: SearchSettings, probe: Probe, onFound: () => void, onHang: () => void) {
    this.#settings = settings;
    this.#probe = probe;
    this.#onFound = onFound;
    this.#onHang = onHang;
    [this.#current] = settings.hosts;
  }

  get current(): Host {
    return this.#current;
  }

  /** Whether there are other hosts to try. */
  get hasOthers(): boolean {
    return this.#settings.hosts.length > 1;
  }

  /** Why the last connection could not be opened; `undefined` after a success. */
  get failure(): { readonly cause: unknown } | undefined {
    return this.#failure;
  }

  succeeded(): void {
    this.#failure = undefined;
  }

  failed(cause: unknown): void {
    this.#failure = { cause, retryAt: performance.now() + reconnectDelayMs };
  }

  /** After a failure, resolves when the call may open a connection to the current host. */
  async recover(signal?: AbortSignal): Promise<void> {
    if (this.#failure === undefined) return;
    if (this.hasOthers) {
      this.#search ??= this.#find().finally(() => {
        this.#search = undefined;
      });
      return await (signal === undefined ? this.#search : unlessAborted(this.#search, signal));
    }
    const now = performance.now();
    if (now < this.#failure.retryAt) throw cannotConnect(this.#failure.cause);
    // This call tries on behalf of all others.
    this.#failure.retryAt = now + reconnectDelayMs;
  }

  /**
   * With several hosts, abandons the current one unless it accepts a connection soon. A server that hangs, or a network
   * that has lost the route, closes no connection.
   */
  check(): void {
    if (!this.hasOthers || this.#failure !== undefined) return;
    const host = this.#current;
    this.#check ??= this.#ask(host, AbortSignal.timeout(this.#settings.pingTimeoutMs))
      .catch((cause: unknown) => {
        // A server that reports an error, such as too many connections, is alive.
        if (host !== this.#current || sqlState(cause) !== undefined) return;
        this.failed(cause);
        this.#onHang();
      })
      .finally(() => {
        this.#check = undefined;
      });
  }

  /** Resolves when a running check has ended. */
  async checked(): Promise<void> {
    await this.#check;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled([this.#search, this.#check, ...this.#probes]);
  }

  async #find(): Promise<void> {
    const { hosts, waitTimeoutMs } = this.#settings;
    const pauseMs = this.#askedAt + askAgainMs - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    this.#askedAt = performance.now();
    const isOver = new AbortController();
    const ask = (host: Host) =>
      this.#ask(host, AbortSignal.any([isOver.signal, AbortSignal.timeout(waitTimeoutMs)]));
    try {
      this.#current = await firstToPass(hosts, ask);
      this.#failure = undefined;
      this.#onFound();
    } catch (cause) {
      this.failed(cause);
      throw cannotConnect(cause);
    } finally {
      isOver.abort(new Error('another host was found'));
    }
  }

  #ask(host: Host, signal: AbortSignal): Promise<void> {
    const probe = this.#probe(host, AbortSignal.any([signal, this.#closing.signal]));
    this.#probes.add(probe);
    const forget = () => this.#probes.delete(probe);
    probe.then(forget, forget);
    return probe;
  }
}

/**
 * Resolves to the first host that passes. Probes all hosts at once, and again at an interval, even without a response
 * to the last probe: a host that hangs delays no other, and is found as soon as it responds again. Fails with the
 * reasons of all hosts when each has failed at least once.
 */
export function firstToPass(hosts: readonly Host[], ask: (host: Host) => Promise<void>): Promise<Host> {
  const failures = new Map<Host, unknown>();
  const { promise, resolve, reject } = Promise.withResolvers<Host>();
  const askAll = () => {
    for (const host of hosts) {
      ask(host).then(
        () => resolve(host),
        (cause: unknown) => {
          failures.set(host, cause);
          if (failures.size < hosts.length) return;
          reject(new Error(hosts.map((one) => `${one.name}: ${messageOf(failures.get(one))}`).join('; ')));
        },
      );
    }
  };
  askAll();
  const timer = setInterval(askAll, askAgainMs);
  return promise.finally(() => clearInterval(timer));
}
