import { getHeapStatistics } from 'node:v8';

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

  constructor(onGiveUp: () => void, maxBytes = Math.min(mostBytes, heapLimitBytes / 16)) {
    this.#onGiveUp = onGiveUp;
    this.#maxBytes = maxBytes;
  }

  get isShort(): boolean {
    return this.#taken > this.#maxBytes / 2;
  }

  /** How long the chunks of a reply should be: when memory is short, no longer than is free. */
  get chunkBytes(): number {
    return this.isShort ? freeBytes : chunkBytes;
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
