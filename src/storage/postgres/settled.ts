/** What a look at the feed has found. */
export interface Look {
  readonly newest: number;
  readonly gone: number;
  /** From the settled position on there is a change at each position up to here. */
  readonly unbroken: number;
  /** Absent unless `needsWriters`. */
  readonly writers?: readonly string[] | undefined;
}

/** Finds out up to which position no change is missing, from looks in the order in which they were made. */
export class Settled {
  #newest = 0;
  /** A look, and those of its writers that were still running at each look since. */
  #pending: { readonly newest: number; readonly writers: readonly string[] } | undefined;
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
      this.#pending = undefined;
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
    this.#needsWriters = position === before && position < newest;
  }

  /** The newest position of this or the pending look if its writers have all ended; else 0. */
  #compare(newest: number, writers: readonly string[]): number {
    if (writers.length === 0) return newest;
    const pending = this.#pending ?? { newest: 0, writers: [] };
    const running = pending.writers.filter((writer) => writers.includes(writer));
    const isOver = running.length === 0;
    this.#pending = isOver ? { newest, writers } : { newest: pending.newest, writers: running };
    return isOver ? pending.newest : 0;
  }
}
