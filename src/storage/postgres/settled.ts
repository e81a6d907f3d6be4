/** The result of a look at the feed. */
export interface Look {
  readonly newest: number;
  readonly gone: number;
  /** Each position from the settled one up to this one has a change. */
  readonly unbroken: number;
  /** Absent unless `needsWriters`. */
  readonly writers?: readonly string[] | undefined;
}

/** Finds the position up to which no change is missing, from looks in the order in which they were made. */
export class Settled {
  #newest = 0;
  /** A look, with those of its writers that were still running at each later look. */
  #pending: { readonly newest: number; readonly writers: readonly string[] } | undefined;
  #position: number | undefined;
  #needsWriters = true;

  /** `undefined` until the first position is known. */
  get position(): number | undefined {
    return this.#position;
  }

  /** Whether a change is missing that may never be committed. Only the list of writers shows whether it may come. */
  get needsWriters(): boolean {
    return this.#needsWriters;
  }

  add({ newest, gone, unbroken, writers }: Look): void {
    const last = this.#newest;
    const before = this.#position ?? 0;
    this.#newest = newest;
    if (newest < last) {
      // Another server, which lacks some changes of the previous one. Its settled position is not valid here.
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
