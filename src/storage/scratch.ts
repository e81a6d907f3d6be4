/** Empty stores beside the one at a URL, for tests. */
export interface Scratch {
  /** Creates an empty store, and resolves to its URL. */
  next(): Promise<string>;
  /** Ages the idempotency keys of a store; absent if the store accepts a clock. */
  readonly passTime?: (url: string, ms: number) => Promise<void>;
  /** Removes all these stores. */
  remove(): Promise<void>;
}
