import { isInRange, maxTimerMs, type Range, rangeText } from './check-range.ts';
import { Deadline } from './deadline.ts';
import { Access } from './domain/access.ts';
import type { Repository } from './domain/repository.ts';
import type { GrpcLimits } from './grpc/app.ts';
import { defaultGrpcLimits, GrpcServer } from './grpc/server.ts';
import { defaultLimits } from './http/limits.ts';
import type { HttpListener } from './http/listener.ts';
import { HttpServer, type HttpTimeouts, type TlsOptions } from './http/server.ts';
import { createHttpApi, type RequestListenerOptions } from './rest/app.ts';
import { authority, openPort, step } from './start-error.ts';
import { openStore } from './storage/open.ts';
import { fanOut } from './telemetry/events.ts';
import { Metrics, type MetricsSnapshot, renderMetrics } from './telemetry/metrics.ts';

export interface ServiceOptions extends Omit<RequestListenerOptions, 'repository' | 'basePath'> {
  /** `sqlite:PATH`, `postgres://…` or `memory:`; opened by `listen`, closed by `close`. */
  readonly database?: string;
  /** A store that exists already, instead of `database`; whoever made it closes it. */
  readonly repository?: Repository;
  /** The address both faces listen on. Default: `127.0.0.1`. */
  readonly host?: string;
  /** 0 for any free port. Default: 3000. */
  readonly port?: number;
  /** 0 for any free port, `false` for no gRPC face. Default: 50051. */
  readonly grpcPort?: number | false;
  /** Certificate and key for both faces. Default: none, plain text. */
  readonly tls?: TlsOptions;
  readonly timeouts?: Partial<HttpTimeouts>;
  readonly grpcLimits?: Partial<GrpcLimits>;
  /** Connections at once on each port; more are refused. 0 for no limit. Default: 10,000. */
  readonly maxConnections?: number;
  /** Normal service between the news that this copy is going and its going, in ms. Default: 0. */
  readonly drainDelayMs?: number;
  /**
   * How long a connection without a request is then kept for one more, in ms: clients whose pauses are
   * shorter lose none. Default: 250.
   */
  readonly drainIdleMs?: number;
  /** What `GET /metrics` answers, such as the sum over several services. Default: `metrics()`. */
  readonly renderMetrics?: () => Promise<string>;
}

export interface Addresses {
  /** Base address of the HTTP face, such as `http://127.0.0.1:3000`. */
  readonly http: string;
  /** `host:port` of the gRPC face, unless it is off. */
  readonly grpc?: string;
}

export interface CloseOptions {
  /** How long requests under way may still take, in ms; then they are cut off. Default: 10,000. */
  readonly timeoutMs?: number;
}

/** Two faces over one store, with one life. */
export interface Service extends AsyncDisposable {
  /** Opens the store and both ports, or none of them. Once. Fails with a `StartError`. */
  listen(): Promise<Addresses>;
  /** Another certificate for new connections; those open keep theirs. Fails when it is no good. */
  setTls(tls: TlsOptions): void;
  /** What this service has counted, in Prometheus' text format. */
  metrics(): string;
  /** The same numbers as plain data, which can be added to those of other processes. */
  counters(): MetricsSnapshot;
  /**
   * Ends in order: not ready, drained, closed, the store last. More calls wait for the first; one with
   * a `timeoutMs` of its own cuts it short after so long.
   */
  close(options?: CloseOptions): Promise<void>;
}

export const defaultTimeouts: HttpTimeouts = Object.freeze({
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  // Above the idle time of the balancers in use (AWS 60 s, nginx 75 s less its margin): the side that
  // closes first must be the client's, or a request meets a closing connection.
  keepAliveTimeoutMs: 72_000,
});

const defaultMaxConnections = 10_000;
const defaultCloseTimeoutMs = 10_000;
const defaultDrainIdleMs = 250;

/** Builds a service that does nothing until `listen()`. Throws when an option is out of its range. */
export function createService(options: ServiceOptions = {}): Service {
  checkOptions(options);
  return new RunningService(options);
}

class RunningService implements Service {
  readonly #options: ServiceOptions;
  readonly #metrics = new Metrics();
  readonly #observe;
  readonly #gate;
  readonly #deadline = new Deadline();
  #state: 'new' | 'starting' | 'serving' | 'draining' | 'closed' = 'new';
  #starting: Promise<Addresses> | undefined;
  #closing: Promise<void> | undefined;
  #repository: Repository | undefined;
  #face: HttpListener | undefined;
  #http: HttpServer | undefined;
  #grpc: GrpcServer | undefined;

  constructor(options: ServiceOptions) {
    this.#options = Object.freeze({ ...options });
    this.#observe = fanOut(options.observe, (event) => this.#metrics.observe(event));
    this.#gate = { inFlight: 0, maxInFlight: options.limits?.maxInFlight ?? defaultLimits.maxInFlight };
  }

