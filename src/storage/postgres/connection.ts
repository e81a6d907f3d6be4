import { connect, Socket } from 'node:net';
import type { Client, PoolClient } from 'pg';
import { processIdOf } from './session.ts';

/** An open connection of a pool, and what is known of it. */
export class Connection {
  readonly client: PoolClient;
  /** When one connection fails, all of its age are suspect: the server may have moved or restarted. */
  readonly generation: number;
  isSetUp = false;
  /** It has ended, or is of no more use. */
  isDead = false;
  isKilled = false;
  /** The server gave up waiting until a standby has a commit, which may be lost in a failover. */
  isUnconfirmed = false;

  constructor(client: PoolClient, generation: number) {
    this.client = client;
    this.generation = generation;
    client.on('error', () => {
      this.isDead = true;
    });
    client.on('notice', (notice) => {
      // The function that reports it; the text depends on the language of the server.
      if (notice.routine !== 'SyncRepWaitForLSN') return;
      this.isUnconfirmed = true;
      this.isDead = true;
    });
  }

  /** Ends it and what still runs on it, here and on the server. */
  kill(): void {
    this.isKilled = true;
    cancel(this.client);
  }
}

// The code of a cancel request in the protocol, in the place of its version.
const cancelCode = 80_877_102;
const cancelGraceMs = 500;
const cancelTimeoutMs = 30_000;

/**
 * Ends a connection and the statement that runs on it. It sends the protocol's cancel request, whose key
 * belongs to this connection: no other client's statement can be cancelled, and it works through poolers.
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
  // A pooler forgets the key when the connection ends, so the request goes first.
  const timer = setTimeout(end, cancelGraceMs);
  socket.on('close', () => {
    clearTimeout(timer);
    end();
  });
  // The other side closes. PgBouncer 1.18 aborts when a request is closed from this side before it was passed on.
  socket.setTimeout(cancelTimeoutMs, () => socket.destroy());
  socket
    .on('error', () => {})
    .unref()
    .resume()
    .write(request);
}
