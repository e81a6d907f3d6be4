import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Http2Stream } from 'node:http2';
import { Readable } from 'node:stream';
import { getHeapStatistics } from 'node:v8';

// Several times the memory of a stream with 64 KiB of headers and a message of 64 KiB.
const heapPerStream = 256 * 1024;
const maxStreams = Math.floor(getHeapStatistics().heap_size_limit / heapPerStream);
const sliceBytes = 512;
// A chunk needs about 100 bytes besides its own.
const shortChunkBytes = 64;
const maxShortChunks = 1_000;
// The error code of HTTP/2 that clients report as RESOURCE_EXHAUSTED (ENHANCE_YOUR_CALM).
const enhanceYourCalm = 11;
const shortChunks = Symbol('the number of short chunks');

type CountedStream = Http2Stream & { [shortChunks]?: number };

/**
 * Limits the memory of the streams of the HTTP/2 server on a port. Beyond what the heap can hold, the oldest stream is
 * closed and `onExcess` is called. The result ends the limit.
 *
 * An interceptor of grpc-js could not do this: for it, a call ends with its status, although the client may keep the
 * stream open. The channels exist since Node.js 24.4.
 */
export function limitStreams(port: number, onExcess: () => void): () => void {
  /** In the order in which they were opened. */
  const open = new Set<Http2Stream>();
  const add = (message: unknown): void => {
    const { stream } = message as { stream: Http2Stream };
    // The channel reports the streams of all HTTP/2 servers of the process.
    if (stream.session?.socket.localPort !== port) return;
    stream.push = pushSlices;
    open.add(stream);
    const [oldest] = open;
    if (open.size <= maxStreams || oldest === undefined) return;
    onExcess();
    oldest.close(enhanceYourCalm);
  };
  const remove = (message: unknown): void => {
    open.delete((message as { stream: Http2Stream }).stream);
  };
  subscribe('http2.server.stream.created', add);
  subscribe('http2.server.stream.close', remove);
  return () => {
    unsubscribe('http2.server.stream.created', add);
    unsubscribe('http2.server.stream.close', remove);
  };
}

/**
 * Replaces `push` of a stream. grpc-js parses all messages of a chunk at once, and a message of 5 bytes needs some 600
 * bytes of memory. Between slices, it pauses until its handler asks for the next message. It keeps the chunks of an
 * unfinished message, so a stream may have only some short ones.
 */
function pushSlices(this: CountedStream, chunk: Buffer | null): boolean {
  const { push } = Readable.prototype;
  if (chunk === null) return push.call(this, chunk);
  if (chunk.length < shortChunkBytes) {
    this[shortChunks] = (this[shortChunks] ?? 0) + 1;
    if (this[shortChunks] > maxShortChunks) this.close(enhanceYourCalm);
  }
  if (chunk.length <= sliceBytes) return push.call(this, chunk);
  let isWanted = true;
  for (let start = 0; start < chunk.length; start += sliceBytes) {
    isWanted = push.call(this, chunk.subarray(start, start + sliceBytes));
  }
  return isWanted;
}
