import { setMaxListeners } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { heapLimitBytes, type WaitingMemory } from './waiting-memory.ts';

/** What is known of a connection from one request to the next. */
export class Connection {
  /** The response to its newest request until that has ended; those to earlier requests are sent before it. */
  newest: ServerResponse | undefined;
  /** Whether a request is being answered; those pipelined behind it wait. */
  busy = false;
  /** Starts each pipelined request that waits. */
  readonly waiting: (() => void)[] = [];
  /** What those that wait take, as far as their heads say so. */
  waitingBytes = 0;
  /** Reads the connection again; set while it is not read because too much waits. */
  endPause: (() => void) | undefined;
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

// What a pipelined request takes once it is parsed, without its body.
const requestBytes = 2 * 1024;
// What may wait on each connection, before that counts. Beyond it the connection is not read: the end of one that
// is not read goes unnoticed.
const freeBytes = requestBytes * Math.min(16, Math.ceil(heapLimitBytes / (64 * 1024 * 1024)));
// What counts for a connection on which more waits: the requests of a whole packet.
const packetBytes = 3 * 1024 * 1024;

/**
 * Lets a pipelined request wait until those before it on its connection are answered. Node parses all the
 * requests of a packet at once: answered together, they would need the memory of all their responses.
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
  // What the client sends meanwhile stays in the kernel. Node itself resumes the socket after a response.
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

/** Starts the next request of a connection, when the one before it has been answered. */
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

// Node would parse the rest of the packet, and keep all its requests until the loop comes to close the socket:
// enough of such packets at once would end the process. 2 stops the parser, as before an upgrade.
function cut(socket: Socket): void {
  const parser: unknown = 'parser' in socket ? socket.parser : undefined;
  if (typeof parser === 'object' && parser !== null) Reflect.set(parser, 'onIncoming', () => 2);
  socket.destroy();
}
