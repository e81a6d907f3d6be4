import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { notifyChannel } from './change-sql.ts';
import { endClient } from './session.ts';

export interface ListenerOptions {
  /** Opens a connection that only the listener uses; `undefined` if a pooler shares it with other clients. */
  readonly connect: (signal: AbortSignal) => Promise<Client | undefined>;
  /** Called for each notification of another process, and regularly, in case a notification is lost. */
  readonly wake: () => void;
  /** The payload of this process's own notifications. */
  readonly self: string;
}

// Interval of the regular calls: a process may end before it has sent its notification.
const listeningTickMs = 1_000;
const deafTickMs = 50;
// Randomized, so that not all processes connect at once to a server that has restarted.
const reconnectMs = 1_000;

/** Calls `wake` after writes of other processes, until the returned function is called. */
export function listen({ connect, wake, self }: ListenerOptions): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  let ticker: NodeJS.Timeout | undefined;
  const tick = (ms: number) => {
    clearInterval(ticker);
    if (!signal.aborted) ticker = setInterval(wake, ms).unref();
  };
  /** Resolves when the connection has ended. */
  const hear = async (client: Client) => {
    const end = () => endClient(client);
    if (signal.aborted) return end();
    signal.addEventListener('abort', end);
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    client.on('notification', ({ payload }) => {
      if (payload !== self) wake();
    });
    try {
      await client.query(`LISTEN ${notifyChannel}`);
      tick(listeningTickMs);
      // Earlier writes sent no notification to this connection.
      wake();
      await ended;
    } finally {
      signal.removeEventListener('abort', end);
      end();
    }
  };
  const run = async () => {
    while (!signal.aborted) {
      tick(deafTickMs);
      try {
        const client = await connect(signal);
        if (client === undefined) return;
        await hear(client);
      } catch {
        // The server cannot be reached. Reads report this error.
      }
      const pause = delay(reconnectMs * (0.5 + Math.random() / 2), undefined, { signal, ref: false });
      await pause.catch(() => {});
    }
  };
  void run();
  return () => {
    stop.abort();
    clearInterval(ticker);
  };
}
