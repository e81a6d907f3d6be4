import { setMaxListeners } from 'node:events';
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { heapLimitBytes } from './in-flight.ts';

/** What is known of a connection from one request to the next. */
export interface Connection {
  /** The response to its newest request; the responses to earlier requests are sent before it. */
  newest: ServerResponse | undefined;
  /** Whether a request is being answered; those pipelined behind it wait. */
  busy: boolean;
  /** Starts each pipelined request that waits. */
  readonly waiting: (() => void)[];
  /** Whether its last response has been given: later requests are not processed (RFC 9112, 9.6). */
  closing: boolean;
  /** Whether the parser has given up on it. */
  failed: boolean;
  /** Aborts when it closes; made on first use. */
  left: AbortSignal | undefined;
  /** The response after which it was found idle, and when that was. */
  idleAfter: ServerResponse | undefined;
  idleSince: number;
}

// Weak, since the server and its connections may be a host's.
const connections = new WeakMap<Duplex, Connection>();

export function connectionOf(socket: Duplex): Connection {
  let connection = connections.get(socket);
  if (connection === undefined) {
    connection = {
      newest: undefined,
      busy: false,
      waiting: [],
      closing: false,
      failed: false,
      left: undefined,
      idleAfter: undefined,
      idleSince: 0,
    };
    connections.set(socket, connection);
  }
  return connection;
}

/**
 * Aborts when the connection closes, which is how a client over HTTP/1 leaves. All requests of a
 * connection share it: one signal for each request took a fiftieth of a GET.
 */
export function leftSignal(socket: Duplex): AbortSignal {
  const connection = connectionOf(socket);
  if (connection.left === undefined) {
    const aborter = new AbortController();
    connection.left = aborter.signal;
    setMaxListeners(0, aborter.signal);
    if (socket.destroyed) aborter.abort();
    else socket.once('close', () => aborter.abort());
  }
  return connection.left;
}

// Beyond this the connection is not read: the end of a connection that is not read goes unnoticed.
const maxWaiting = 16;
// A packet may hold some 1,500 requests, each of which takes about 2 KB once it is parsed.
const maxWaitingInAll = Math.min(10_000, Math.floor(heapLimitBytes / (32 * 1024)));

/**
 * The pipelined requests of all connections: each waits until those before it on its connection are
 * answered. Node parses all the requests of a packet at once: answered together, they would need the memory
 * of all their responses.
 */
export class Pipelines {
  /** Those beyond `maxWaiting` of each connection. */
  #excess = 0;

  wait(socket: Socket, { waiting }: Connection, start: () => void): void {
    if (waiting.length >= maxWaiting) {
      if (this.#excess >= maxWaitingInAll) {
        cut(socket);
        return;
      }
      this.#excess += 1;
    }
    waiting.push(start);
    if (waiting.length !== maxWaiting) return;
    // What the client sends meanwhile stays in the kernel. Node itself resumes the socket after a response.
    const pause = (): void => {
      if (waiting.length >= maxWaiting) socket.pause();
      else socket.off('resume', pause).off('close', forget);
    };
    const forget = (): void => {
      this.#excess -= Math.max(0, waiting.length - maxWaiting);
      waiting.length = 0;
    };
    socket.on('resume', pause).on('close', forget).pause();
  }

  /** Starts the next request of a connection, when the one before it has been answered. */
  startNext(socket: Socket, connection: Connection): void {
    const { waiting } = connection;
    connection.busy = false;
    if (waiting.length === 0 || connection.closing || socket.destroyed) return;
    if (waiting.length > maxWaiting) this.#excess -= 1;
    waiting.shift()?.();
    if (waiting.length === maxWaiting - 1) socket.resume();
  }
}

// Node would parse the rest of the packet, and keep all its requests until the loop comes to close the socket:
// enough of such packets at once would end the process. 2 stops the parser, as before an upgrade.
function cut(socket: Socket): void {
  const parser: unknown = 'parser' in socket ? socket.parser : undefined;
  if (typeof parser === 'object' && parser !== null) Reflect.set(parser, 'onIncoming', () => 2);
  socket.destroy();
}

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
    server.on('connection', (socket: Socket) => {
      this.#add(socket);
      if (this.#admit(socket)) for (const take of takers) take.call(server, socket);
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
      socket.once('close', () => {
        this.#open -= 1;
      });
      return true;
    }
    // Without a listener a reset would end the process.
    socket.on('error', () => undefined);
    const silently = this.#rejecting >= maxRejectingAtOnce;
    if (!silently) {
      this.#rejecting += 1;
      socket.once('close', () => {
        this.#rejecting -= 1;
      });
    }
    reject(socket, silently);
    return false;
  }

  // To Node each byte is a sign of life, the line breaks that may stand before a request too (RFC 9112,
  // 2.2): with one a minute a connection would stay for ever. Requests pay nothing for this check.
  #endIdle(): void {
    const now = performance.now();
    for (const socket of this.#sockets) {
      const connection = connectionOf(socket);
      const last = connection.newest;
      // Until its first request is there, Node's own timer is enough.
      if (last === undefined || !last.writableFinished) continue;
      if (connection.idleAfter !== last) {
        connection.idleAfter = last;
        connection.idleSince = now;
      } else if (now - connection.idleSince > this.#options.maxIdleMs) socket.destroy();
    }
  }
}
