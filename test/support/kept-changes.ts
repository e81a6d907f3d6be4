import {
  type Change,
  type ChangePage,
  type ChangeQuery,
  ChangesGone,
  type ChangeType,
  isWanted,
  type Origin,
} from '../../src/domain/change.ts';
import type { ChangeFeed } from '../../src/domain/repository.ts';

/** A feed in memory of the newest changes, which one function can watch. */
export class KeptChanges implements ChangeFeed {
  readonly #kept: number;
  #wake = (): void => {};
  #changes: Change[] = [];
  #last = 0;
  /** The position of the last removed change. */
  #gone = 0;

  /** @param kept The minimum number of kept changes. */
  constructor(kept: number) {
    this.#kept = kept;
  }

  add(type: ChangeType, record: Change['record'], origin: Origin = {}): void {
    this.#last += 1;
    this.#changes.push({ position: this.#last, type, time: new Date().toISOString(), record, origin });
    // Remove in steps: moving all changes for each added one would take longer than the write.
    if (this.#changes.length >= this.#kept * 2) {
      this.#changes = this.#changes.slice(-this.#kept);
      this.#gone = this.#last - this.#kept;
    }
    this.#wake();
  }

  /** Removes all changes, after a write that the feed does not contain. */
  restart(): void {
    this.#last += 1;
    this.#gone = this.#last;
    this.#changes = [];
    this.#wake();
  }

  async read(query: ChangeQuery): Promise<ChangePage> {
    const { after, limit } = query;
    if (after < this.#gone || after > this.#last) throw new ChangesGone(after, this.#gone + 1);
    const matching = this.#changes.slice(after - this.#gone).filter((change) => isWanted(change, query));
    const changes = matching.slice(0, limit);
    const more = matching.length > limit;
    return { changes, next: more ? (changes.at(-1)?.position ?? after) : this.#last, more };
  }

  async position(): Promise<number> {
    return this.#last;
  }

  watch(wake: () => void): () => void {
    this.#wake = wake;
    return () => {
      this.#wake = () => {};
    };
  }
}
