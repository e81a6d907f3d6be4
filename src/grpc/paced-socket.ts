import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

/** The scheduler of the event loop, which the HTTP API uses too. */
export interface Pacer {
  isFree(now: number): boolean;
  pause(): Promise<void>;
}

// About a hundred short calls.
const sliceBytes = 4 * 1024;

/**
 * A connection that is read in slices, as the scheduler allows. From a plain socket, HTTP/2 reads up to 2 MiB at once,
 * with thousands of calls: a client that cancels each call at once may start any number of them.
 */
export class PacedSocket extends Duplex {
  readonly #socket: Socket;
  readonly #pacer: Pacer;
  /** Called when HTTP/2 has read everything. HTTP/2 stops reading while its client reads nothing. */
  #onRead: (() => void) | undefined;

  constructor(socket: Socket, pacer: Pacer) {
    super({ readableHighWaterMark: 1 });
    this.#socket = socket;
    this.#pacer = pacer;
    socket
      .on('data', (bytes: Buffer) => {
        // Most packets are short, and the event loop is usually free.
        if (bytes.length <= sliceBytes && this.readableLength === 0 && pacer.isFree(performance.now())) {
          this.push(bytes);
        } else {
          socket.pause();
          void this.#pushSlices(bytes);
        }
      })
      .on('end', () => {
        // While slices are pushed, the socket is paused, but may end.
        if (!socket.isPaused()) this.push(null);
      })
      .on('close', () => this.destroy());
  }

  async #pushSlices(bytes: Buffer): Promise<void> {
    for (let start = 0; start < bytes.length; start += sliceBytes) {
      if (this.readableLength > 0) {
        await new Promise<void>((resolve) => {
          this.#onRead = resolve;
        });
      }
      await this.#pacer.pause();
      if (this.destroyed) return;
      this.push(bytes.subarray(start, start + sliceBytes));
    }
    if (this.#socket.readableEnded) this.push(null);
    else this.#socket.resume();
  }

  override _read(): void {
    this.#onRead?.();
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(bytes, done);
  }

  // HTTP/2 writes several short chunks at a time.
  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#socket.write(Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}
