/** Empty stores beside the one at a URL, for tests. */
export interface Scratch {
  /** Makes an empty store, and resolves to its URL. */
  next(): Promise<string>;
  /** Lets time pass for the idempotency keys of a store; absent where the store takes a clock. */
  readonly passTime?: (url: string, ms: number) => Promise<void>;
  /** Removes them all. */
  remove(): Promise<void>;
}
