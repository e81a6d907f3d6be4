import { addAbortListener } from 'node:events';
import { aborted, type DomainError } from '../../domain/errors.ts';
import type { Connection } from './connection.ts';
import { cannotConnect, notInTime, overloaded } from './errors.ts';
import { type HostSearch, probeIntervalMs } from './hosts.ts';

/** A connection, or the right to open one. */
type Slot = Connection | 'unopened';

/** A limited number of connections, and the calls that wait for one in the order of their arrival. */
export class ConnectionQueue {
  /** The number of calls that run or wait for a connection, without aborted ones. The pool counts them. */
  calls = 0;
  readonly #waitTimeoutMs: number;
  readonly #hosts: HostSearch;
  /** The number of open connections, idle or in use. */
  #opened = 0;
  /** How many more connections may be opened. */
  #unopened: number;
  /** When to request one more connection again from a server that refused it; 0 if it refused none. */
  #retryAt = 0;
  /** How many usable connections calls have released. */
  #served = 0;
  readonly #idle: Connection[] = [];
  readonly #waiting = new Set<(slot: Slot) => void>();

  constructor(size: number, waitTimeoutMs: number, hosts: HostSearch) {
    this.#unopened = size;
    this.#waitTimeoutMs = waitTimeoutMs;
    this.#hosts = hosts;
  }

  /** Resolves to a connection of the current generation, for the caller alone until it releases it. */
  async acquire(signal: AbortSignal | undefined): Promise<Connection> {
    for (;;) {
      if (signal?.aborted) throw aborted(signal);
      // After a failure, find a host first, unless an idle connection may still work.
      const searches = this.#hosts.failure !== undefined && this.#idle.length === 0;
      if (searches) await this.#hosts.recover(signal);
      const taken = await this.#take(signal);
      // If a host has failed while this call waited, do not open a connection: begin again, with a search.
      const opens = taken === 'unopened' && (this.#hosts.failure === undefined || searches);
      const slot = opens ? await this.#open() : taken;
      if (slot !== 'unopened' && this.#hosts.isUsable(slot) && !signal?.aborted) {
        this.#hosts.failure = undefined;
        return slot;
      }
      this.release(slot);
      const { failure } = this.#hosts;
      // The host that was just found has failed too. Searching again could go on without end.
      if (opens && searches && failure !== undefined) throw cannotConnect(failure.cause);
    }
  }

  /** Gives a slot to the call that waits longest. A connection that cannot be used again becomes an unopened slot. */
  release(slot: Slot): void {
    let given = slot;
    if (slot !== 'unopened' && !this.#hosts.isUsable(slot)) {
      given = 'unopened';
      this.#opened -= 1;
      void slot.close();
    }
    if (given !== 'unopened') this.#served += 1;
    const [next] = this.#waiting;
    // A lost connection may be replaced at once, even while the server refuses additional ones.
    if (next !== undefined && (slot !== 'unopened' || this.#mayOpen())) {
      this.#waiting.delete(next);
      next(given);
    } else if (given !== 'unopened') {
      this.#idle.push(given);
    } else {
      this.#unopened += 1;
    }
  }

  async #open(): Promise<Slot> {
    try {
      const connection = await this.#hosts.open();
      this.#retryAt = 0;
      if (connection === undefined) return 'unopened';
      this.#opened += 1;
      return connection;
    } catch (refusal) {
      this.#retryAt = performance.now() + probeIntervalMs;
      if (this.#opened > 0) return 'unopened';
      this.release('unopened');
      throw refusal;
    }
  }

  /** Whether a caller may open one more connection. After a refusal, allows one attempt in each interval. */
  #mayOpen(): boolean {
    const now = performance.now();
    if (this.#opened > 0 && now < this.#retryAt) return false;
    if (this.#retryAt > 0) this.#retryAt = now + probeIntervalMs;
    return true;
  }

  /** Resolves to a free slot, or waits for one. */
  async #take(signal: AbortSignal | undefined): Promise<Slot> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#unopened > 0 && this.#mayOpen()) {
      this.#unopened -= 1;
      return 'unopened';
    }
    const { promise, resolve, reject } = Promise.withResolvers<Slot>();
    // Leaves the queue at once, so that no slot is given to a call that has stopped waiting.
    const leave = (error: DomainError) => {
      if (this.#waiting.delete(resolve)) reject(error);
    };
    const served = this.#served;
    const timer = setTimeout(() => {
      // The store is overloaded only if other calls were served in the meantime.
      leave(this.#served === served ? notInTime(new Error('all connections are in use')) : overloaded());
    }, this.#waitTimeoutMs);
    using _ = signal && addAbortListener(signal, () => leave(aborted(signal)));
    this.#waiting.add(resolve);
    return await promise.finally(() => clearTimeout(timer));
  }
}
