import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { connectionOf } from './in-flight.ts';
import { isSecure } from './node-http.ts';
import { turns } from './turns.ts';

export interface ConnectionsOptions {
  /** Maximum number of open connections; 0 for no limit. */
  readonly max: number;
  /** How long a connection waits for the whole head of its next request, in ms; 0 for no limit. */
  readonly maxIdleMs: number;
  /** Interval between checks for idle connections, in ms. */
  readonly checkingIntervalMs: number;
  /** Ends a connection beyond the limit; `silently` while too many others are being sent an error response. */
  readonly reject: (socket: Socket, silently: boolean) => void;
}

// A rejected connection stays open until its client has read the error response.
const maxRejectingAtOnce = 100;

/** Limits the number of open connections of a server, and closes idle ones. */
export class Connections {
  readonly #options: ConnectionsOptions;
  /** With TLS, both the plain connection and the secure one in it. */
  readonly #sockets = new Set<Socket>();
  #open = 0;
  #rejecting = 0;

  constructor(server: Server, options: ConnectionsOptions) {
    this.#options = options;
    // Runs before Node's own listeners. Node's `maxConnections` cannot send a response, and full workers would
    // pass a connection to each other endlessly.
    const takers = server.listeners('connection');
    server.removeAllListeners('connection');
    // A connection waits for its turn before it is read. With TLS it does not, because the handshake costs most.
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

  /** All connections, including those in their TLS handshake, which Node does not count. */
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
    // Without this listener, a connection reset would end the process.
    socket.on('error', () => undefined);
    const silently = this.#rejecting >= maxRejectingAtOnce;
    if (!silently) {
      this.#rejecting += 1;
      socket.once('close', () => (this.#rejecting -= 1));
    }
    reject(socket, silently);
    return false;
  }

  // Node restarts its idle timer at every byte, even at line breaks before a request (RFC 9112, 2.2), so one byte a
  // minute could keep a connection open for ever. This check costs nothing for each request.
  #endIdle(): void {
    const now = performance.now();
    for (const socket of this.#sockets) {
      const { busy, idleSince } = connectionOf(socket);
      // Before the first request, Node's own timer is enough.
      if (idleSince > 0 && !busy && now - idleSince > this.#options.maxIdleMs) socket.destroy();
    }
  }
}
