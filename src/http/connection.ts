import { AsyncResource } from 'node:async_hooks';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { free, heapLimitBytes, type MemoryBudget, uncountedBytes } from './memory-budget.ts';
import { scheduler } from './scheduler.ts';

// The memory of a pipelined request besides its headers and its body.
const requestBytes = 2 * 1024;
// The memory of a header name or value besides its characters: a packet can contain about 13,000 empty headers.
const textBytes = 64;
// Above this, reading pauses, and the service cannot notice that the client has disconnected. It is about 15 short
// requests with a heap of 4 GiB, and fewer with a smaller heap.
const maxWaitingBytes = requestBytes * Math.min(16, Math.ceil(heapLimitBytes / (256 * 1024 * 1024)));
// Node reads at most this many bytes of a connection at once.
const readBytes = 64 * 1024;
const shortChunkBytes = 1024;
// Reading pauses after this many short chunks. Otherwise a turn of the event loop would read up to 300,000 of them.
const pauseEveryChunks = 1_000;
// To parse a packet of chunks of one byte takes about as long as to write a reply of this length.
const packetCostBytes = 2 * 1024 * 1024;
// Weak, since the server and its connections may belong to a host application.
const connections = new WeakMap<Duplex, Connection>();

/** The state of a connection. Its requests run one at a time, because all their responses would need much memory. */
export class Connection {
  readonly #socket: Duplex;
  /** The response to the latest request. Removed when the response ends, unless the request body is still arriving. */
  newest: ServerResponse | undefined;
  /** The response to the running request, and a function that rejects the request when its body is malformed. */
  running: { readonly response: ServerResponse; readonly fail: (error: Error) => void } | undefined;
  /** Whether a response with `Connection: close` was sent: later requests are not processed (RFC 9112, 9.6). */
  closing = false;
  /** The last error: the body of the newest request or the head of the next one is malformed or late. */
  failure: Error | undefined;
  /** The response to the waiting request that gets `failure` in its turn. Its late body may be complete by then. */
  toReject: ServerResponse | undefined;
  /** The number of TLS keys so far. */
  tlsKeys = 0;
  /** When the service began to read the connection, then when its latest response ended, by `performance.now()`. */
  idleSince = performance.now();
  /** The size of the waiting pipelined requests, according to their heads; 0 if none waits. */
  #waitingBytes = 0;
  /** Resumes reading the connection. Set only while reading is paused because too many requests wait. */
  #endPause: (() => void) | undefined;
  /** The number of short chunks so far, in the bodies of all requests: one packet can contain many short bodies. */
  #shortChunks = 0;
  #isPausedByChunks = false;
  #signal: AbortSignal | undefined;

  constructor(socket: Duplex) {
    this.#socket = socket;
    connections.set(socket, this);
  }

  /** Since when it has waited for the next request of its client, by `performance.now()`; Infinity if it is busy. */
  get waitingSince(): number {
    const { writable, writableLength } = this.#socket;
    // A client may still be sending the rest of a body after its response, or reading the last bytes of a response.
    const isReceived = this.newest === undefined || this.newest.req.complete;
    const isSent = writable && writableLength === 0;
    return this.running === undefined && isReceived && isSent ? this.idleSince : Number.POSITIVE_INFINITY;
  }

