import { createServer, type Server, type Socket } from 'node:net';
import type { Engine, TlsOptions, UsersServiceOptions } from './app.ts';
import type { GrpcLimits } from './limits.ts';

/**
 * The port of the gRPC face and its life. What speaks gRPC on it is loaded with the first connection:
 * most copies never see one, and loading takes longer than all the rest of the start.
 *
 * The sockets are ours rather than grpc-js's because its `forceShutdown` ends no connection while
 * channelz is off (1.14.7): one call that never ends would keep the process for ever.
 */
export class GrpcServer {
  readonly #options: UsersServiceOptions;
  readonly #limits: GrpcLimits;
  readonly #maxConnections: number;
  readonly #sockets = new Set<Socket>();
  #tls: TlsOptions | undefined;
  #server: Server | undefined;
  #engine: Promise<Engine> | undefined;
  #serving = false;
  #closing = false;

  /** `maxConnections` is how many may be open at once; 0 for no limit. */
  constructor(options: UsersServiceOptions, limits: GrpcLimits, maxConnections: number) {
    this.#options = options;
    this.#limits = limits;
    this.#maxConnections = maxConnections;
  }

  /** Opens the port; resolves to the one in use. */
  async listen(host: string, port: number, tls?: TlsOptions): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#tls = tls;
    const server = createServer({ noDelay: true }, (socket) => this.#take(socket));
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      server.on('error', (cause) => this.#report(cause));
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
    const bound = await promise;
    this.#server = server;
    return bound;
  }

  /** The certificate of connections from now on; those open keep theirs. */
  setTls(tls: TlsOptions): void {
    this.#tls = tls;
    this.#engine?.then((engine) => engine.setTls(tls)).catch((cause) => this.#report(cause));
  }

  /** What the health service says of all services from now on. */
  setServing(serving: boolean): void {
    this.#serving = serving;
    this.#engine?.then((engine) => engine.setServing(this.#serving)).catch(() => undefined);
  }

  /** Takes no more calls and resolves when those under way have ended; `signal` cuts them off. */
  async close(signal: AbortSignal): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#closing = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    const force = (): void => {
      for (const socket of this.#sockets) socket.destroy();
    };
    server.close(() => resolve());
    if (signal.aborted) force();
    else signal.addEventListener('abort', force, { once: true });
    const engine = await this.#engine?.catch(() => undefined);
    engine?.drain();
    await promise;
    signal.removeEventListener('abort', force);
  }

  async #take(socket: Socket): Promise<void> {
    if (this.#maxConnections > 0 && this.#sockets.size >= this.#maxConnections) {
      const reason = 'too many connections are open';
      // What a client makes of it: UNAVAILABLE.
      this.#options.observe({ type: 'refused', face: 'grpc', status: 14, reason });
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // Its end is what counts; without a listener a reset connection would end the process.
    socket.on('error', () => undefined);
    try {
      this.#engine ??= this.#start();
      const engine = await this.#engine;
      if (this.#closing) socket.destroy();
      else if (!socket.destroyed) engine.accept(socket);
    } catch (cause) {
      this.#engine = undefined;
      this.#report(cause);
      socket.destroy();
    }
  }

  async #start(): Promise<Engine> {
    const { createEngine } = await import('./app.ts');
    const engine = createEngine(this.#options, this.#limits, this.#tls);
    engine.setServing(this.#serving);
    return engine;
  }

  #report(cause: unknown): void {
    this.#options.observe({ type: 'failure', where: 'grpc', cause });
  }
}
