// A body that comes in bytes costs a buffer for each.
const chunkBytes = 256;
// Less than this is always taken: who sends long bodies slowly must not keep the short ones out.
const shortBytes = 16 * 1024;

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
    return {
      take: (chunkLength) => {
        own += chunkLength + chunkBytes;
        this.#taken += chunkLength + chunkBytes;
        return own <= shortBytes || this.#taken <= this.#maxBytes;
      },
      close: () => {
        this.#taken -= own;
        own = 0;
      },
    };
  }
}
