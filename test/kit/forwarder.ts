import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A fixed TCP address that forwards to a changing port. */
export interface Forwarder {
  readonly port: number;
  /** The number of connections so far. */
  readonly accepted: number;
  /** Forwards new connections to another port. Existing connections stay. */
  moveTo(port: number): void;
  /** Resets every connection. */
  cut(): void;
  /** Stops forwarding bytes without closing connections, like a network that lost its route. */
  freeze(): void;
  /** Stops forwarding bytes of existing connections only. */
  strand(): void;
  /** Forwards the delayed bytes and all later ones. */
  thaw(): void;
  close(): Promise<void>;
}

export async function openForwarder(target: number, listenOn = 0): Promise<Forwarder> {
  let port = target;
  let frozen = false;
  let accepted = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket, peer: Socket) => {
    sockets.add(socket);
    socket.on('data', (bytes) => peer.write(bytes));
    socket.on('end', () => peer.end());
    socket.on('error', () => peer.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      peer.destroy();
    });
    if (frozen) socket.pause();
  };
  const server = createServer({ allowHalfOpen: true }, (inbound) => {
    accepted += 1;
    const outbound = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    keep(inbound, outbound);
    keep(outbound, inbound);
  });
  server.listen(listenOn, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const cut = () => {
    for (const socket of sockets) {
      // Do not reset a socket that is shutting down: the reset fails, and the process never exits.
      if (socket.writableEnded) socket.destroy();
      else socket.resetAndDestroy();
    }
  };
  const strand = () => {
    for (const socket of sockets) socket.pause();
  };
  return {
    port: address.port,
    get accepted() {
      return accepted;
    },
    moveTo(next) {
      port = next;
    },
    cut,
    freeze() {
      frozen = true;
      strand();
    },
    strand,
    thaw() {
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
    async close() {
      server.close();
      cut();
      await once(server, 'close');
    },
  };
}
