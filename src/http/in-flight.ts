import type { ServerResponse } from 'node:http';
import { getHeapStatistics } from 'node:v8';
import { HttpError } from './reply.ts';

/** A request as far as the limit sees it. */
export interface Holder {
  /** Whether it takes a place. */
  admitted: boolean;
}

/**
 * The places for requests under way: a brake for emergencies, since the bound on connections bounds them
 * already. A request whose body is still on its way takes none: it costs only memory.
 */
export class InFlightLimit {
  readonly #max: number;
  #taken = 0;

  /** `max` is how many there are; 0 for no limit. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place, or fails with 503. */
  acquire(holder: Holder, response: ServerResponse): void {
    // A client that has left already would never give it back.
    if (response.closed) return;
    if (this.#max > 0 && this.#taken >= this.#max) {
      throw new HttpError(503, 'too many requests are under way', { 'retry-after': '1' });
    }
    this.#taken += 1;
    holder.admitted = true;
  }

  /** Gives the place back, if it has one. */
  release(holder: Holder): void {
    if (!holder.admitted) return;
    holder.admitted = false;
    this.#taken -= 1;
  }
}

const turnMs = 2;
// How many turns in a row may pass without a start while connections arrive.
const maxIdleTurns = 64;

/**
 * Starts requests in turns, each one turn of the event loop. In each the loop accepts one connection and
 * reads what has arrived: if all that arrives were started at once, turns would be long, and a probe on a
 * new connection would wait behind hundreds of them. While connections arrive, accepting them goes first.
 */
export class Turns {
  readonly #queue: (() => void)[] = [];
  /** Requests that have started go on before others start. */
  readonly #started: (() => void)[] = [];
  /** When the present turn began; `undefined` between turns. */
  #startedAt: number | undefined;
  #connected = false;
  /** Turns in a row in which a connection arrived. */
  #arrivals = 0;
  #idleTurns = 0;

  /** Whether a request that arrives now may start at once. */
  isOpen(now: number): boolean {
    return this.#hasTime(now) && this.#arrivals < 2 && this.#queue.length === 0;
  }

  #hasTime(now: number): boolean {
    if (this.#startedAt === undefined) {
      this.#startedAt = now;
      setImmediate(this.#next);
    }
    return this.#started.length === 0 && now - this.#startedAt < turnMs;
  }

  /** Starts a request for which the present turn is not open, behind those that wait already. */
  enqueue(start: () => void): void {
    this.#queue.push(start);
  }

  /** When a request that has started may go on: at once, or in a later turn when the present one is over. */
  wait(): Promise<void> | undefined {
    if (this.#hasTime(performance.now())) return undefined;
    return new Promise((resolve) => this.#started.push(resolve));
  }

  /** Reports that a connection has sent its first request: others may be waiting to be accepted. */
  connected(): void {
    this.#connected = true;
  }

  readonly #next = async (): Promise<void> => {
    this.#arrivals = this.#connected ? this.#arrivals + 1 : 0;
    this.#connected = false;
    const yields = this.#arrivals > 0 && this.#idleTurns < maxIdleTurns;
    this.#idleTurns = yields ? this.#idleTurns + 1 : 0;
    const end = performance.now() + turnMs;
    while (!yields && performance.now() < end) {
      const start = this.#started.shift() ?? this.#queue.shift();
      if (start === undefined) break;
      start();
      // It goes on before another is started.
      await undefined;
    }
    if (this.#started.length + this.#queue.length > 0) setImmediate(this.#next);
    else this.#startedAt = undefined;
  };
}

/** How far V8's heap may grow. */
export const heapLimitBytes = getHeapStatistics().heap_size_limit;

// The first 16 KiB of each request do not count, so long ones cannot block short ones, nor the reverse.
// The bound on connections bounds those.
const freeBytes = 16 * 1024;
const chunkBytes = 64 * 1024;
const mostBytes = 64 * 1024 * 1024;

interface Holding {
  readonly bytes: number;
  readonly giveUp: (() => void) | undefined;
}

/**
 * The one budget for what waits: bodies from their first chunk to the end of their request, and replies until
 * their client has taken them. Beyond it the one that has made
 * no progress for longest is given up. If it waited for a place instead, clients that read slowly would
 * keep all others waiting.
 */
export class WaitingMemory {
  readonly #maxBytes: number;
  /** The one that has waited longest comes first. */
  readonly #holdings = new Map<object, Holding>();
  readonly #onGiveUp: () => void;
  #taken = 0;

  constructor(onGiveUp: () => void, maxBytes = Math.min(mostBytes, heapLimitBytes / 4)) {
    this.#onGiveUp = onGiveUp;
    this.#maxBytes = maxBytes;
  }

  /** How long the chunks of a reply should be: when memory is short, no longer than is free. */
  get chunkBytes(): number {
    return this.#taken > this.#maxBytes / 2 ? freeBytes : chunkBytes;
  }

  /** Sets how much an owner holds. Without `giveUp` it counts, but is not given up. */
  hold(owner: object, heldBytes: number, giveUp?: () => void): void {
    const bytes = Math.max(0, heldBytes - freeBytes);
    this.#taken += bytes - (this.#holdings.get(owner)?.bytes ?? 0);
    if (bytes === 0) this.#holdings.delete(owner);
    else this.#holdings.set(owner, { bytes, giveUp });
    if (this.#taken > this.#maxBytes) this.#makeRoom();
  }

  #makeRoom(): void {
    for (const [owner, { bytes, giveUp }] of this.#holdings) {
      if (this.#taken <= this.#maxBytes) return;
      if (giveUp === undefined) continue;
      this.#holdings.delete(owner);
      this.#taken -= bytes;
      this.#onGiveUp();
      giveUp();
    }
  }
}
