import { setMaxListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** What is known of a connection from one request to the next. */
export interface Connection {
  /** The reply to its newest request: those to what was pipelined before it come out before it. */
  newest: ServerResponse | undefined;
  /** Whether it has been given its last reply: what follows is not to be processed (RFC 9112, 9.6). */
  closing: boolean;
  /** Aborts when it closes; made when somebody first asks. */
  left: AbortSignal | undefined;
}

const connections = new WeakMap<Duplex, Connection>();

export function connectionOf(socket: Duplex): Connection {
  let connection = connections.get(socket);
  if (connection === undefined) {
    connection = { newest: undefined, closing: false, left: undefined };
    connections.set(socket, connection);
  }
  return connection;
}

/**
 * Aborts when the connection closes, which is how a client over HTTP/1 leaves. One serves all its
 * requests: to make one for each took a fiftieth of a GET.
 */
export function leftSignal(socket: Duplex): AbortSignal {
  const connection = connectionOf(socket);
  if (connection.left === undefined) {
    const aborter = new AbortController();
    connection.left = aborter.signal;
    // Requests may be pipelined, any number of them.
    setMaxListeners(0, aborter.signal);
    if (socket.destroyed) aborter.abort();
    else socket.once('close', () => aborter.abort());
  }
  return connection.left;
}
