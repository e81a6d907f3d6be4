import {
  type Change,
  type ChangePage,
  type ChangeQuery,
  ChangesGone,
  type ChangeType,
  isWanted,
  type Origin,
} from '../../domain/change.ts';
import type { StoreBackend } from '../store.ts';

/** The newest changes. */
export class KeptChanges implements NonNullable<StoreBackend['changes']> {
  readonly #kept: number;
  #changes: Change[] = [];
  #last = 0;
  /** The position of the last removed change. */
  #gone = 0;

  /** @param kept The minimum number of kept changes; 0: none is added. */
  constructor(kept: number) {
    this.#kept = kept;
  }

  add(type: ChangeType, record: Change['record'], origin: Origin = {}): void {
    if (this.#kept === 0) return;
    this.#last += 1;
    this.#changes.push({ position: this.#last, type, time: new Date().toISOString(), record, origin });
    // Remove in steps: moving all changes for each added one would take longer than the write.
    if (this.#changes.length >= this.#kept * 2) {
      this.#changes = this.#changes.slice(-this.#kept);
      this.#gone = this.#last - this.#kept;
    }
  }

  /** Removes all changes, after a write that the feed does not contain. */
  restart(): void {
    this.#last += 1;
    this.#gone = this.#last;
    this.#changes = [];
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
}
