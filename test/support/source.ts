import type { ByteStream } from '../../src/http/reply.ts';

type Chunk = string | Uint8Array;

/** A stream of the chunks that `produce` returns until it returns `undefined`. It records its use. */
export class Source implements ByteStream, AsyncIterableIterator<Chunk> {
  readonly length?: number;
  release?: (chunk: Chunk) => void;
  /** The number of chunks that were read. */
  taken = 0;
  /** Whether the consumer has closed the stream. */
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
