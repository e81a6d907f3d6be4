import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { connectionOf } from './in-flight.ts';
import { isSecure } from './node-http.ts';
import { turns } from './turns.ts';

export interface ConnectionsOptions {
  /** Connections open at once; 0 for no limit. */
  readonly max: number;
  /** How long a connection waits for the whole head of its next request, in ms; 0 for no limit. */
  readonly maxIdleMs: number;
  /** How often idle connections are looked for, in ms. */
  readonly checkingIntervalMs: number;
  /** Ends a connection beyond the limit; `silently` when too many others are being sent the reason. */
  readonly reject: (socket: Socket, silently: boolean) => void;
}

// A rejected connection stays open until its client has read the reason.
const maxRejectingAtOnce = 100;

/** The open connections of a server: it bounds their number and ends those on which no request comes. */
export class Connections {
  readonly #options: ConnectionsOptions;
  /** Over TLS both the connection and the secure one in it. */
  readonly #sockets = new Set<Socket>();
  #open = 0;
  #rejecting = 0;

  constructor(server: Server, options: ConnectionsOptions) {
    this.#options = options;
    // Before Node's own listeners: its `maxConnections` could send no response, and full workers would
    // pass a connection round in circles.
    const takers = server.listeners('connection');
    server.removeAllListeners('connection');
    // Nothing is read of a connection until it is taken. Over TLS the handshake costs most, wherever it waits.
    const waits = !isSecure(server);
    const take = (socket: Socket): void => {
      if (socket.destroyed) return;
      for (const taker of takers) taker.call(server, socket);
      if (waits) socket.resume();
    };
    Object.assign(server, { pauseOnConnect: waits });
    server.on('connection', (socket: Socket) => {
      this.#add(socket);
      if (!this.#admit(socket)) return;
      if (waits) turns.addConnection(() => take(socket));
      else take(socket);
    });
    server.on('secureConnection', (socket: Socket) => this.#add(socket));
    if (options.maxIdleMs === 0) return;
    let timer: NodeJS.Timeout;
    server.on('listening', () => {
      timer = setInterval(() => this.#endIdle(), options.checkingIntervalMs).unref();
    });
    server.on('close', () => clearInterval(timer));
  }

  /** All of them, also those whose TLS handshake is not done, which Node does not count. */
  get sockets(): readonly Socket[] {
    return [...this.#sockets];
  }

  #add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  #admit(socket: Socket): boolean {
    const { max, reject } = this.#options;
    if (max === 0 || this.#open < max) {
      this.#open += 1;
      socket.once('close', () => (this.#open -= 1));
      return true;
    }
    // Without a listener a reset would end the process.
    socket.on('error', () => undefined);
    const silently = this.#rejecting >= maxRejectingAtOnce;
    if (!silently) {
      this.#rejecting += 1;
      socket.once('close', () => (this.#rejecting -= 1));
    }
    reject(socket, silently);
    return false;
  }

  // To Node each byte is a sign of life, the line breaks that may stand before a request too (RFC 9112,
  // 2.2): with one a minute a connection would stay for ever. Requests pay nothing for this check.
  #endIdle(): void {
    const now = performance.now();
    for (const socket of this.#sockets) {
      const { busy, idleSince } = connectionOf(socket);
      // Until its first request is there, Node's own timer is enough.
      if (idleSince > 0 && !busy && now - idleSince > this.#options.maxIdleMs) socket.destroy();
    }
  }
}
