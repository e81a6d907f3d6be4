import { aborted, type DomainError } from '../../domain/errors.ts';
import type { Connection } from './connection.ts';
import { notInTime, overloaded } from './errors.ts';

/** A limited number of connections, and the calls that wait for one in the order of their arrival. */
export class ConnectionQueue {
  /** The number of calls that run or wait for a connection. One that was aborted does not count. */
  calls = 0;
  /** The number of open connections, idle or in use. */
  opened = 0;
  readonly #waitTimeoutMs: number;
  /** How many more connections may be opened. */
  #unopened: number;
  /** How often a call has returned a connection that can be used again. */
  #served = 0;
  readonly #idle: Connection[] = [];
  readonly #waiting = new Set<(given: Connection | undefined) => void>();

  constructor(size: number, waitTimeoutMs: number) {
    this.#unopened = size;
    this.#waitTimeoutMs = waitTimeoutMs;
  }

  get hasIdle(): boolean {
    return this.#idle.length > 0;
  }

  /** Resolves to a connection, or to `undefined` if the caller may open one. Waits rather than that if `isFull`. */
  async take(signal: AbortSignal | undefined, isFull: boolean): Promise<Connection | undefined> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#unopened > 0 && !isFull) {
      this.#unopened -= 1;
      return undefined;
    }
    const { promise, resolve, reject } = Promise.withResolvers<Connection | undefined>();
    // Leaves the queue at once, so that no connection is given to a call that has stopped waiting.
    const leave = (error: DomainError) => {
      if (this.#waiting.delete(resolve)) reject(error);
    };
    const served = this.#served;
    const timer = setTimeout(() => {
      // The store is overloaded only if other calls were served in the meantime.
      leave(this.#served === served ? notInTime(new Error('all connections are in use')) : overloaded());
    }, this.#waitTimeoutMs);
    const abort = () => signal && leave(aborted(signal));
    signal?.addEventListener('abort', abort);
    this.#waiting.add(resolve);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Gives a connection, or the right to open one unless `isFull`, to the call that waits longest. */
  give(connection: Connection | undefined, isFull: boolean): void {
    if (connection !== undefined) this.#served += 1;
    const [next] = connection === undefined && isFull ? [] : this.#waiting;
    if (next !== undefined) {
      this.#waiting.delete(next);
      next(connection);
    } else if (connection !== undefined) {
      this.#idle.push(connection);
    } else {
      this.#unopened += 1;
    }
  }
}
