/** What a look at the feed has found. */
export interface Look {
  readonly newest: number;
  readonly gone: number;
  readonly writers: readonly string[];
}

interface Pending {
  readonly newest: number;
  /** Those that have still run at each look since. */
  writers: readonly string[];
}

// A transaction that stays open holds back all later looks, so more of them would not help.
const maxPending = 32;

/** Finds out up to which position no change is missing, from looks in the order in which they were made. */
export class Settled {
  #newest = 0;
  #pending: Pending[] = [];
  #position: number | undefined;

  /** `undefined` until the first position is known. */
  get position(): number | undefined {
    return this.#position;
  }

  add({ newest, gone, writers }: Look): void {
    // Another server, which does not have all that the last one had.
    if (newest < this.#newest) {
      this.#pending = [];
      this.#position = undefined;
    }
    const isNew = newest > (this.#pending.at(-1)?.newest ?? this.#position ?? -1);
    this.#newest = newest;
    const running = new Set(writers);
    for (const pending of this.#pending) {
      pending.writers = pending.writers.filter((writer) => running.has(writer));
    }
    if (isNew && this.#pending.length < maxPending) this.#pending.push({ newest, writers });
    const last = this.#pending.findLastIndex((pending) => pending.writers.length === 0);
    this.#position = this.#pending[last]?.newest ?? this.#position;
    this.#pending.splice(0, last + 1);
    if (this.#position !== undefined && this.#position < gone) this.#position = gone;
  }
}
