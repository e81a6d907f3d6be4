import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Connection } from './connection.ts';
import { type PostgresPool, prepared } from './pool.ts';

/** Minimum interval between two wake-ups of followers, in this and other processes. */
const wakeIntervalMs = 10;
// A process may end before it has sent its notification, so followers also wake regularly.
const listeningTickMs = 1_000;
const deafTickMs = 50;
// Randomized, so that not all processes connect at once to a server that has restarted.
const reconnectMs = 1_000;

const channel = 'users_service_changes';
const notify = prepared(`SELECT pg_notify('${channel}', $1)`);

/** The followers of the feed in this process, which wake after writes of any process. */
export class Followers {
  readonly #pool: PostgresPool;
  /** Identifies this process in its notifications. */
  readonly #self = randomUUID();
  readonly #wakes = new Set<() => void>();
  #listening: AbortController | undefined;
  #hasWritten = false;
  #announcing: Promise<void> | undefined;
  #nextWake: NodeJS.Timeout | undefined;
  #wakesAt = 0;
  #wokenAt = 0;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  /** Calls `wake` after writes, until the returned function is called. */
  add(wake: () => void): () => void {
    // The same function may be added twice.
    const follower = () => wake();
    this.#wakes.add(follower);
    if (this.#listening === undefined) {
      this.#listening = new AbortController();
      void this.#listen(this.#listening.signal);
    }
    return () => {
      this.#wakes.delete(follower);
      if (this.#wakes.size === 0) this.#stop();
    };
  }

  /** Wakes the followers of all processes, and once more later if there was another write in the meantime. */
  written(): void {
    this.#hasWritten = true;
    this.#announcing ??= this.#announce();
  }

  /** Wakes the followers of this process, if there are any, at most every `wakeIntervalMs`. */
  wake(afterMs = 0): void {
    const now = performance.now();
    const at = Math.max(now + afterMs, this.#wokenAt + wakeIntervalMs);
    if (this.#wakes.size === 0 || (this.#nextWake !== undefined && this.#wakesAt <= at)) return;
    clearTimeout(this.#nextWake);
    this.#wakesAt = at;
    this.#nextWake = setTimeout(() => {
      this.#nextWake = undefined;
      this.#wokenAt = performance.now();
      for (const wake of this.#wakes) wake();
    }, at - now).unref();
  }

  async close(): Promise<void> {
    this.#wakes.clear();
    this.#stop();
    await this.#announcing;
  }

  async #announce(): Promise<void> {
    while (this.#hasWritten) {
      this.#hasWritten = false;
      this.wake();
      // In a separate statement: commits with a notification wait for each other.
      const notified = this.#pool.read(notify, [this.#self], undefined, 'feed').catch(() => {});
      await Promise.all([notified, delay(wakeIntervalMs)]);
    }
    this.#announcing = undefined;
  }

  #stop(): void {
    this.#listening?.abort();
    this.#listening = undefined;
    clearTimeout(this.#nextWake);
    this.#nextWake = undefined;
  }

  /** Wakes after notifications of other processes, and regularly, until the signal aborts. */
  async #listen(signal: AbortSignal): Promise<void> {
    let connection: Connection | undefined;
    let ticker: NodeJS.Timeout | undefined;
    const tick = (ms: number) => {
      clearInterval(ticker);
      if (!signal.aborted) ticker = setInterval(() => this.wake(), ms).unref();
    };
    signal.addEventListener('abort', () => {
      clearInterval(ticker);
      void connection?.close();
    });
    while (!signal.aborted) {
      tick(deafTickMs);
      try {
        connection = await this.#pool.connect(signal);
        // Behind a pooler, which shares the session with other clients, notifications do not arrive.
        if (!connection.isOwn) break;
        const { client } = connection;
        client.on('notification', ({ payload }) => {
          if (payload !== this.#self) this.wake();
        });
        await client.query(`LISTEN ${channel}`);
        tick(listeningTickMs);
        // Earlier writes sent no notification to this connection.
        this.wake();
        await once(client, 'end', { signal });
      } catch {
        // The server cannot be reached. Reads report this error.
      } finally {
        await connection?.close();
      }
      const pauseMs = reconnectMs * (0.5 + Math.random() / 2);
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }
}
