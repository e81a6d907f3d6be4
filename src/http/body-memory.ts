// A body that comes in bytes costs a buffer for each.
const chunkBytes = 256;
// So much of each is free: neither do long bodies on their way keep the short ones out, nor many short
// ones the long. Those are bounded by the number of connections.
const freeBytes = 16 * 1024;

/** The memory of all bodies that are on their way, which nothing else bounds but the connections. */
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
