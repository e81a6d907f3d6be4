/** What a look at the feed has found. */
export interface Look {
  readonly newest: number;
  readonly gone: number;
  /** From the settled position on there is a change at each position up to here. */
  readonly unbroken: number;
  /** Absent unless `needsWriters`. */
  readonly writers?: readonly string[] | undefined;
}

interface Pending {
  readonly newest: number;
  /** The transactions that were still running at each look since. */
  writers: readonly string[];
}

// A transaction that stays open holds back all later looks, so more of them would not help.
const maxPending = 32;

/** Finds out up to which position no change is missing, from looks in the order in which they were made. */
export class Settled {
  #newest = 0;
  #pending: Pending[] = [];
  #position: number | undefined;
  #needsWriters = true;

  /** `undefined` until the first position is known. */
  get position(): number | undefined {
    return this.#position;
  }

  /** Whether a change is missing that the next look may not find: only a list of the writers shows if it may come. */
  get needsWriters(): boolean {
    return this.#needsWriters;
  }

  add({ newest, gone, unbroken, writers }: Look): void {
    const last = this.#newest;
    const before = this.#position ?? 0;
    this.#newest = newest;
    if (newest < last) {
      // Another server, which does not have all that the last one had. What was settled there means nothing here.
      this.#pending = [];
      this.#position = undefined;
      this.#needsWriters = true;
      return;
    }
    const position = Math.max(
      before,
      gone,
      unbroken,
      writers === undefined ? 0 : this.#compare(newest, writers),
    );
    this.#position = position;
    this.#pending = this.#pending.filter((pending) => pending.newest > position);
    this.#needsWriters = position === before && position < newest;
  }

  /** The newest position of an earlier or this look whose writers have all ended. */
  #compare(newest: number, writers: readonly string[]): number {
    const running = new Set(writers);
    for (const pending of this.#pending) {
      pending.writers = pending.writers.filter((writer) => running.has(writer));
    }
    const isNew = newest > (this.#pending.at(-1)?.newest ?? 0);
    if (isNew && this.#pending.length < maxPending) this.#pending.push({ newest, writers });
    return this.#pending.findLast((pending) => pending.writers.length === 0)?.newest ?? 0;
  }
}
