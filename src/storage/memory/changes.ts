import { checkRanges } from '../../check-range.ts';
import {
  type Change,
  ChangesGone,
  type ChangeType,
  defaultChangesKept,
  isWanted,
  maxChangesKept,
  type Origin,
} from '../../domain/change.ts';
import type { ChangeFeed } from '../../domain/repository.ts';

export interface KeptChangesOptions {
  /** The minimum number of kept changes, 0 to 100,000,000; 0: no feed. Default: 100,000. */
  readonly changesKept?: number;
}

/** The newest changes and the watchers of the feed. */
export class KeptChanges {
  readonly #kept: number;
  readonly #watchers = new Set<() => void>();
  #changes: Change[] = [];
  #last = 0;
  /** The position of the last removed change. */
  #gone = 0;

  constructor({ changesKept = defaultChangesKept }: KeptChangesOptions) {
    checkRanges({ changesKept }, { changesKept: [0, maxChangesKept] });
    this.#kept = changesKept;
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
    for (const wake of this.#watchers) wake();
  }

  /** Removes all changes, after a write that the feed does not contain. */
  restart(): void {
    this.#last += 1;
    this.#gone = this.#last;
    this.#changes = [];
    for (const wake of this.#watchers) wake();
  }

  feed(): { readonly changes?: ChangeFeed } {
    if (this.#kept === 0) return {};
    return {
      changes: {
        read: async (query) => {
          const { after, limit } = query;
          if (after < this.#gone || after > this.#last) throw new ChangesGone(after, this.#gone + 1);
          const matching = this.#changes
            .slice(after - this.#gone)
            .filter((change) => isWanted(change, query));
          const changes = matching.slice(0, limit);
          const more = matching.length > limit;
          return { changes, next: more ? (changes.at(-1)?.position ?? after) : this.#last, more };
        },
        position: async () => this.#last,
        watch: (wake) => {
          this.#watchers.add(wake);
          return () => this.#watchers.delete(wake);
        },
      },
    };
  }
}
