import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A TCP address that stays while what is behind it changes. */
export interface Forwarder {
  readonly port: number;
  /** How many connections there have been. */
  readonly accepted: number;
  /** Sends connections made from now on to another port; those there are stay. */
  moveTo(port: number): void;
  /** Resets every connection. */
  cut(): void;
  /** Stops passing bytes without a word to either side, as a network that lost its route. */
  freeze(): void;
  /** As `freeze`, but for the connections there are: those made from now on pass. */
  strand(): void;
  /** Passes what was held back, and everything after. */
  thaw(): void;
  close(): Promise<void>;
}

export async function openForwarder(target: number): Promise<Forwarder> {
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
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const cut = () => {
    for (const socket of sockets) {
      // A socket that is shutting down cannot be reset, and a process that tries never ends.
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
