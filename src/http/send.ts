import type { ServerResponse } from 'node:http';
import { connectionOf } from './connections.ts';
import { endLingering, hasLongUnreadBody } from './refusals.ts';
import { type ByteStream, type Headers, isStream, type Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

export interface SendOptions {
  /** Headers of every reply, which its own may replace. */
  readonly headers: Headers;
  /** Whether the connection ends with this reply. */
  readonly close: boolean;
  /** A reply of which the client takes nothing for so long is cut, in ms; 0 for no limit. */
  readonly writeTimeoutMs: number;
}

// A longer body goes out in slices of this, so that a client that takes it slowly is seen to take it.
const sliceBytes = 64 * 1024;

/**
 * Writes a reply; the only place that does. A whole one is written at once; a stream can fail, before or
 * after the head.
 */
export function send(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  options: SendOptions,
): Promise<void> | undefined {
  const body = sliced(reply.body);
  if (isStream(body)) return sendStream(request, response, { ...reply, body }, body, options);
  writeWhole(request, response, reply, body, options);
  return undefined;
}

async function sendStream(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  body: ByteStream,
  options: SendOptions,
): Promise<void> {
  const chunks = body.chunks[Symbol.asyncIterator]();
  try {
    if (request.method === 'HEAD') writeWhole(request, response, reply, undefined, options);
    else await writeStream(request, response, reply, body, chunks, options);
  } finally {
    // Also when nothing was taken of it: a stream may hold a file open from the start.
    await chunks.return?.();
  }
}

function writeWhole(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  body: string | Uint8Array | undefined,
  options: SendOptions,
): void {
  if (isOver(response)) return;
  const content = request.method === 'HEAD' ? undefined : body;
  if (writeHead(request, response, reply, options)) {
    response.flushHeaders();
    if (content !== undefined) response.write(content);
    endLingering(response);
  } else {
    response.end(content);
  }
  if (response.writableLength > 0) {
    response.once('close', limitStall(response, options));
    request.hold(response.writableLength, () => response.destroy());
  }
}

async function writeStream(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  body: ByteStream,
  chunks: AsyncIterator<string | Uint8Array>,
  options: SendOptions,
): Promise<void> {
  // Until the first chunk is there, a failure can still become an honest status.
  let next = await chunks.next();
  if (isOver(response)) return;
  const linger = writeHead(request, response, reply, options);
  // A client may take nothing until all it sends is taken.
  if (linger) request.raw.resume();
  const { heldBytes } = body;
  const drained = drains(response);
  // Looked at after each wait: to a reply that is destroyed no more events come.
  while (next.done !== true && !response.destroyed) {
    const { value } = next;
    // The callback may never come from middleware that compresses; then the stream reuses no memory.
    if (!response.write(value, () => body.release?.(value))) {
      request.hold(heldBytes ?? response.writableLength, () => response.destroy());
      await drained().finally(limitStall(response, options));
      if (response.destroyed) return;
      request.hold(0);
    }
    const turn = request.turn();
    if (turn !== undefined) await turn;
    next = await chunks.next();
  }
  if (response.destroyed) return;
  response.once('close', limitStall(response, options));
  if (linger) endLingering(response);
  else response.end();
}

/**
 * Resolves each time the response drains or closes. It has one listener for the whole reply: middleware
 * that compresses moves it to a stream of its own, from which `once` and `off` would not remove it. A
 * function of its own, so that no listener keeps the body for as long as the connection keeps its response.
 */
function drains(response: ServerResponse): () => Promise<void> {
  let proceed: () => void = () => undefined;
  response.on('drain', () => proceed());
  response.on('close', () => proceed());
  return () =>
    new Promise((resolve) => {
      proceed = resolve;
    });
}

// The client has left, or its request turned out malformed halfway and has had that for an answer.
function isOver(response: ServerResponse): boolean {
  return response.destroyed || response.headersSent;
}

/** Writes the head; returns whether the client may still be sending, and the reply must wait for it. */
function writeHead(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  { close, headers: common }: SendOptions,
): boolean {
  const { body, status } = reply;
  const linger = hasLongUnreadBody(request.raw);
  // An object: wrappers of `writeHead` that compress or log take a list for a list of pairs.
  const headers: Record<string, string | number> = {
    ...common,
    ...reply.headers,
    'x-request-id': request.id,
  };
  if (body !== undefined) {
    const length = isStream(body) ? body.length : Buffer.byteLength(body);
    if (length !== undefined) headers['content-length'] = length;
  } else if (status !== 204 && status !== 304) {
    headers['content-length'] = 0;
  }
  if (close || linger) headers['connection'] = 'close';
  if (headers['connection'] === 'close') connectionOf(request.raw.socket).closing = true;
  response.writeHead(status, headers);
  return linger;
}

/**
 * Cuts a reply of which the client takes nothing for too long; returns what stops the clock. The timer is
 * our own, because a socket's is set back by what the client sends. A pipelined reply waits for its turn
 * first.
 */
function limitStall(response: ServerResponse, { writeTimeoutMs }: SendOptions): () => void {
  if (writeTimeoutMs === 0) return () => undefined;
  let timer: NodeJS.Timeout | undefined;
  const start = (): void => {
    timer = setTimeout(() => response.destroy(), writeTimeoutMs);
  };
  if (response.socket === null) response.once('socket', start);
  else start();
  return () => clearTimeout(timer);
}

function sliced(body: Reply['body']): Reply['body'] {
  if (body === undefined || isStream(body) || body.length <= sliceBytes) return body;
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return { chunks: slices(bytes), length: bytes.length, heldBytes: bytes.length };
}

async function* slices(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += sliceBytes)
    yield bytes.subarray(start, start + sliceBytes);
}
