import { setTimeout as sleep } from 'node:timers/promises';
import { options, readOptions } from '../config.ts';
import { Access } from '../domain/access.ts';
import { checkRange, maxTimerMs } from '../domain/range.ts';
import { checkRepository, type Repository } from '../domain/repository.ts';
import type { GrpcLimits } from '../grpc/app.ts';
import { GrpcServer } from '../grpc/server.ts';
import { fittingConnections } from '../http/memory-budget.ts';
import { scheduler } from '../http/scheduler.ts';
import { HttpServer, type HttpTimeouts, type TlsOptions, tlsOf } from '../http/server.ts';
import { type ApiHooks, createHttpApi, type HttpApi, type RequestListenerOptions } from '../rest/app.ts';
import { openStore } from '../storage/open.ts';
import { storeNumbers } from '../storage/options.ts';
import { type Addresses, fanOut } from '../telemetry/events.ts';
import { Metrics, type MetricsSnapshot, renderMetrics } from '../telemetry/metrics.ts';
import { acceptWaiting, authority, openPort, step } from './ports.ts';

export { fittingConnections } from '../http/memory-budget.ts';
export { certificatesOf, checkPair } from '../http/server.ts';

export interface ServiceOptions extends Omit<RequestListenerOptions, 'repository'> {
  /** `sqlite:PATH`, `postgres://…` or `memory:`. `listen` opens the store, and `close` closes it. */
  readonly database?: string;
  /** The URL of standbys of a `postgres:` database, which answer reads. Default: none. */
  readonly readDatabase?: string | undefined;
  /** An open store to use instead of `database`. The caller closes it. */
  readonly repository?: Repository;
  /** How many changes the store of `database` keeps for `/changes`; `false` for none. Default: 100,000. */
  readonly changesKept?: number | false;
  /** The address that both ports listen on. Default: `127.0.0.1`. */
  readonly host?: string;
  /** 0 for any free port. Default: 3000. */
  readonly port?: number;
  /** 0 for any free port, `false` for no gRPC API. Default: 50051. */
  readonly grpcPort?: number | false;
  /** Certificate and key for both ports. Default: no TLS. */
  readonly tls?: TlsOptions;
  /** Timeouts of the HTTP API, each with its default. */
  readonly timeouts?: Partial<HttpTimeouts>;
  /** Limits of the gRPC API, each with its default. */
  readonly grpcLimits?: Partial<GrpcLimits>;
  /** Maximum number of open connections on each port; fewer with a small heap. 0 for no limit. Default: 10,000. */
  readonly maxConnections?: number;
  /** How long to keep serving after readiness starts to fail, in ms. Default: 0. */
  readonly drainDelayMs?: number;
  /** When closing, how long an idle connection may still send a request, in ms. Default: 250. */
  readonly drainIdleMs?: number;
  /** The body of `GET /metrics`, such as the sum over several services. Default: `metrics()`. */
  readonly renderMetrics?: () => Promise<string>;
}

export interface CloseOptions {
  /** How long running requests may still take before their connections are closed, in ms. Default: 10,000. */
  readonly timeoutMs?: number;
  /** A turn of the process that accepts the connections, for `acceptWaiting`. Default: of this one. @internal */
  readonly turn?: (() => Promise<unknown>) | undefined;
}

const closedEarly = 'the service was closed during its start';

/** Builds a service that does nothing until `listen()`. Throws when an option is unknown or out of its range. */
export function createService(options: ServiceOptions = {}): Service {
  return new Service(options);
}

/** An HTTP API and a gRPC API over the same store. */
export class Service implements AsyncDisposable {
  readonly #options;
  readonly #metrics = new Metrics();
  readonly #observe;
  /** The number and the limit of running gRPC calls. The HTTP API counts its own requests. */
  readonly #gate;
  readonly #access: Access;
  /** The settings of new connections on both ports. */
  #tls: TlsOptions | undefined;
  /** Ends all waiting, and closes the connections of running requests. */
  readonly #cut = new AbortController();
  #state: 'new' | 'starting' | 'serving' | 'draining' | 'closed' = 'new';
  #starting: Promise<Addresses> | undefined;
  #closing: Promise<void> | undefined;
  #repository: Repository | undefined;
  #api: HttpApi | undefined;
  #http: HttpServer | undefined;
  #grpc: GrpcServer | undefined;

