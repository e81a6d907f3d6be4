import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import type { GrpcApp, GrpcLimits, GrpcOptions } from './app.ts';

// Loading grpc-js blocks the process: a client that waits for the ports has its first response before that.
const loadAfterMs = 1_000;
// What gRPC clients see when a connection is rejected (UNAVAILABLE), without loading grpc-js for it.
const unavailable = 14;

/**
 * The gRPC port and its life. grpc-js takes longer to load than all the rest, so it is loaded for the first
 * connection, or soon after the service is listening.
 *
 * The sockets are ours because grpc-js's `forceShutdown` ends no connection while channelz is off
 * (1.14.7): one call that never ends would keep the process alive.
 */
export class GrpcServer {
  readonly #options: GrpcOptions;
  readonly #limits: GrpcLimits;
  readonly #maxConnections: number;
  readonly #sockets = new Set<Socket>();
  #tls: SecureContextOptions | undefined;
  #server: Server | undefined;
  #app: Promise<GrpcApp> | undefined;
  #loading: NodeJS.Timeout | undefined;
  #serving = false;
  #closing = false;

  /** `maxConnections` is how many may be open at once; 0 for no limit. */
  constructor(options: GrpcOptions, limits: GrpcLimits, maxConnections: number) {
    this.#options = options;
    this.#limits = limits;
    this.#maxConnections = maxConnections;
  }

  /** Opens the port; resolves to the one in use. */
  async listen(host: string, port: number, tls?: SecureContextOptions): Promise<number> {
    this.#tls = tls;
    const server = createServer({ noDelay: true }, (socket) => this.#accept(socket)).listen({ host, port });
    await once(server, 'listening');
    server.on('error', (cause) => this.#reportFailure(cause));
    this.#server = server;
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /** Sets the certificate for new connections. */
  setTls(tls: SecureContextOptions): void {
    this.#tls = tls;
    this.#app?.then((app) => app.setTls(tls)).catch((cause) => this.#reportFailure(cause));
  }

  /** Sets what the health service reports for all services. */
  setServing(serving: boolean): void {
    this.#serving = serving;
    const load = () => this.#load().catch((cause) => this.#reportFailure(cause));
    if (serving && this.#app === undefined) this.#loading = setTimeout(load, loadAfterMs);
    this.#app?.then((app) => app.setServing(this.#serving)).catch((cause) => this.#reportFailure(cause));
  }

  /** Accepts no more calls and resolves when those in flight have ended; `signal` cuts them off. */
  async close(signal: AbortSignal): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#closing = true;
    clearTimeout(this.#loading);
    const force = (): void => {
      for (const socket of this.#sockets) socket.destroy();
    };
    const closed = once(server.close(), 'close');
    if (signal.aborted) force();
    else signal.addEventListener('abort', force, { once: true });
    const app = await this.#app?.catch(() => undefined);
    app?.drain();
    await closed;
    signal.removeEventListener('abort', force);
  }

  async #accept(socket: Socket): Promise<void> {
    if (this.#maxConnections > 0 && this.#sockets.size >= this.#maxConnections) {
      const reason = 'too many connections are open';
      this.#options.observe({ type: 'refused', face: 'grpc', status: unavailable, reason });
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // Without a listener, a connection reset would end the process.
    socket.on('error', () => undefined);
    try {
      const app = await this.#load();
      if (this.#closing) socket.destroy();
      else if (!socket.destroyed) app.accept(socket);
    } catch (cause) {
      this.#reportFailure(cause);
      socket.destroy();
    }
  }

  #load(): Promise<GrpcApp> {
    this.#app ??= import('./app.ts')
      .then(({ createGrpcApp }) => createGrpcApp(this.#options, this.#limits, this.#tls))
      .then((app) => {
        app.setServing(this.#serving);
        return app;
      });
    // The next connection tries again.
    this.#app.catch(() => {
      this.#app = undefined;
    });
    return this.#app;
  }

  #reportFailure(cause: unknown): void {
    this.#options.observe({ type: 'failure', where: 'grpc', cause });
  }
}
