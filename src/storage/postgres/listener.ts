import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { notifyChannel } from './change-sql.ts';
import { endClient, type SessionLimits, setUpSession, type Warn } from './session.ts';

export interface ListenerOptions {
  /** Opens a connection for it alone; `undefined` where a pooler lends it to others too. */
  readonly connect: () => Promise<Client | undefined>;
  /** Called for each notification of another process, and often enough to miss nothing without one. */
  readonly wake: () => void;
  /** The payload of this process's own notifications. */
  readonly self: string;
}

// A process may end before it has sent its notification.
const listeningTickMs = 1_000;
const deafTickMs = 50;
const minReconnectMs = 50;
const maxReconnectMs = 2_000;

/** Calls `wake` for what other processes write, until the returned function is called. */
export function listen({ connect, wake, self }: ListenerOptions): () => void {
  const stop = new AbortController();
  let client: Client | undefined;
  let ticker: NodeJS.Timeout | undefined;
  const tick = (ms: number) => {
    clearInterval(ticker);
    if (!stop.signal.aborted) ticker = setInterval(wake, ms).unref();
  };
  const run = async () => {
    for (let waitMs = minReconnectMs; !stop.signal.aborted; waitMs = Math.min(waitMs * 2, maxReconnectMs)) {
      tick(deafTickMs);
      try {
        client = await connect();
        if (client === undefined) return;
        await hear(client, stop.signal, () => {
          waitMs = minReconnectMs;
          tick(listeningTickMs);
        });
      } catch {
        // The server is away; reads report it.
      }
      await delay(waitMs * (0.5 + Math.random() / 2), undefined, { signal: stop.signal, ref: false }).catch(
        () => {},
      );
    }
  };
  /** Resolves when the connection has ended. */
  const hear = async (listening: Client, signal: AbortSignal, onListening: () => void) => {
    const ended = new Promise<void>((resolve) => listening.once('end', resolve));
    const end = () => endClient(listening);
    if (signal.aborted) return end();
    signal.addEventListener('abort', end);
    listening.on('notification', ({ payload }) => {
      if (payload !== self) wake();
    });
    try {
      await listening.query(`LISTEN ${notifyChannel}`);
      onListening();
      // What was written before that brought no notification.
      wake();
      await ended;
    } finally {
      signal.removeEventListener('abort', end);
      end();
    }
  };
  void run();
  return () => {
    stop.abort();
    clearInterval(ticker);
  };
}

/** Opens a connection that can listen; `undefined` behind a pooler. */
export async function connectListener(
  client: Client,
  limits: SessionLimits,
  warn: Warn,
): Promise<Client | undefined> {
  client.on('error', () => {});
  try {
    await client.connect();
    if (await setUpSession(client, limits, warn)) return client;
  } catch (cause) {
    void endClient(client);
    throw cause;
  }
  void endClient(client);
  return undefined;
}