  constructor(options: ServiceOptions) {
    this.#options = readOptions(options);
    const { checkingIntervalMs = 1 } = options.timeouts ?? {};
    checkRange('timeouts.checkingIntervalMs', checkingIntervalMs, [1, maxTimerMs]);
    if (options.repository !== undefined) checkRepository(options.repository);
    if (options.repository !== undefined && options.readDatabase !== undefined)
      throw new TypeError('readDatabase needs database, not repository');
    if (options.tls !== undefined) this.#tls = tlsOf(options.tls);
    this.#access = new Access(this.#options.auth, this.#options.apiKeys);
    this.#observe = fanOut(options.observe, this.#metrics.observe);
    if (!['undefined', 'function'].includes(typeof options.renderMetrics))
      throw new TypeError('renderMetrics must be a function');
    this.#gate = { inFlight: 0, maxInFlight: this.#options.limits.maxInFlight };
  }

  /** Opens the store and both ports, or none. May be called once. Fails with a `StartError`, or if `close` ends it. */
  async listen(): Promise<Addresses> {
    if (this.#state !== 'new') throw new Error('a service listens once, and not after close');
    this.#state = 'starting';
    this.#starting = this.#start();
    return await this.#starting;
  }

  async #start(): Promise<Addresses> {
    try {
      const addresses = await this.#open();
      this.#cut.signal.throwIfAborted();
      this.#state = 'serving';
      this.#grpc?.setServing(true);
      const files = this.#api?.files ?? 0;
      this.#observe({ type: 'listening', ...addresses, files });
      const { publicDir = false } = this.#options;
      if (publicDir !== false && files === 0)
        this.#observe({ type: 'warning', message: `the public folder ${publicDir} has no file to serve` });
      return addresses;
    } catch (error) {
      // Report the original error, not the one from cleaning up.
      await this.#release(AbortSignal.abort()).catch(() => undefined);
      this.#state = 'closed';
      throw error;
    }
  }

