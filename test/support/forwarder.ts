import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A TCP address that stays while what is behind it changes. */
export interface Forwarder {
  readonly port: number;
  /** Sends connections made from now on to another port; those there are stay. */
  moveTo(port: number): void;
  /** Resets every connection. */
  cut(): void;
  /** Stops passing bytes without a word to either side, as a network that lost its route. */
  freeze(): void;
  /** Passes what was held back, and everything after. */
  thaw(): void;
  close(): Promise<void>;
}

export async function openForwarder(target: number): Promise<Forwarder> {
  let port = target;
  let frozen = false;
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
    const outbound = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    keep(inbound, outbound);
    keep(outbound, inbound);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    port: address.port,
    moveTo(next) {
      port = next;
    },
    cut,
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
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
