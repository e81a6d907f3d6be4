import { addAbortListener } from 'node:events';
import { aborted, type DomainError } from '../../domain/errors.ts';
import type { Connection } from './connection.ts';
import { cannotConnect, notInTime, overloaded } from './errors.ts';
import { type HostSearch, probeIntervalMs } from './host-search.ts';

/** A connection, or the right to open one. */
type Slot = Connection | 'unopened';

export type CallKind = 'read' | 'write';

// Writes leave the other connections to reads, because each may wait for a locked row for seconds.
const writeShare = 0.8;

/** A limited number of connections, and the calls that wait for one in the order of their arrival. */
export class ConnectionQueue {
  /** The number of calls that run or wait for a connection, without aborted ones. The pool counts them. */
  readonly callCounts = { read: 0, write: 0 };
  readonly size: number;
  readonly #waitTimeoutMs: number;
  readonly #hosts: HostSearch;
  /** The queues whose idle connections this one may take while it has none. */
  readonly #lenders: readonly ConnectionQueue[];
  /** The number of open connections, idle or in use. */
  #opened = 0;
  /** How many more connections calls are about to open. */
  #opening = 0;
  /** When to request one more connection again from a server that refused it; 0 if it refused none. */
  #retryAt = 0;
  /** How many usable connections calls have released. */
  readonly #served = { read: 0, write: 0 };
  /** How many slots writes have taken. */
  #writes = 0;
  readonly #idle: Connection[] = [];
  readonly #waiting = new Map<(slot: Slot) => void, CallKind>();

  constructor(size: number, waitTimeoutMs: number, hosts: HostSearch, ...lenders: ConnectionQueue[]) {
    this.size = size;
    this.#waitTimeoutMs = waitTimeoutMs;
    this.#hosts = hosts;
    this.#lenders = lenders;
  }

  /** Whether the queue has no connection, and the server has just refused it one. */
  get isRefused(): boolean {
    return this.#opened === 0 && performance.now() < this.#retryAt;
  }

  /** Resolves to a connection of the current generation, for the caller alone until it releases it. */
  async acquire(kind: CallKind, signal: AbortSignal | undefined): Promise<Connection> {
    for (;;) {
      if (signal?.aborted) throw aborted(signal);
      // After a failure, find a host first, unless an idle connection may still work.
      const mustSearch = this.#hosts.failure !== undefined && this.#idle.length === 0 && !this.#borrow();
      if (mustSearch) await this.#hosts.recover(signal);
      const taken = await this.#take(kind, signal);
      // If a host has failed while this call waited, do not open a connection: begin again, with a search.
      const opens = taken === 'unopened' && this.#hosts.failure === undefined;
      const slot = opens ? await this.#open(kind) : taken;
      if (slot !== 'unopened' && this.#hosts.isUsable(slot) && !signal?.aborted) {
        this.#hosts.failure = undefined;
        return slot;
      }
      this.release(slot, kind);
      const { failure } = this.#hosts;
      // The host that was just found has failed too. Searching again could go on without end.
      if (opens && mustSearch && failure !== undefined) throw cannotConnect(failure.cause);
    }
  }

  /** Takes a slot back. Of the waiting calls that may use a free slot, the first gets one. */
  release(slot: Slot, kind: CallKind): void {
    if (slot !== 'unopened' && !this.#hosts.isUsable(slot)) {
      this.replace(slot, kind);
      void slot.close();
      return;
    }
    if (kind === 'write') this.#writes -= 1;
    if (slot === 'unopened') this.#opening -= 1;
    else {
      this.#idle.push(slot);
      this.#served[kind] += 1;
    }
    this.#serveWaiting();
  }

  /** Frees the slot of a connection that no further call can use, although its call may still run. */
  replace(connection: Connection, kind: CallKind): void {
    if (connection.isReplaced) return;
    connection.isReplaced = true;
    if (kind === 'write') this.#writes -= 1;
    this.#opened -= 1;
    // A lost connection may be replaced at once, even while the server refuses additional ones.
    this.#retryAt = Math.min(this.#retryAt, performance.now());
    this.#serveWaiting();
  }

  /** Gives the free slots to the waiting calls that may use them, in their order. */
  #serveWaiting(): void {
    for (const [next, nextKind] of this.#waiting) {
      if (!this.#mayUse(nextKind)) continue;
      const free = this.#takeFree(nextKind);
      if (free === undefined) return;
      this.#waiting.delete(next);
      next(free);
    }
  }

  async #open(kind: CallKind): Promise<Slot> {
    try {
      const connection = await this.#hosts.open();
      this.#retryAt = 0;
      if (connection === undefined) return 'unopened';
      this.#opening -= 1;
      this.#opened += 1;
      this.#serveWaiting();
      return connection;
    } catch (refusal) {
      this.#retryAt = performance.now() + probeIntervalMs;
      if (this.#opened > 0 || this.#borrow()) return 'unopened';
      this.release('unopened', kind);
      throw refusal;
    }
  }

  /** Takes an idle connection of another queue if this one has none. Returns whether it found one. */
  #borrow(): boolean {
    const lender = this.#opened === 0 ? this.#lenders.find((other) => other.#idle.length > 0) : undefined;
    if (lender === undefined) return false;
    this.#idle.push(...lender.#idle.splice(-1));
    this.#opened += 1;
    lender.#opened -= 1;
    return true;
  }

  /** Takes the right to try to open one more connection. After a refusal, there is only one in each interval. */
  #takeAttempt(): boolean {
    const now = performance.now();
    if (this.#opened > 0 && now < this.#retryAt) return false;
    if (this.#retryAt > 0) this.#retryAt = now + probeIntervalMs;
    return true;
  }

  /** Whether a call may use one more of `size` connections. While the server refuses more, only the open ones count. */
  #mayUse(kind: CallKind, size = this.#retryAt > 0 ? this.#opened : this.size): boolean {
    return kind === 'read' || this.#writes < Math.max(1, Math.floor(size * writeShare));
  }

  /** An idle connection, or else the right to open one, which would be one more than the open ones. */
  #takeFree(kind: CallKind): Slot | undefined {
    const idle = this.#mayUse(kind) ? this.#idle.pop() : undefined;
    const hasRoom = this.#opened + this.#opening < this.size;
    const opens = idle === undefined && hasRoom && this.#mayUse(kind, this.size) && this.#takeAttempt();
    if (opens) this.#opening += 1;
    const slot = opens ? 'unopened' : idle;
    if (slot !== undefined && kind === 'write') this.#writes += 1;
    return slot;
  }

  /** Takes a free slot, or waits for one. */
  async #take(kind: CallKind, signal: AbortSignal | undefined): Promise<Slot> {
    const free = this.#takeFree(kind);
    if (free !== undefined) return free;
    const { promise, resolve, reject } = Promise.withResolvers<Slot>();
    // Leaves the queue at once, so that no slot is given to a call that has stopped waiting.
    const leave = (error: DomainError) => {
      if (this.#waiting.delete(resolve)) reject(error);
    };
    const served = this.#served[kind];
    const timer = setTimeout(() => {
      // The store is overloaded only if other such calls were served in the meantime.
      const isServing = this.#served[kind] > served;
      leave(isServing ? overloaded() : notInTime(new Error('all connections are in use')));
    }, this.#waitTimeoutMs);
    using _ = signal && addAbortListener(signal, () => leave(aborted(signal)));
    this.#waiting.set(resolve, kind);
    return await promise.finally(() => clearTimeout(timer));
  }
}
