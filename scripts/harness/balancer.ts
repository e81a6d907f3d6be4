import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** One address for several servers. Each connection goes to the next server that accepts it. */
export class Balancer {
  readonly #ports: () => readonly number[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #turn = 0;

  constructor(ports: () => readonly number[]) {
    this.#ports = ports;
    this.#server = createServer((client) => {
      // It may close its connection before a server accepts it.
      client.on('error', () => undefined);
      this.#take(client);
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : address}`;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #take(client: Socket, attempt = 0): void {
    const ports = this.#ports();
    this.#turn += 1;
    const port = ports[this.#turn % ports.length];
    if (port === undefined || attempt > ports.length) {
      client.destroy();
      return;
    }
    const server: Socket = connect(port, '127.0.0.1');
    server.once('error', () => this.#take(client, attempt + 1));
    server.once('connect', () => {
      server.removeAllListeners('error');
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        this.#sockets.add(from);
        from.on('error', () => to.destroy()).on('close', () => to.destroy());
        from.pipe(to);
      }
    });
  }
}
