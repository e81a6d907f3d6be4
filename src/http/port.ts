import { once } from 'node:events';
import type { Server } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import type { Observe } from '../telemetry/events.ts';
import { isSecure } from './node-http.ts';
import type { TlsOptions } from './server.ts';

export interface ClosePortOptions {
  /** How long connections without a request are kept for one more, in milliseconds. */
  readonly idleMs: number;
  /** Cuts off what is left. */
  readonly signal: AbortSignal;
}

// How soon a connection is closed whose reply had begun before it could say so.
const sweepEveryMs = 50;

/** The port of the HTTP face and its life. */
export class HttpPort {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(server: Server, observe: Observe) {
    this.#server = server;
    // Node's own books leave out connections whose TLS handshake is not done.
    for (const event of ['connection', 'secureConnection']) {
      server.on(event, (socket: Socket) => {
        this.#sockets.add(socket);
        socket.once('close', () => this.#sockets.delete(socket));
      });
    }
    server.on('error', (cause) => {
      if (server.listening) observe({ type: 'failure', where: 'http', cause });
    });
  }

  /** Opens the port; resolves to the one in use. */
  async listen(host: string, port: number): Promise<number> {
    const server = this.#server;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
    return await promise;
  }

  /** The certificate of connections from now on; those open keep theirs. */
  setTls(tls: TlsOptions): void {
    if (isSecure(this.#server)) this.#server.setSecureContext(tls);
  }

  /** Takes no more connections and resolves when those open have ended; the replies must ask for it. */
  async close({ idleMs, signal }: ClosePortOptions): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    // `http.Server.close` would cut the idle ones at once, on some of which a request is on its way.
    NetServer.prototype.close.call(this.#server, () => resolve());
    let timer: NodeJS.Timeout;
    const sweep = (): void => {
      // After the next look at the sockets: what has arrived is no longer idle.
      setImmediate(() => {
        // To Node a connection is idle whose last bytes a slow client has still to take.
        if ([...this.#sockets].every((socket) => socket.writableLength === 0)) {
          this.#server.closeIdleConnections();
        }
      });
      timer = setTimeout(sweep, sweepEveryMs);
    };
    timer = setTimeout(sweep, idleMs);
    const force = (): void => {
      for (const socket of this.#sockets) socket.destroy();
    };
    if (signal.aborted) force();
    else signal.addEventListener('abort', force, { once: true });
    await promise;
    signal.removeEventListener('abort', force);
    clearTimeout(timer);
    // Only now has what was cut off been reported.
    await Promise.all([...this.#sockets].map((socket) => once(socket, 'close')));
    // Ends Node's look-out for late requests too.
    this.#server.close();
  }
}
