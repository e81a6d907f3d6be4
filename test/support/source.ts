import type { ByteStream } from '../../src/http/reply.ts';

type Chunk = string | Uint8Array;

/** A stream made of what `produce` gives until that is `undefined`; it knows what became of it. */
export class Source implements ByteStream, AsyncIterableIterator<Chunk> {
  readonly length?: number;
  release?: (chunk: Chunk) => void;
  /** Chunks handed out. */
  taken = 0;
  /** Whether its consumer let go of it. */
  returned = false;
  readonly #produce: (taken: number) => Chunk | undefined | Promise<Chunk | undefined>;

  constructor(produce: (taken: number) => Chunk | undefined | Promise<Chunk | undefined>, length?: number) {
    this.#produce = produce;
    if (length !== undefined) this.length = length;
  }

  get chunks(): this {
    return this;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Chunk, undefined>> {
    const value = await this.#produce(this.taken);
    if (value === undefined) return { done: true, value };
    this.taken += 1;
    return { done: false, value };
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.returned = true;
    return { done: true, value: undefined };
  }
}