  async listen(): Promise<Addresses> {
    if (this.#state !== 'new') throw new Error('a service listens once');
    this.#state = 'starting';
    this.#starting = this.#start();
    return await this.#starting;
  }

  async #start(): Promise<Addresses> {
    try {
      const addresses = await this.#open();
      this.#state = 'serving';
      this.#grpc?.setServing(true);
      this.#observe({ type: 'listening', ...addresses });
      return addresses;
    } catch (error) {
      this.#deadline.hasten(0);
      // The first failure is the one to tell.
      await this.#release().catch(() => undefined);
      this.#state = 'closed';
      throw error;
    }
  }

  async #open(): Promise<Addresses> {
    const { host = '127.0.0.1', port = 3000, grpcPort = 50051, tls } = this.#options;
    const { database = 'sqlite:./data/users.db' } = this.#options;
    const repository = this.#options.repository ?? (await step('database', () => openStore(database)));
    this.#repository = repository;
    const face = await step('publicDir', () => this.#createFace(repository));
    this.#face = face;
    const server = await step(
      'tls',
      () =>
        new HttpServer({
          listener: face.listener,
          timeouts: { ...defaultTimeouts, ...this.#options.timeouts },
          maxConnections: this.#options.maxConnections ?? defaultMaxConnections,
          observe: this.#observe,
          ...(tls && { tls }),
        }),
    );
    this.#http = server;
    const bound = await openPort('port', host, port, (...at) => server.listen(...at));
    const http = `${tls === undefined ? 'http' : 'https'}://${authority(host, bound)}`;
    return grpcPort === false ? { http } : { http, grpc: await this.#openGrpc(repository, host, grpcPort) };
  }

  #createFace(repository: Repository): HttpListener {
    return createHttpApi(
      { ...this.#options, repository },
      {
        observe: this.#observe,
        refusal: () => (this.#state === 'serving' ? undefined : `the service is ${this.#state}`),
        renderMetrics: this.#options.renderMetrics ?? (() => this.metrics()),
      },
    );
  }

  async #openGrpc(repository: Repository, host: string, port: number): Promise<string> {
    const access = new Access(this.#options.auth ?? 'none', this.#options.apiKeys ?? []);
    const grpc = new GrpcServer(
      { repository, access, gate: this.#gate, observe: this.#observe },
      { ...defaultGrpcLimits, ...this.#options.grpcLimits },
      this.#options.maxConnections ?? defaultMaxConnections,
    );
    this.#grpc = grpc;
    const bound = await openPort('grpcPort', host, port, (...at) => grpc.listen(...at, this.#options.tls));
    return authority(host, bound);
  }

  metrics(): string {
    return renderMetrics(this.counters());
  }

  counters(): MetricsSnapshot {
    return this.#metrics.snapshot({ http: this.#face?.inFlight ?? 0, grpc: this.#gate.inFlight });
  }

  setTls(tls: TlsOptions): void {
    if (this.#options.tls === undefined) throw new Error('the service has no TLS');
    // Throws when the pair is no good, before the other face has it.
    this.#http?.setTls(tls);
    this.#grpc?.setTls(tls);
  }

  close({ timeoutMs }: CloseOptions = {}): Promise<void> {
    if (this.#closing !== undefined && timeoutMs !== undefined) this.#deadline.hasten(timeoutMs);
    this.#closing ??= this.#end(timeoutMs ?? defaultCloseTimeoutMs);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #end(timeoutMs: number): Promise<void> {
    // Never started, it never will. A port that is just opening cannot be closed; a failed start has
    // let go of everything.
    if (this.#state === 'new') this.#state = 'closed';
    await this.#starting?.catch(() => undefined);
    if (this.#state !== 'serving') return;
    this.#state = 'draining';
    this.#observe({ type: 'draining' });
    this.#grpc?.setServing(false);
    await this.#deadline.sleep(this.#options.drainDelayMs ?? 0);
    this.#deadline.hasten(timeoutMs);
    try {
      await this.#release();
    } finally {
      this.#state = 'closed';
      this.#observe({ type: 'closed' });
    }
  }

  async #release(): Promise<void> {
    const { signal } = this.#deadline;
    this.#face?.drain();
    const idleMs = this.#options.drainIdleMs ?? defaultDrainIdleMs;
    await Promise.all([this.#http?.close({ idleMs, signal }), this.#grpc?.close(signal)]);
    this.#deadline.clear();
    if (this.#options.repository === undefined) await this.#repository?.close();
  }
}

function checkOptions({ port, grpcPort, drainDelayMs, drainIdleMs, ...options }: ServiceOptions): void {
  const ports = { port, grpcPort: grpcPort === false ? undefined : grpcPort };
  checkGiven('', ports, [0, 65_535]);
  checkGiven('', { drainDelayMs, drainIdleMs }, [0, maxTimerMs]);
  checkGiven('', { maxConnections: options.maxConnections }, [0, 1_000_000]);
  checkGiven('timeouts.', options.timeouts, [0, maxTimerMs]);
  checkGiven('grpcLimits.', options.grpcLimits, [1, maxTimerMs]);
}

function checkGiven(prefix: string, values: object | undefined, range: Range): void {
  for (const [name, value] of Object.entries(values ?? {})) {
    if (value !== undefined && !isInRange(value, range)) {
      throw new RangeError(`${prefix}${name} must be ${rangeText(range)}, not ${value}`);
    }
  }
}
