import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

// About a hundred short calls.
const sliceBytes = 4 * 1024;

/** The scheduler of the event loop, which the HTTP API uses too. */
export interface Pacer {
  admit(now: number): boolean;
  pause(): Promise<void>;
}

/**
 * A connection that is read in slices, as the scheduler allows. From a plain socket, HTTP/2 reads up to 2 MiB at once,
 * with thousands of calls: a client that cancels each call at once may start any number of them.
 */
export class PacedSocket extends Duplex {
  readonly #socket: Socket;
  /** Called when HTTP/2 has read everything. HTTP/2 stops reading while its client reads nothing. */
  #onRead = (): void => undefined;

  constructor(socket: Socket, pacer: Pacer) {
    super({ readableHighWaterMark: 1 });
    this.#socket = socket;
    socket.on('close', () => this.destroy());
    // It fails only when the socket closes.
    this.#readSlices(pacer).catch(() => undefined);
  }

  async #readSlices(pacer: Pacer): Promise<void> {
    const packets: AsyncIterable<Buffer> = this.#socket.iterator({ destroyOnReturn: false });
    for await (const bytes of packets) {
      for (let start = 0; start < bytes.length; start += sliceBytes) {
        // Most packets are short, and the event loop is usually free.
        if (bytes.length > sliceBytes || !pacer.admit(performance.now())) await pacer.pause();
        const isRead = this.push(bytes.subarray(start, start + sliceBytes));
        if (!isRead) {
          await new Promise<void>((resolve) => {
            this.#onRead = resolve;
          });
        }
      }
    }
    this.push(null);
  }

  override _read(): void {
    this.#onRead();
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
