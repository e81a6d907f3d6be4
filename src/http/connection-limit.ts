import type { Server } from 'node:http';
import type { Socket } from 'node:net';

// Those that were turned away stay open until they have read why. In a flood of them most are not told.
const maxToldAtOnce = 100;

export interface ConnectionLimit {
  /** Connections open at once; 0 for no limit. */
  readonly max: number;
  /** Says no, and ends the connection. */
  readonly tell: (socket: Socket) => void;
  /** Ends the connection without a word. */
  readonly drop: (socket: Socket) => void;
}

/**
 * Turns connections away beyond a number of them, before Node has made anything of them. Its own
 * `maxConnections` could answer none, and among workers that are all full passes them round in circles.
 */
export function limitConnections(server: Server, { max, tell, drop }: ConnectionLimit): void {
  if (max === 0) return;
  const takers = server.listeners('connection');
  let open = 0;
  let told = 0;
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (open < max) {
      open += 1;
      socket.once('close', () => {
        open -= 1;
      });
      for (const take of takers) take.call(server, socket);
      return;
    }
    // Nobody else listens: a reset would end the process.
    socket.on('error', () => undefined);
    if (told >= maxToldAtOnce) return drop(socket);
    told += 1;
    socket.once('close', () => {
      told -= 1;
    });
    tell(socket);
  });
}
