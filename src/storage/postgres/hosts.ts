import type { Client } from 'pg';
import { DomainError, invalid, messageOf } from '../../domain/errors.ts';
import { cannotConnect, sqlState } from './errors.ts';
import { unlessAborted } from './promises.ts';

/** A server. */
export interface Host {
  /** Its `host:port`. */
  readonly name: string;
  /** A URL for it alone. */
  readonly url: string;
}

export type Hosts = readonly [Host, ...Host[]];

/** The optional package `pg`, loaded only for a database. */
export async function loadDriver(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw new Error('a postgres: database needs the package "pg": run npm install pg', { cause });
  }
}

/**
 * Reads the hosts of a database URL as libpq does: `postgres://USER@h1:5432,h2:5432/NAME`, with
 * `target_session_attrs` as `read-write`, `primary` or `any`. Among several hosts the default is
 * `read-write`; one host is taken as it is, so that reads work while it is a standby.
 */
export function parseHosts(driver: typeof Client, url: string): { hosts: Hosts; writable: boolean } {
  const hosts = hostsOf(driver, url);
  const target = new URLSearchParams(url.split('?')[1]).get('target_session_attrs');
  const writable = target === null ? hosts.length > 1 : target === 'read-write' || target === 'primary';
  if (!writable && target !== null && target !== 'any') {
    throw invalid('target_session_attrs', 'must be read-write, primary or any');
  }
  return { hosts, writable };
}

/** The hosts of a database URL, in the order in which they are tried. */
export function hostsOf(driver: typeof Client, url: string): Hosts {
  const [, head = '', names = '', tail = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s.exec(url) ?? [];
  const [first = '', ...others] = names.split(',').map((name) => head + name + tail);
  const toHost = (connectionString: string): Host => {
    try {
      const { host, port } = new driver({ connectionString });
      return { name: `${host}:${port}`, url: connectionString };
    } catch (caught) {
      // The driver's messages name the part of the URL, and not the URL, which may hold a password.
      throw new DomainError('invalid', `the database URL cannot be used: ${messageOf(caught)}`);
    }
  };
  return [toHost(first), ...others.map(toHost)];
}

// The interval of probes to each host while requests wait for a server that accepts writes. Connections of all waiting
// requests would overload a server that takes over.
const askAgainMs = 200;
// A server that is starting should not have to reject thousands of connections.
const reconnectDelayMs = 50;

export interface SearchSettings {
  /** The hosts in order of preference. The found host is used until it fails. */
  readonly hosts: Hosts;
  /** How long a host may take to accept a connection: during a search, and when it seems to hang. */
  readonly waitTimeoutMs: number;
  readonly pingTimeoutMs: number;
}

export interface SearchActions {
  /** Fails unless a host accepts a connection, and accepts writes if they are needed. */
  probe(host: Host, signal: AbortSignal): Promise<void>;
  /** Called when the search has found the host for new connections. */
  onFound(): void;
  /** Called when the current host does not respond. */
  onHang(): void;
}

/** Stores the host for new connections, and finds another when that host fails. */
export class HostSearch {
  readonly #settings: SearchSettings;
  readonly #actions: SearchActions;
  readonly #closing = new AbortController();
  #current: Host;
  #failure: { readonly cause: unknown; retryAt: number } | undefined;
  #search: Promise<void> | undefined;
  /** When the last search began, by `performance.now()`. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #check: Promise<void> | undefined;

  constructor(settings: SearchSettings, actions: SearchActions) {
    this.#settings = settings;
    this.#actions = actions;
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

  /** Reports that a connection to a host could not be opened. Has no effect if another host is current by now. */
  failed(host: Host, cause: unknown): void {
    if (host === this.#current) this.#failure = { cause, retryAt: performance.now() + reconnectDelayMs };
  }

  /** After a failure, resolves when the call may open a connection to the current host. */
  async recover(signal?: AbortSignal): Promise<void> {
    if (this.#failure === undefined) return;
    if (this.hasOthers) {
      this.#search ??= this.#find().finally(() => {
        this.#search = undefined;
      });
      return await unlessAborted(this.#search, signal);
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
        this.failed(host, cause);
        this.#actions.onHang();
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
    await Promise.allSettled([this.#search, this.#check]);
  }

  async #find(): Promise<void> {
    const pauseMs = this.#askedAt + askAgainMs - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    this.#askedAt = performance.now();
    const isOver = new AbortController();
    try {
      this.#current = await this.#firstToPass(isOver.signal);
      this.#failure = undefined;
      this.#actions.onFound();
    } catch (cause) {
      this.failed(this.#current, cause);
      throw cannotConnect(cause);
    } finally {
      isOver.abort(new Error('another host was found'));
    }
  }

  /**
   * Resolves to the first host that passes. Probes all hosts at once, and again at an interval, even without a response
   * to the last probe: a host that hangs delays no other, and is found as soon as it responds again. Fails with the
   * reasons of all hosts when each has failed at least once.
   */
  #firstToPass(isOver: AbortSignal): Promise<Host> {
    const { hosts, waitTimeoutMs } = this.#settings;
    const failures = new Map<Host, unknown>();
    const { promise, resolve, reject } = Promise.withResolvers<Host>();
    const askAll = () => {
      for (const host of hosts) {
        this.#ask(host, AbortSignal.any([isOver, AbortSignal.timeout(waitTimeoutMs)])).then(
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

  #ask(host: Host, signal: AbortSignal): Promise<void> {
    return this.#actions.probe(host, AbortSignal.any([signal, this.#closing.signal]));
  }
}
