import type { Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { connectionOf } from './connection.ts';
import { isSecure } from './node-http.ts';

export interface IdleLimit {
  /** For the whole head of the next request to be there, in ms. */
  readonly limitMs: number;
  readonly checkingIntervalMs: number;
}

/**
 * Ends connections on which no other request comes. To Node each byte is a sign of life, and the line
 * breaks that may stand before a request (RFC 9112, 2.2) are bytes: with one a minute a connection would
 * stay for ever. They are looked at from time to time, so that requests pay nothing for it.
 */
export function limitIdle(server: Server, { limitMs, checkingIntervalMs }: IdleLimit): void {
  const sockets = new Map<Duplex, { last: ServerResponse | undefined; since: number }>();
  const check = (): void => {
    const now = performance.now();
    for (const [socket, seen] of sockets) {
      const last = connectionOf(socket).newest;
      // Before its first request Node itself has an eye on it.
      if (last === undefined || !last.writableFinished) continue;
      if (seen.last !== last) {
        seen.last = last;
        seen.since = now;
      } else if (now - seen.since > limitMs) socket.destroy();
    }
  };
  server.on(isSecure(server) ? 'secureConnection' : 'connection', (socket: Duplex) => {
    sockets.set(socket, { last: undefined, since: 0 });
    socket.once('close', () => sockets.delete(socket));
  });
  let timer: NodeJS.Timeout;
  server.on('listening', () => {
    timer = setInterval(check, checkingIntervalMs).unref();
  });
  server.on('close', () => clearInterval(timer));
}
