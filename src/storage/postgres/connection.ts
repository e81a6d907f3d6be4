import { connect, Socket } from 'node:net';
import type { Client, PoolClient } from 'pg';
import { processIdOf } from './session.ts';

/** An open connection of a pool, with its state. */
export class Connection {
  readonly client: PoolClient;
  /** When one connection fails, its whole generation is suspect: the server may have moved or restarted. */
  readonly generation: number;
  isSetUp = false;
  /** Whether it has ended, or can no longer be used. */
  isDead = false;
  isKilled = false;
  /** Whether the server stopped waiting for a standby to confirm a commit, which may be lost in a failover. */
  isUnconfirmed = false;

  constructor(client: PoolClient, generation: number) {
    this.client = client;
    this.generation = generation;
    client.on('error', () => {
      this.isDead = true;
    });
    client.on('notice', (notice) => {
      // Compare the name of the reporting function, because the text depends on the language of the server.
      if (notice.routine !== 'SyncRepWaitForLSN') return;
      this.isUnconfirmed = true;
      this.isDead = true;
    });
  }

  /** Closes the connection, and ends its running statement here and on the server. */
  kill(): void {
    this.isKilled = true;
    cancel(this.client);
  }
}

// The code of a cancel request, which replaces the protocol version.
const cancelCode = 80_877_102;
const cancelGraceMs = 500;
const cancelTimeoutMs = 30_000;

/**
 * Ends a connection and its running statement. Sends the protocol's cancel request, whose key belongs to this
 * connection: it cannot cancel a statement of another client, and it works through poolers.
 */
function cancel(client: Client): void {
  const { stream } = client.connection;
  const key = 'secretKey' in client ? client.secretKey : undefined;
  if (!(stream instanceof Socket) || typeof key !== 'number') {
    stream.destroy();
    return;
  }
  const { remoteAddress: host, remotePort: port } = stream;
  const path = `${client.host}/.s.PGSQL.${client.port}`;
  const request = Buffer.alloc(16);
  for (const [i, word] of [request.length, cancelCode, processIdOf(client), key].entries()) {
    request.writeInt32BE(word, i * 4);
  }
  const socket = host === undefined || port === undefined ? connect({ path }) : connect({ host, port });
  const end = () => stream.destroy();
  // A pooler forgets the key when the connection ends, so the request is sent first.
  const timer = setTimeout(end, cancelGraceMs);
  socket.on('close', () => {
    clearTimeout(timer);
    end();
  });
  // The server closes the socket. PgBouncer 1.18 aborts if the client closes a request before it was forwarded.
  socket.setTimeout(cancelTimeoutMs, () => socket.destroy());
  socket
    .on('error', () => {})
    .unref()
    .resume()
    .write(request);
}
