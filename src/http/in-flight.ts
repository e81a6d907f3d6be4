import type { ServerResponse } from 'node:http';
import { HttpError } from './http-error.ts';

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

// A body that comes in bytes costs a buffer for each.
const chunkBytes = 256;
// The first 16 KiB of each body do not count, so long bodies cannot block short ones, nor the reverse.
// The bound on connections bounds those.
const freeBytes = 16 * 1024;

/** The memory of all bodies that are on their way. */
export class BodyMemory {
  readonly #maxBytes: number;
  #taken = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** An account for one body. */
  open(): { readonly take: (chunkLength: number) => boolean; readonly close: () => void } {
    let own = 0;
    let charged = 0;
    return {
      take: (chunkLength) => {
        own += chunkLength + chunkBytes;
        const charge = Math.max(0, own - freeBytes);
        this.#taken += charge - charged;
        charged = charge;
        return charge === 0 || this.#taken <= this.#maxBytes;
      },
      close: () => {
        this.#taken -= charged;
        own = 0;
        charged = 0;
      },
    };
  }
}
