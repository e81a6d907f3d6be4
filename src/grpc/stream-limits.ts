import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Http2Stream, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import type { Observe } from '../telemetry/events.ts';
import { idName, reportRejection } from './report.ts';

// Twice the sum of 64 KiB of headers and a message of 64 KiB (the default), because their objects need memory too.
const heapBytesPerStream = 256 * 1024;
const maxStreams = Math.floor(getHeapStatistics().heap_size_limit / heapBytesPerStream);
// About a dozen of the shortest messages. Each may need a decompressor, which takes as long as a call. For each chunk,
// Node.js needs about 100 bytes in addition.
const chunkBytes = 64;
const maxShortChunks = 1_000;
// ENHANCE_YOUR_CALM of HTTP/2, which gRPC clients report as RESOURCE_EXHAUSTED.
const enhanceYourCalm = 11;
const resourceExhausted = 8;
// How many turns of the event loop to wait until closed connections have closed their streams.
const maxTurns = 1_000;
// Nearly all calls are of this method. They skip a check that only calls of other methods need.
const mainPath = '/Users/GetUser';
// The headers that the service and grpc-js use.
// biome-ignore format: one line for each name is longer to read.
const usedHeaders = [
  'content-type', 'grpc-timeout', 'grpc-encoding', 'x-api-key', idName, 'traceparent',
];
// A timeout of several days. grpc-js keeps 32 bits of its ms, so a longer one may end the call at once.
const longTimeout = /^0*[1-9](?:\d{2,}H|\d{4,}M|\d{6,}S)/;

/**
 * Limits the memory of the streams that HTTP/2 opens while `reading` returns a connection. Beyond what the heap can hold,
 * the oldest is closed. An interceptor cannot do this: for it, a call ends with its status, although the stream may
 * stay open.
 */
export function limitStreams(reading: () => Socket | undefined, observe: Observe) {
  // The oldest first. Not a `Set`: each of its tables points to its successor, so an old one would keep closed streams
  // in memory until the next full collection.
  const open: Http2Stream[] = [];
  const connections = new WeakMap<Http2Stream, Socket>();
  const refuse = (stream: Http2Stream, reason: string): void => {
    observe({ type: 'refused', face: 'grpc', status: resourceExhausted, reason });
    stream.close(enhanceYourCalm);
  };
  const add = (message: unknown): void => {
    // The channel reports the streams of all HTTP/2 servers of the process.
    const connection = reading();
    if (connection === undefined) return;
    const { stream, headers } = message as { stream: ServerHttp2Stream; headers: IncomingHttpHeaders };
    if (headers[':path'] !== mainPath || !headers['content-type']?.startsWith('application/grpc'))
      reportRejection(stream, headers, observe);
    for (const name in headers) if (!isUsed(name, String(headers[name]))) delete headers[name];
    stream.push = slicing(stream, refuse);
    open.push(stream);
    connections.set(stream, connection);
    const [oldest] = open;
    if (open.length > maxStreams && oldest !== undefined) refuse(oldest, 'too many calls are open');
  };
  const remove = (message: unknown): void => {
    const index = open.lastIndexOf((message as { stream: Http2Stream }).stream);
    if (index >= 0) open.splice(index, 1);
  };
  subscribe('http2.server.stream.created', add);
  subscribe('http2.server.stream.close', remove);
  return {
    /** Whether a connection has open streams. */
    areOpen: (connection: Socket): boolean => open.some((one) => connections.get(one) === connection),

    /** Waits at most `maxTurns` until all streams close: HTTP/2 notices later that a connection was closed. */
    async end(): Promise<void> {
      for (let turn = 0; open.length > 0 && turn < maxTurns; turn += 1) await nextTurn();
      unsubscribe('http2.server.stream.created', add);
      unsubscribe('http2.server.stream.close', remove);
    },
  };
}

/**
 * Whether grpc-js gets a header. It would keep 200 bytes for each value of a list in binary metadata, and write invalid
 * values to the log, even those of API keys.
 */
function isUsed(name: string, value: string): boolean {
  if (name === 'grpc-timeout' && longTimeout.test(value)) return false;
  return name.startsWith(':') || (usedHeaders.includes(name) && /^[ -~]*$/.test(value));
}

/**
 * Returns a replacement for a stream's `push`. grpc-js parses all messages of a chunk at once, and a message of 5 bytes
 * needs some 600 bytes of memory. Between slices, grpc-js pauses until the handler asks for the next message. It also
 * keeps each chunk of an unfinished message, so the number of short chunks in a stream is limited.
 */
function slicing(stream: Http2Stream, refuse: (stream: Http2Stream, reason: string) => void) {
  const { push } = Readable.prototype;
  let hasChunk = false;
  let shortChunks = 0;
  return (chunk: Buffer | null): boolean => {
    if (chunk === null) {
      // The end of a stream that was reset would let grpc-js run the handler of an incomplete request. After a reset
      // without an error, Node.js destroys the stream only once it was read to this end.
      if (stream.aborted) queueMicrotask(() => stream.destroy());
      return !stream.destroyed && !stream.aborted && push.call(stream, chunk);
    }
    if (chunk.length < chunkBytes) {
      shortChunks += 1;
      if (shortChunks === maxShortChunks + 1) refuse(stream, 'a call has too many short chunks');
    }
    // A chunk is a view of its whole packet, most of which may be frames of other kinds or of other streams. So a copy
    // is kept instead, but not of the first chunk, because most calls have no other. The pool of buffers would keep
    // other copies with this one.
    const kept = hasChunk ? Buffer.from(new Uint8Array(chunk).buffer) : chunk;
    hasChunk = true;
    let isWanted = true;
    for (let start = 0; start < kept.length; start += chunkBytes) {
      isWanted = push.call(stream, kept.subarray(start, start + chunkBytes));
    }
    return isWanted;
  };
}
