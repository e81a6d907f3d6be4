import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Http2Stream, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { Duplex, Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import type { Observe } from '../telemetry/events.ts';

// About a hundred short calls.
const sliceBytes = 4 * 1024;
// Twice the sum of 64 KiB of headers and a message of 64 KiB (the default), because their objects need memory too.
const heapBytesPerStream = 256 * 1024;
const maxStreams = Math.floor(getHeapStatistics().heap_size_limit / heapBytesPerStream);
// About a hundred of the shortest messages, which grpc-js parses together.
const messageSliceBytes = 512;
// About a dozen messages: each needs a decompressor, which takes as long as a call.
const compressedSliceBytes = 64;
// A chunk needs about 100 bytes besides its own.
const shortChunkBytes = 64;
const maxShortChunks = 1_000;
// Node.js allows 128 headers too. grpc-js splits binary metadata at commas, and each value needs some 200 bytes.
const maxBinaryValues = 128;
// ENHANCE_YOUR_CALM of HTTP/2, which gRPC clients report as RESOURCE_EXHAUSTED.
const enhanceYourCalm = 11;
const resourceExhausted = 8;
// How many turns of the event loop to wait until closed connections have closed their streams.
const maxTurns = 1_000;
const maxTimeoutMs = 2 ** 31 - 1;
// Only in these units can a timeout of 8 digits, the maximum, be too long for a timer.
const msPerUnit: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000 };

/** The scheduler of the event loop, which the HTTP API uses too. */
export interface Pacer {
  isFree(now: number): boolean;
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
        if (bytes.length > sliceBytes || !pacer.isFree(performance.now())) await pacer.pause();
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

/**
 * Limits the memory of the streams that HTTP/2 opens while `isReading` returns true. Beyond what the heap can hold, the
 * oldest is closed. An interceptor cannot do this: for it, a call ends with its status, although the stream may
 * stay open.
 */
export function limitStreams(isReading: () => boolean, observe: Observe) {
  // The oldest first. Not a `Set`: each of its tables points to its successor, so an old one would keep closed streams
  // in memory until the next full collection.
  const open: Http2Stream[] = [];
  const refuse = (stream: Http2Stream, reason: string): void => {
    observe({ type: 'refused', face: 'grpc', status: resourceExhausted, reason });
    stream.close(enhanceYourCalm);
  };
  const add = (message: unknown): void => {
    // The channel reports the streams of all HTTP/2 servers of the process.
    if (!isReading()) return;
    const { stream, headers } = message as { stream: ServerHttp2Stream; headers: IncomingHttpHeaders };
    // grpc-js responds to it with 415, which would throw if its client has reset the stream meanwhile.
    if (!headers['content-type']?.startsWith('application/grpc')) {
      const { respond } = stream;
      stream.respond = (...response) => {
        if (!stream.closed) respond.apply(stream, response);
      };
    }
    const isCompressed = headers['grpc-encoding'] !== undefined;
    stream.push = slicing(stream, isCompressed ? compressedSliceBytes : messageSliceBytes, refuse);
    const binaryValues = cleanMetadata(headers);
    open.push(stream);
    const [oldest] = open;
    if (open.length > maxStreams && oldest !== undefined) refuse(oldest, 'too many calls are open');
    if (binaryValues > maxBinaryValues) {
      refuse(stream, 'the metadata has too many values');
      // grpc-js would still read these values.
      for (const name in headers) if (isBinary(name)) delete headers[name];
    }
  };
  const remove = (message: unknown): void => {
    const index = open.lastIndexOf((message as { stream: Http2Stream }).stream);
    if (index >= 0) open.splice(index, 1);
  };
  subscribe('http2.server.stream.created', add);
  subscribe('http2.server.stream.close', remove);
  return {
    /** Waits at most `maxTurns` until all streams close: HTTP/2 notices later that a connection was closed. */
    async end(): Promise<void> {
      for (let turn = 0; open.length > 0 && turn < maxTurns; turn += 1) await nextTurn();
      unsubscribe('http2.server.stream.created', add);
      unsubscribe('http2.server.stream.close', remove);
    },
  };
}

/** Removes metadata that grpc-js handles badly. Returns the number of binary values. */
function cleanMetadata(headers: IncomingHttpHeaders): number {
  // grpc-js keeps 32 bits of a timeout in ms, so a longer one may end the call at once.
  if (isLongTimeout(String(headers['grpc-timeout']))) delete headers['grpc-timeout'];
  let binaryValues = 0;
  for (const name in headers) {
    // grpc-js ignores invalid metadata too, but logs it, API keys included.
    if (!isValid(name, headers[name])) delete headers[name];
    else if (isBinary(name)) binaryValues += String(headers[name]).split(',', maxBinaryValues + 1).length;
  }
  return binaryValues;
}

function isLongTimeout(timeout: string): boolean {
  return Number.parseInt(timeout, 10) * (msPerUnit[timeout.slice(-1)] ?? 0) > maxTimeoutMs;
}

function isValid(name: string, value: unknown): boolean {
  if (name.startsWith(':')) return true;
  return /^[0-9a-z_.-]+$/.test(name) && (isBinary(name) || /^[ -~]*$/.test(String(value)));
}

function isBinary(name: string): boolean {
  return name.endsWith('-bin');
}

/**
 * Returns a replacement for a stream's `push`. grpc-js parses all messages of a chunk at once, and a message of 5 bytes
 * needs some 600 bytes of memory. Between slices, grpc-js pauses until the handler asks for the next message. It also
 * keeps each chunk of an unfinished message, so the number of short chunks in a stream is limited.
 */
function slicing(stream: Http2Stream, maxBytes: number, refuse: (stream: Http2Stream, why: string) => void) {
  const { push } = Readable.prototype;
  let hasChunk = false;
  let shortChunks = 0;
  return (chunk: Buffer | null): boolean => {
    // The end of a stream that was reset would let grpc-js run the handler of an incomplete request. After a reset
    // without an error, Node.js destroys the stream only once it was read to this end.
    if (chunk === null && stream.aborted) queueMicrotask(() => stream.destroy());
    if (chunk === null) return !stream.destroyed && !stream.aborted && push.call(stream, chunk);
    if (chunk.length < shortChunkBytes) {
      shortChunks += 1;
      if (shortChunks === maxShortChunks + 1) refuse(stream, 'a call has too many short chunks');
    }
    // A chunk is a view of its whole packet, most of which may be frames of other kinds or of other streams. So a copy
    // is kept instead, but not of the first chunk of a stream, because most calls have no other. Not from the pool of
    // buffers, because other copies would keep its whole memory too.
    const isSmallPart = chunk.length < chunk.buffer.byteLength / 2;
    const kept = isSmallPart && hasChunk ? Buffer.from(new Uint8Array(chunk).buffer) : chunk;
    hasChunk = true;
    if (kept.length <= maxBytes) return push.call(stream, kept);
    let isWanted = true;
    for (let start = 0; start < kept.length; start += maxBytes) {
      isWanted = push.call(stream, kept.subarray(start, start + maxBytes));
    }
    return isWanted;
  };
}
