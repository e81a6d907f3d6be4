import type { FileHandle } from 'node:fs/promises';
import type { ByteRange } from './range.ts';

const chunkBytes = 64 * 1024;

/**
 * A range of an open file, chunk by chunk. It owns the handle, and closes it at the end, on a failure,
 * or when it is returned early: a generator would not, were it never begun.
 */
export class FileStream implements AsyncIterableIterator<Uint8Array> {
  readonly #handle: FileHandle;
  readonly #end: number;
  #position: number;

  constructor(handle: FileHandle, range: ByteRange) {
    this.#handle = handle;
    this.#position = range.start;
    this.#end = range.end;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#position > this.#end) return await this.return();
    const length = Math.min(chunkBytes, this.#end - this.#position + 1);
    try {
      // A buffer of its own for each chunk: the one before may still wait for the socket.
      const value = await readFully(this.#handle, this.#position, length);
      this.#position += length;
      return { done: false, value };
    } catch (error) {
      await this.return();
      throw error;
    }
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#position = Number.POSITIVE_INFINITY;
    await this.#handle.close();
    return { done: true, value: undefined };
  }
}

/** Reads `length` bytes; fails when the file has fewer, since its length has been told by then. */
export async function readFully(handle: FileHandle, start: number, length: number): Promise<Uint8Array> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(length), 0, length, start);
  if (bytesRead < length) throw new Error('the file became shorter while it was read');
  return buffer;
}
