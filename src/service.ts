import { Access } from './domain/access.ts';
import type { Repository } from './domain/repository.ts';
import { defaultGrpcLimits, type GrpcLimits } from './grpc/limits.ts';
import { GrpcServer } from './grpc/server.ts';
import type { HttpListener } from './http/listener.ts';
import { createHttpServer, type HttpTimeouts, listen, type TlsOptions } from './http/server.ts';
import { Metrics } from './metrics.ts';
import {
  createHttpFace,
  defaultLimits,
  meteredObserve,
  type RequestListenerOptions,
} from './request-listener.ts';
import { openStore } from './storage/open.ts';

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
  /** Normal service between the news that this copy is going and its going, in ms. Default: 0. */
  readonly drainDelayMs?: number;
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
  /** Opens the store and both ports, or none of them. Once. */
  listen(): Promise<Addresses>;
  /** Ends in order: not ready, drained, closed, the store last. More calls wait for the first. */
  close(options?: CloseOptions): Promise<void>;
}

export const defaultTimeouts: HttpTimeouts = Object.freeze({
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  // Above the idle time of the balancers in use (AWS 60 s, nginx 75 s less its margin): the side that
  // closes first must be the client's, or a request meets a closing connection.
  keepAliveTimeoutMs: 72_000,
});

const defaultCloseTimeoutMs = 10_000;

/** Builds a service that does nothing until `listen()`. */
export function createService(options: ServiceOptions = {}): Service {
  return new RunningService(options);
}

class RunningService implements Service {
  readonly #options: ServiceOptions;
  readonly #metrics = new Metrics();
  readonly #observe;
  readonly #gate;
  #state: 'new' | 'starting' | 'serving' | 'draining' | 'closed' = 'new';
  #starting: Promise<Addresses> | undefined;
  #closing: Promise<void> | undefined;
  #repository: Repository | undefined;
  #face: HttpListener | undefined;
  #http: ReturnType<typeof createHttpServer> | undefined;
  #grpc: GrpcServer | undefined;

  constructor(options: ServiceOptions) {
    this.#options = Object.freeze({ ...options });
    this.#observe = meteredObserve(this.#metrics, options.observe);
    this.#gate = { inFlight: 0, maxInFlight: options.limits?.maxInFlight ?? defaultLimits.maxInFlight };
  }

  async listen(): Promise<Addresses> {
    if (this.#state !== 'new') throw new Error('a service listens once');
    this.#state = 'starting';
    this.#starting = this.#open();
    try {
      return await this.#starting;
    } catch (error) {
      await this.#release(AbortSignal.abort());
      this.#state = 'closed';
      throw error;
    }
  }

  async #open(): Promise<Addresses> {
    const { host = '127.0.0.1', port = 3000, grpcPort = 50051, database, tls } = this.#options;
    const repository = this.#options.repository ?? (await openStore(database ?? 'sqlite:./data/users.db'));
    this.#repository = repository;
    this.#face = createHttpFace(
      { ...this.#options, repository },
      {
        observe: this.#observe,
        refusal: () => (this.#state === 'serving' ? undefined : `the service is ${this.#state}`),
        renderMetrics: () => this.#renderMetrics(),
      },
    );
    this.#http = createHttpServer({
      listener: this.#face.listener,
      timeouts: { ...defaultTimeouts, ...this.#options.timeouts },
      observe: this.#observe,
      ...(tls && { tls }),
    });
    const bound = await listen(this.#http, port, host);
    const http = `${tls === undefined ? 'http' : 'https'}://${authority(host, bound.port)}`;
    const grpc = grpcPort === false ? {} : { grpc: await this.#openGrpc(repository, host, grpcPort) };
    const addresses = { http, ...grpc };
    this.#state = 'serving';
    this.#observe({ type: 'listening', ...addresses });
    return addresses;
  }

  async #openGrpc(repository: Repository, host: string, port: number): Promise<string> {
    const access = new Access(this.#options.auth ?? 'none', this.#options.apiKeys ?? []);
    this.#grpc = new GrpcServer(
      { repository, access, gate: this.#gate, observe: this.#observe },
      { ...defaultGrpcLimits, ...this.#options.grpcLimits },
    );
    const bound = await this.#grpc.listen(host, port, this.#options.tls);
    this.#grpc.setServing(true);
    return authority(host, bound);
  }

  #renderMetrics(): string {
    return this.#metrics.render({ http: this.#face?.inFlight ?? 0, grpc: this.#gate.inFlight });
  }

  close({ timeoutMs = defaultCloseTimeoutMs }: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#end(timeoutMs);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #end(timeoutMs: number): Promise<void> {
    // A port that is just opening cannot be closed; a failed start has let go of everything.
    await this.#starting?.catch(() => undefined);
    if (this.#state === 'serving') {
      this.#state = 'draining';
      this.#observe({ type: 'draining' });
      this.#grpc?.setServing(false);
      await delay(this.#options.drainDelayMs ?? 0);
      await this.#release(AbortSignal.timeout(timeoutMs));
      this.#observe({ type: 'closed' });
    }
    this.#state = 'closed';
  }

  async #release(deadline: AbortSignal): Promise<void> {
    this.#face?.drain();
    await Promise.all([closeHttp(this.#http, deadline), this.#grpc?.close(deadline)]);
    if (this.#options.repository === undefined) await this.#repository?.close();
  }
}

async function closeHttp(server: ReturnType<typeof createHttpServer> | undefined, deadline: AbortSignal) {
  if (server === undefined) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const force = () => server.closeAllConnections();
  server.close(() => resolve());
  if (deadline.aborted) force();
  else deadline.addEventListener('abort', force, { once: true });
  await promise;
  deadline.removeEventListener('abort', force);
}

function authority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

async function delay(ms: number): Promise<void> {
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
}
