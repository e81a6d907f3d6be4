import { addAbortListener, once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { GrpcApp, GrpcOptions } from './app.ts';

// Loading grpc-js blocks the process. The delay lets a client that waits for the ports get its first response earlier.
const loadAfterMs = 1_000;
const sweepEveryMs = 50;
// When closing, how long a client may take to close its connection after its calls, or to go on with its handshake.
const quietMs = 1_000;
// The status that gRPC clients report for a rejected connection (UNAVAILABLE). Importing it would load grpc-js.
const unavailable = 14;

export interface GrpcServerOptions extends GrpcOptions {
  /** Maximum number of open connections; 0 for no limit. */
  readonly maxConnections: number;
}

/**
 * The gRPC port, from opening to closing. grpc-js takes longer to load than all other modules, so it is loaded for
 * the first connection, or soon after the service is listening. This class owns the sockets, because `forceShutdown` of
 * grpc-js 1.14.7 closes no connection while channelz is off.
 */
export class GrpcServer {
  /** The caller opens its port, and handles an error of opening it. */
  readonly server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  readonly #options: GrpcServerOptions;
  readonly #sockets = new Set<Socket>();
  #app: Promise<GrpcApp> | undefined;
  #loading: NodeJS.Timeout | undefined;
  #serving = false;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.server.on('error', (cause) => {
      if (this.server.listening) this.#reportFailure(cause);
    });
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** Sets the status that the health service reports for all services. If it is serving, soon loads grpc-js. */
  setServing(serving: boolean): void {
    this.#serving = serving;
    const load = () => this.#load().catch(this.#reportFailure);
    if (serving) this.#loading = setTimeout(load, loadAfterMs);
    // Each caller of `#load` reports its failure.
    this.#app?.then((app) => app.setServing(this.#serving)).catch(() => undefined);
  }

  /**
   * Stops accepting calls, and resolves when the running ones have ended. A TLS handshake may still begin for `idleMs`.
   * An abort of `signal` closes all connections.
   */
  async close({ idleMs, signal }: { idleMs: number; signal: AbortSignal }): Promise<void> {
    clearTimeout(this.#loading);
    const closed = once(this.server.close(), 'close');
    using _ = addAbortListener(signal, () => {
      for (const socket of this.#sockets) socket.destroy();
    });
    // `#accept` continues first, so that its clients get GOAWAY too. After a reset, grpc-go would fail for a second.
    const app = await this.#app?.catch(() => undefined);
    app?.drain();
    // A lost client never closes its connection. `timeout` is emitted after each quiet time, also after the last call.
    for (const socket of this.#sockets)
      socket.setTimeout(Math.max(quietMs, idleMs)).on('timeout', () => {
        if (!app?.streams.areOpen(socket)) socket.destroy();
      });
    const idleUntil = performance.now() + idleMs;
    const timer = setInterval(() => {
      if (performance.now() < idleUntil) return;
      // Again for connections whose TLS handshake has ended meanwhile.
      app?.drain();
      // Nothing was sent if the first message of the TLS handshake is incomplete. Without TLS, HTTP/2 sends at once.
      for (const socket of this.#sockets) if (socket.bytesWritten === 0) socket.destroy();
    }, sweepEveryMs);
    await closed.finally(() => clearInterval(timer));
    await app?.streams.end();
  }

  async #accept(socket: Socket): Promise<void> {
    const { maxConnections, observe } = this.#options;
    if (maxConnections > 0 && this.#sockets.size >= maxConnections) {
      const reason = 'too many connections are open';
      observe({ type: 'refused', face: 'grpc', status: unavailable, reason });
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // Without this listener, a connection reset would end the process.
    socket.on('error', () => undefined);
    try {
      const app = await this.#load();
      if (socket.destroyed) return;
      app.accept(socket);
    } catch (cause) {
      this.#reportFailure(cause);
      socket.destroy();
    }
  }

  #load(): Promise<GrpcApp> {
    this.#app ??= import('./app.ts').then(({ createGrpcApp }) => {
      const app = createGrpcApp(this.#options);
      app.setServing(this.#serving);
      return app;
    });
    // If a file could not be read, the next connection tries again. A module that failed while it ran never runs again.
    this.#app.catch(() => {
      this.#app = undefined;
    });
    return this.#app;
  }

  readonly #reportFailure = (cause: unknown): void =>
    this.#options.observe({ type: 'failure', where: 'grpc', cause });
}
