import { setMaxListeners } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { heapLimitBytes, type WaitingMemory } from './waiting-memory.ts';

/** The state of a connection between requests. */
export class Connection {
  /** The response to the newest request until it has ended. Responses to earlier requests are sent before it. */
  newest: ServerResponse | undefined;
  /** Whether a request is being handled. Requests pipelined after it wait. */
  busy = false;
  /** Functions that start the waiting pipelined requests. */
  readonly waiting: (() => void)[] = [];
  /** The size of the waiting requests, according to their heads. */
  waitingBytes = 0;
  /** Resumes reading the connection. Set only while reading is paused because too many requests wait. */
  endPause: (() => void) | undefined;
  /** Whether the last response has been sent: later requests are not processed (RFC 9112, 9.6). */
  closing = false;
  /** Whether the parser has failed. */
  failed = false;
  /** Aborts when the connection closes; created on first use. */
  left: AbortSignal | undefined;
  /** When the last response ended, by `performance.now()`; 0 before the first one. */
  idleSince = 0;
}

// Weak, since the server and its connections may belong to a host application.
const connections = new WeakMap<Duplex, Connection>();

export function connectionOf(socket: Duplex): Connection {
  const known = connections.get(socket);
  if (known !== undefined) return known;
  const connection = new Connection();
  connections.set(socket, connection);
  return connection;
}

/**
 * Aborts when the connection closes, because an HTTP/1 client cancels by closing it. All requests of a connection
 * share this signal.
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

// The memory of a parsed pipelined request without its body.
const requestBytes = 2 * 1024;
// How much may wait on each connection without being counted. Beyond it, reading pauses, and a paused connection
// cannot notice that its client has disconnected.
const freeBytes = requestBytes * Math.min(16, Math.ceil(heapLimitBytes / (64 * 1024 * 1024)));
// The amount that counts for a connection beyond that limit: the requests of a whole packet.
const packetBytes = 3 * 1024 * 1024;

/**
 * Delays a pipelined request until the earlier ones on its connection have their responses. Node parses all requests
 * of a packet at once. Handling them together would need memory for all their responses.
 */
export function waitInLine(
  { socket, headers }: IncomingMessage,
  connection: Connection,
  memory: WaitingMemory,
  start: () => void,
): void {
  const { waiting } = connection;
  waiting.push(start);
  const chunked = headers['transfer-encoding'] !== undefined;
  connection.waitingBytes += requestBytes + (chunked ? packetBytes : Number(headers['content-length'] ?? 0));
  if (connection.waitingBytes <= freeBytes || connection.endPause !== undefined) return;
  if (memory.isShort) {
    cut(socket);
    return;
  }
  memory.hold(connection, packetBytes);
  // Further bytes of the client stay in the kernel. Node itself resumes the socket after a response.
  const pause = (): void => {
    socket.pause();
  };
  const endPause = (): void => {
    connection.endPause = undefined;
    memory.hold(connection, 0);
    socket.off('resume', pause).off('close', endPause).resume();
  };
  connection.endPause = endPause;
  socket.on('resume', pause).on('close', endPause).pause();
}

/** Starts the next request of a connection after the previous one has its response. */
export function startNext(socket: Socket, connection: Connection): void {
  const { waiting } = connection;
  connection.busy = false;
  if (waiting.length === 0 || connection.closing || socket.destroyed) return;
  const start = waiting.shift();
  if (waiting.length === 0) {
    connection.waitingBytes = 0;
    connection.endPause?.();
  }
  start?.();
}

// Node would parse the rest of the packet, and keep all its requests until the event loop closes the socket. Many
// such packets at once would exhaust the memory. 2 stops the parser, as before an upgrade.
function cut(socket: Socket): void {
  const parser: unknown = 'parser' in socket ? socket.parser : undefined;
  if (typeof parser === 'object' && parser !== null) Reflect.set(parser, 'onIncoming', () => 2);
  socket.destroy();
}
