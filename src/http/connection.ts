import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** What is known of a connection from one request to the next. */
export interface Connection {
  /** The reply to its newest request: those to what was pipelined before it come out before it. */
  newest: ServerResponse | undefined;
  /** Whether it has been given its last reply: what follows is not to be processed (RFC 9112, 9.6). */
  closing: boolean;
}

const connections = new WeakMap<Duplex, Connection>();

export function connectionOf(socket: Duplex): Connection {
  let connection = connections.get(socket);
  if (connection === undefined) {
    connection = { newest: undefined, closing: false };
    connections.set(socket, connection);
  }
  return connection;
}
