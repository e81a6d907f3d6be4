import type { Change, ChangePage, ChangeQuery, ChangeType, Origin } from '../../src/domain/change.ts';
import type { ChangeFeed } from '../../src/domain/repository.ts';
import { memoryFeed } from '../../src/storage/memory/changes.ts';

/** The feed of the memory store, which one function can watch. It wakes that function at once, and never by a clock. */
export class KeptChanges implements ChangeFeed {
  readonly #feed: ReturnType<typeof memoryFeed>;
  #wake = (): void => {};

  /** @param kept The minimum number of kept changes. */
  constructor(kept: number) {
    this.#feed = memoryFeed(kept);
  }

  add(type: ChangeType, record: Change['record'], origin?: Origin): void {
    this.#feed.add(type, record, origin);
    this.#wake();
  }

  restart(): void {
    this.#feed.restart();
    this.#wake();
  }

  async read(query: ChangeQuery): Promise<ChangePage> {
    return this.#feed.read(query);
  }

  async position(): Promise<number> {
    return this.#feed.position();
  }

  watch(wake: () => void): () => void {
    this.#wake = wake;
    return () => {
      this.#wake = () => {};
    };
  }
}