  /** Aborts when the connection closes, because an HTTP/1 client cancels by closing it. */
  get signal(): AbortSignal {
    if (this.#signal !== undefined) return this.#signal;
    const aborter = new AbortController();
    this.#signal = aborter.signal;
    if (this.#socket.destroyed) aborter.abort();
    // The socket of an adapter for serverless hosts may have no events.
    else this.#socket.once?.('close', () => aborter.abort());
    return aborter.signal;
  }

  /** The response to a request has ended, at this time by `performance.now()`. */
  end(message: IncomingMessage, response: ServerResponse, now: number): void {
    this.idleSince = now;
    // Release the last request of an idle connection. While its body arrives, errors still need the response.
    if (this.newest === response && message.complete) this.newest = undefined;
    if (this.running?.response === response) this.running = undefined;
  }

  /** Delays a pipelined request until its response gets the socket: the earlier responses have ended then. */
  wait(response: ServerResponse, memory: MemoryBudget, start: () => void): void {
    const { headers, rawHeaders, url = '' } = response.req;
    // With a chunked body, reading pauses at once.
    let bytes = requestBytes + url.length + unreadBytes(headers);
    for (const text of rawHeaders) bytes += textBytes + text.length;
    this.#waitingBytes += bytes;
    const startBound = AsyncResource.bind(() => this.#start(start, bytes));
    // In a microtask, so that the previous response emits `close` first.
    response.once('socket', () => queueMicrotask(startBound));
    if (this.#waitingBytes <= maxWaitingBytes) return;
    // Reading pauses only after the present packet, so each further request in it counts too. Even the first bytes
    // count, because thousands of connections that wait with a few requests each could exhaust a small heap.
    memory.hold(this, uncountedBytes + this.#waitingBytes);
    if (this.#endPause !== undefined) return;
    if (memory.isShort) this.#drop(memory);
    else this.#pause(memory);
  }

  /** Closes the connection, and stops reading requests from it. */
  #drop(memory: MemoryBudget): void {
    const socket = this.#socket;
    memory.hold(this, 0);
    memory.reportCancel();
    // Returning 2 stops the parser, as for an upgrade. Otherwise Node would keep all requests of this read.
    Reflect.set(Object(Reflect.get(socket, 'parser')), 'onIncoming', () => 2);
    socket.destroy();
  }

  /** Stops reading until the waiting requests have run. Further bytes of the client stay in the kernel. */
  #pause(memory: MemoryBudget): void {
    const socket = this.#socket;
    const endPause = (): void => {
      this.#endPause = undefined;
      memory.hold(this, 0);
      socket.off('resume', socket.pause).off('close', endPause).resume();
    };
    this.#endPause = endPause;
    // Node resumes the socket after each response, so pause it again.
    socket.on('resume', socket.pause).on('close', endPause).pause();
  }

  #start(start: () => void, bytes: number): void {
    this.#waitingBytes -= bytes;
    // In Node.js 24.7, a response may get the socket although its client has disconnected.
    if (this.#socket.destroyed) return;
    if (this.#waitingBytes === 0) this.#endPause?.();
    start();
  }

  /** Counts a short chunk of a body. After many of them, pauses the connection until the scheduler allows more. */
  countShortChunk(message: IncomingMessage): void {
    this.#shortChunks += 1;
    if (this.#shortChunks % pauseEveryChunks !== 0 || this.#isPausedByChunks) return;
    this.#isPausedByChunks = true;
    const socket = this.#socket;
    // Node resumes the socket when the body is read, so pause it again.
    socket.on('resume', socket.pause).pause();
    void scheduler.pause(packetCostBytes).then(() => {
      this.#isPausedByChunks = false;
      socket.off('resume', socket.pause);
      // Without this check, a body that waits to be read would be read into memory. Node resumes when it is read.
      if (message.complete || message.readableLength < message.readableHighWaterMark) socket.resume();
    });
  }
}

export function connectionOf(socket: Duplex): Connection {
  return connections.get(socket) ?? new Connection(socket);
}

/** Whether Node.js parses the connection. Test doubles and adapters for serverless hosts make requests themselves. */
export function hasParser(socket: Duplex): boolean {
  return 'parser' in socket;
}

/** Merges the short chunks or TLS records of a body, because the parser makes a Buffer of about 400 bytes for each. */
export function mergeChunks(message: IncomingMessage): void {
  const { 'content-length': contentLength = 0, 'transfer-encoding': coding } = message.headers;
  const { socket } = message;
  const hasRecords = 'encrypted' in socket && Number(contentLength) > shortChunkBytes;
  if (coding === undefined && !hasRecords) return;
  // Only the parser makes such chunks. Others may push text, or bytes that their host still uses.
  if (!hasParser(socket)) return;
  const push = message.push.bind(message);
  const connection = connectionOf(socket);
  const merged = Buffer.allocUnsafeSlow(shortChunkBytes);
  let length = 0;
  const flush = (): void => {
    if (length > 0) push(Buffer.copyBytesFrom(merged, 0, length));
    length = 0;
  };
  message.push = (chunk: Buffer | null): boolean => {
    if (chunk === null || length + chunk.length > shortChunkBytes) flush();
    if (chunk === null || chunk.length > shortChunkBytes) return push(chunk);
    connection.countShortChunk(message);
    // Node runs the microtasks after each chunk, so a microtask would be too early.
    if (length === 0) setImmediate(flush);
    chunk.copy(merged, length);
    length += chunk.length;
    free(chunk);
    // Whether the stream wants more. Otherwise Node stops reading the connection.
    return message.readableLength < message.readableHighWaterMark;
  };
}

/** How much of a body Node reads at most while nothing else does. The length of a chunked one is unknown. */
export function unreadBytes(headers: IncomingHttpHeaders): number {
  const length = headers['transfer-encoding'] === undefined ? headers['content-length'] : readBytes;
  return Math.min(Number(length ?? 0), readBytes);
}
