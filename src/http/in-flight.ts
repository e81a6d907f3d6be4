import { setMaxListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { heapLimitBytes } from './waiting-memory.ts';

/** What is known of a connection from one request to the next. */
export class Connection {
  /** The response to its newest request until that has ended; those to earlier requests are sent before it. */
  newest: ServerResponse | undefined;
  /** Whether a request is being answered; those pipelined behind it wait. */
  busy = false;
  /** Starts each pipelined request that waits. */
  readonly waiting: (() => void)[] = [];
  /** Whether its last response has been given: later requests are not processed (RFC 9112, 9.6). */
  closing = false;
  /** Whether the parser has given up on it. */
  failed = false;
  /** Aborts when it closes; made on first use. */
  left: AbortSignal | undefined;
  /** When its last response ended, by `performance.now()`; 0 before the first. */
  idleSince = 0;
}

// Weak, since the server and its connections may be a host's.
const connections = new WeakMap<Duplex, Connection>();

export function connectionOf(socket: Duplex): Connection {
  const known = connections.get(socket);
  if (known !== undefined) return known;
  const connection = new Connection();
  connections.set(socket, connection);
  return connection;
}

/**
 * Aborts when the connection closes, which is how a client over HTTP/1 leaves. All requests of a
 * connection share it.
 */
export function leftSignal(connection: Connection, socket: Duplex): AbortSignal {
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

const turnMs = 2;
// How many turns in a row may pass without a start while connections arrive.
const maxIdleTurns = 64;

/**
 * Starts requests in turns, each one turn of the event loop. In each the loop accepts one connection and
 * reads what has arrived: if all that arrives were started at once, turns would be long, and a probe on a
 * new connection would wait behind hundreds of them. While connections arrive, accepting them goes first.
 */
export class Turns {
  readonly #queue: (() => void)[] = [];
  /** Requests that have started go on before others start. */
  readonly #started: (() => void)[] = [];
  /** When the present turn began; `undefined` between turns. */
  #startedAt: number | undefined;
  #connected = false;
  /** Turns in a row in which a connection arrived. */
  #arrivals = 0;
  #idleTurns = 0;

  /** Whether a request that arrives now may start at once. */
  isOpen(now: number): boolean {
    return this.#hasTime(now) && this.#arrivals < 2 && this.#queue.length === 0;
  }

  #hasTime(now: number): boolean {
    if (this.#startedAt === undefined) {
      this.#startedAt = now;
      setImmediate(this.#next);
    }
    return this.#started.length === 0 && now - this.#startedAt < turnMs;
  }

  /** Starts a request for which the present turn is not open, behind those that wait already. */
  enqueue(start: () => void): void {
    this.#queue.push(start);
  }

  /** When a request that has started may go on: at once, or in a later turn when the present one is over. */
  wait(): Promise<void> | undefined {
    if (this.#hasTime(performance.now())) return undefined;
    return new Promise((resolve) => this.#started.push(resolve));
  }

  /** Reports that a connection has sent its first request: others may be waiting to be accepted. */
  connected(): void {
    this.#connected = true;
  }

  readonly #next = async (): Promise<void> => {
    this.#arrivals = this.#connected ? this.#arrivals + 1 : 0;
    this.#connected = false;
    const yields = this.#arrivals > 0 && this.#idleTurns < maxIdleTurns;
    this.#idleTurns = yields ? this.#idleTurns + 1 : 0;
    const end = performance.now() + turnMs;
    while (!yields && performance.now() < end) {
      const start = this.#started.shift() ?? this.#queue.shift();
      if (start === undefined) break;
      start();
      // It goes on before another is started.
      await undefined;
    }
    if (this.#started.length + this.#queue.length > 0) setImmediate(this.#next);
    else this.#startedAt = undefined;
  };
}