  async #open(): Promise<Addresses> {
    const { database, readDatabase, host, port, grpcPort, timeouts, limits, grpcLimits } = this.#options;
    // With a small heap, fewer connections fit than the option allows.
    const maxConnections = Math.min(this.#options.maxConnections, fittingConnections);
    const [access, observe] = [this.#access, this.#observe];
    const storeOptions = {
      ...(readDatabase !== undefined && { readDatabase }),
      changesKept: this.#options.changesKept || 0,
      // A write waits even after its client has disconnected, so the limit on connections does not bound its memory.
      maxPendingWrites: Math.min(storeNumbers.maxPendingWrites[0], fittingConnections),
      onCreated: (path: string) => observe({ type: 'created', path }),
      onWarning: (message: string) => observe({ type: 'warning', message }),
      onFailure: (cause: Error) => observe({ type: 'failure', where: 'store', cause }),
      onStandbyRead: this.#metrics.standbyRead,
    };
    const open = () => openStore(database, storeOptions);
    const repository = this.#options.repository ?? (await step('database', open));
    this.#repository = repository;
    this.#cut.signal.throwIfAborted();
    // Read only now: `setTls` may have been called while the store opened.
    const tls = this.#tls;
    const settings = { observe, tls, timeouts, maxHeaders: limits.maxHeaders, maxConnections };
    this.#http = await step('tls', () => new HttpServer(settings));
    const bound = await openPort('port', host, port, this.#http.server);
    const hooks: ApiHooks = {
      access,
      observe,
      bound: { host, address: bound.address, secure: tls !== undefined },
      unreadyReason: () => (this.#state === 'serving' ? undefined : `the service is ${this.#state}`),
      renderMetrics: this.#options.renderMetrics ?? (() => this.metrics()),
    };
    this.#api = await step('publicDir', () => createHttpApi({ ...this.#options, repository }, hooks));
    this.#http.serve(this.#api.listener.onRequest);
    const http = `${tls === undefined ? 'http' : 'https'}://${authority(host, bound.port)}`;
    if (grpcPort === false) return { http };
    this.#grpc = new GrpcServer({
      repository,
      access,
      observe,
      maxConnections,
      gate: this.#gate,
      limits: grpcLimits,
      pacer: scheduler,
      tls: () => this.#tls,
    });
    const grpcBound = await openPort('grpcPort', host, grpcPort, this.#grpc.server);
    return { http, grpc: authority(host, grpcBound.port) };
  }

  /** The metrics of this service, in Prometheus' text format. */
  metrics(): string {
    return renderMetrics(this.counters());
  }

  /** The same numbers as plain data, to add them to the numbers of other processes. */
  counters(): MetricsSnapshot {
    const inFlight = { http: this.#api?.listener.inFlight ?? 0, grpc: this.#gate.inFlight };
    const connections = { http: this.#http?.connections ?? 0, grpc: this.#grpc?.connections ?? 0 };
    const [followers, certificateEnd] = [this.#api?.followers, this.#http?.certificateEnd];
    return this.#metrics.snapshot({ inFlight, connections, followers, certificateEnd });
  }

  /** Sets the certificate for new connections. Throws if the pair cannot be used; before `listen`, `listen` fails. */
  setTls(tls: TlsOptions): void {
    if (this.#tls === undefined) throw new Error('the service has no TLS');
    const settings = tlsOf(tls);
    // Throws when the pair cannot be used, before the gRPC API is changed.
    this.#http?.setTls(settings);
    this.#tls = settings;
  }

  /** Replaces all API keys, from the next request on. Throws when a key is malformed. */
  setApiKeys(keys: readonly string[]): void {
    this.#access.setKeys(keys);
    // Followers connect again, and need a key that is still valid.
    this.#api?.followers?.disconnect();
  }

  /** Reports a failure of the program around the service, which the metrics count too. @internal */
  reportFailure(cause: unknown): void {
    this.#observe({ type: 'failure', where: 'process', cause });
  }

  /**
   * Reports not ready, drains, closes both ports, then the store. Further calls wait for the first call. Their
   * `timeoutMs` can only shorten its deadline. A start that has not ended by then fails, and leaves no port open.
   */
  async close(given: CloseOptions = {}): Promise<void> {
    const { default: preset, range } = options['drain-timeout-ms'];
    const { timeoutMs = preset, turn } = given;
    checkRange('timeoutMs', timeoutMs, range);
    if (this.#closing !== undefined && given.timeoutMs !== undefined)
      AbortSignal.timeout(timeoutMs).addEventListener('abort', () => this.#cut.abort(new Error(closedEarly)));
    this.#closing ??= this.#end(timeoutMs, turn);
    await this.#closing;
  }

  readonly [Symbol.asyncDispose] = (): Promise<void> => this.close();

  async #end(timeoutMs: number, turn: CloseOptions['turn']): Promise<void> {
    const [{ signal }, { drainDelayMs }] = [this.#cut, this.#options];
    if (this.#state === 'new') this.#state = 'closed';
    if (this.#state === 'starting') {
      // A port cannot be closed while it opens. A start that still waits for its store will close the store.
      const late = sleep(timeoutMs, undefined, { signal, ref: false }).catch(() => undefined);
      await Promise.race([this.#starting?.catch(() => undefined), late]);
      if (this.#state === 'starting') this.#cut.abort(new Error(closedEarly));
    }
    if (this.#state !== 'serving') return;
    this.#state = 'draining';
    // After `#closing` is set, because an observer may call `close` too.
    await undefined;
    this.#observe({ type: 'draining' });
    this.#grpc?.setServing(false);
    if (drainDelayMs > 0) await sleep(drainDelayMs, undefined, { signal }).catch(() => undefined);
    try {
      await this.#release(AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]), turn);
    } finally {
      this.#state = 'closed';
      this.#observe({ type: 'closed' });
    }
  }

  async #release(signal: AbortSignal, turn?: CloseOptions['turn']): Promise<void> {
    this.#api?.listener.drain();
    this.#api?.followers?.disconnect();
    const ports = [this.#http, this.#grpc];
    await Promise.all(ports.map((port) => port && acceptWaiting(port.server, signal, turn)));
    await Promise.all(ports.map((port) => port?.close({ idleMs: this.#options.drainIdleMs, signal })));
    if (this.#options.repository === undefined) await this.#repository?.close();
  }
}
