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
// A slice has at least this length, unless it is the last. That is about a dozen of the shortest messages, of which each
// may need a decompressor, which takes as long as a call.
const minSliceBytes = 64;
// A message begins with a flag, and its length in four bytes.
const prefixBytes = 5;
const noBytes = Buffer.alloc(0);
// ENHANCE_YOUR_CALM of HTTP/2, which gRPC clients report as RESOURCE_EXHAUSTED.
const enhanceYourCalm = 11;
const resourceExhausted = 8;
// How many turns of the event loop to wait until closed connections have closed their streams.
const maxTurns = 1_000;
// Nearly all calls are of this method. They skip a check that only calls of other methods need.
const mainPath = '/Users/GetUser';
// The headers that the service, grpc-js and the tracing of a host use.
// biome-ignore format: one line for each name is longer to read.
const usedHeaders = [
  'content-type', 'grpc-timeout', 'grpc-encoding', 'x-api-key', idName, 'traceparent', 'tracestate', 'baggage',
];
// A timeout of several days. grpc-js keeps 32 bits of its ms, so a longer one may end the call at once.
const longTimeout = /^0*[1-9](?:\d{2,}H|\d{4,}M|\d{6,}S)/;

/**
 * Limits the memory of the streams that HTTP/2 opens while `reading` returns a connection. Beyond what the heap can hold,
 * the oldest is closed. An interceptor cannot do this: for it, a call ends with its status, although the stream may
 * stay open.
 */
export function limitStreams(reading: () => Socket | undefined, observe: Observe, maxMessageBytes: number) {
  // The oldest first. Not a `Set`: each of its tables points to its successor, so an old one would keep closed streams
  // in memory until the next full collection.
  const open: { readonly stream: Http2Stream; readonly connection: Socket }[] = [];
  const refuse = (stream: Http2Stream, reason: string): void => {
    observe({ type: 'refused', face: 'grpc', status: resourceExhausted, reason });
    stream.close(enhanceYourCalm);
  };
  const add = (message: unknown): void => {
    // The channel reports the streams of all HTTP/2 servers of the process.
    const connection = reading();
    if (connection === undefined) return;
    const { stream, headers } = message as { stream: ServerHttp2Stream; headers: IncomingHttpHeaders };
    for (const name in headers) if (!isUsed(name, String(headers[name]))) delete headers[name];
    if (headers[':path'] !== mainPath || !headers['content-type']?.startsWith('application/grpc'))
      reportRejection(stream, headers, observe);
    stream.push = joining(stream, maxMessageBytes);
    open.push({ stream, connection });
    const [oldest] = open;
    if (open.length > maxStreams && oldest !== undefined) refuse(oldest.stream, 'too many calls are open');
  };
  const remove = (message: unknown): void => {
    const closed = (message as { stream: Http2Stream }).stream;
    const index = open.findLastIndex(({ stream }) => stream === closed);
    if (index >= 0) open.splice(index, 1);
  };
  subscribe('http2.server.stream.created', add);
  subscribe('http2.server.stream.close', remove);
  return {
    /** Whether a connection has open streams. */
    areOpen: (connection: Socket): boolean => open.some((one) => one.connection === connection),

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
 * Returns a replacement for a stream's `push`. It keeps an unfinished message in one buffer, and also all bytes while
 * earlier ones wait in the stream, where each chunk would need about 300 bytes more, and keep its whole packet. It
 * passes on whole messages in slices, because grpc-js parses all messages of a slice at once, and each needs about 600
 * bytes. Between slices, grpc-js pauses until the handler asks for the next message.
 */
function joining(stream: Http2Stream, maxMessageBytes: number) {
  const { push } = Readable.prototype;
  /** The first `keptBytes` are used, of which the first `wholeBytes` are whole messages. */
  let kept: Buffer = noBytes;
  let keptBytes = 0;
  let wholeBytes = 0;
  const pass = (end: number): void => {
    const [bytes, rest] = [kept.subarray(0, end), kept.subarray(end, keptBytes)];
    kept = rest.length > 0 ? Buffer.from(rest) : noBytes;
    keptBytes = rest.length;
    wholeBytes = 0;
    for (let start = 0, next = 0; start < end; start = next) {
      while (next < end && next - start < minSliceBytes)
        next = endOfMessage(bytes, next, maxMessageBytes) ?? end;
      push.call(stream, bytes.subarray(start, next));
    }
  };
  return (chunk: Buffer | null): boolean => {
    if (chunk === null) {
      // The end of a stream that was reset would let grpc-js run the handler of an incomplete request. After a reset
      // without an error, Node.js destroys the stream only once it was read to this end.
      if (stream.aborted) queueMicrotask(() => stream.destroy());
      if (stream.destroyed || stream.aborted) return false;
      pass(keptBytes);
      return push.call(stream, chunk);
    }
    const needed = keptBytes + chunk.length;
    // Most calls have only one chunk, which is not copied.
    if (keptBytes === 0) kept = chunk;
    else {
      if (needed > kept.length) kept = Buffer.concat([kept.subarray(0, keptBytes)], 2 * needed);
      chunk.copy(kept, keptBytes);
    }
    keptBytes = needed;
    const wasWaiting = wholeBytes > 0;
    const bytes = kept.subarray(0, keptBytes);
    for (let end: number | undefined = wholeBytes; end !== undefined; ) {
      wholeBytes = end;
      end = endOfMessage(bytes, end, maxMessageBytes);
    }
    const isWaiting = wholeBytes > 0;
    if (isWaiting && (stream.readableFlowing || stream.readableLength === 0)) pass(wholeBytes);
    else if (isWaiting && !wasWaiting) stream.once('resume', () => pass(wholeBytes));
    // After a pause, Node.js reads a stream again only if something was pushed since it began to read.
    else if (!isWaiting) push.call(stream, noBytes);
    // While messages wait, the client may only fill its window.
    return wholeBytes === 0;
  };
}

/** Where the message that begins at `start` ends; `undefined` if it is unfinished. */
function endOfMessage(bytes: Buffer, start: number, maxMessageBytes: number): number | undefined {
  if (bytes.length < start + prefixBytes) return undefined;
  const length = bytes.readUInt32BE(start + 1);
  // grpc-js rejects a message that is too long, so its rest is not needed.
  if (length > maxMessageBytes) return bytes.length;
  const end = start + prefixBytes + length;
  return end <= bytes.length ? end : undefined;
}
