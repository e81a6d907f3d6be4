import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { notifyChannel } from './change-sql.ts';
import { endClient } from './session.ts';

export interface ListenerOptions {
  /** Opens a connection for it alone; `undefined` where a pooler lends it to others too. */
  readonly connect: (signal: AbortSignal) => Promise<Client | undefined>;
  /** Called for each notification of another process, and often enough to miss nothing without one. */
  readonly wake: () => void;
  /** The payload of this process's own notifications. */
  readonly self: string;
}

// A process may end before it has sent its notification.
const listeningTickMs = 1_000;
const deafTickMs = 50;
// Spread at random: a server that comes back has other work than to admit all at once.
const reconnectMs = 1_000;

/** Calls `wake` for what other processes write, until the returned function is called. */
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
      // What was written before that brought no notification.
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
        // The server is away; reads report it.
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
