import type { IncomingMessage, ServerResponse } from 'node:http';
import { endLingering } from './refusals.ts';
import { type ByteStream, isStream, type Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';
import { turns } from './turns.ts';

// A longer body goes out in slices of this, so that a client that takes it slowly is seen to take it.
const sliceBytes = 64 * 1024;
// Up to here reading the rest of a body is cheaper than a new connection.
const shortBodyBytes = 64 * 1024;

/**
 * Writes a reply; the only place that does. A whole one is written at once; a stream can fail, before or
 * after the head.
 */
export function send(request: HttpRequest, reply: Reply): Promise<void> | undefined {
  const body = sliced(reply.body);
  if (isStream(body)) return sendStream(request, { ...reply, body }, body);
  writeWhole(request, reply, body);
  return undefined;
}

async function sendStream(request: HttpRequest, reply: Reply, body: ByteStream): Promise<void> {
  const chunks = body.chunks[Symbol.asyncIterator]();
  try {
    if (request.method === 'HEAD') writeWhole(request, reply, undefined);
    else await writeStream(request, reply, body, chunks);
  } finally {
    // Also when nothing was taken of it: a stream may hold a file open from the start.
    await chunks.return?.();
  }
}

function writeWhole(request: HttpRequest, reply: Reply, body: string | Uint8Array | undefined): void {
  const { response } = request;
  if (isOver(response)) return;
  const content = request.method === 'HEAD' ? undefined : body;
  if (writeHead(request, reply)) {
    response.flushHeaders();
    if (content !== undefined) response.write(content);
    endLingering(response);
  } else {
    response.end(content);
  }
  if (response.writableLength > 0) {
    response.once('close', limitStall(request));
    request.hold(response.writableLength, () => response.destroy());
  }
}

async function writeStream(
  request: HttpRequest,
  reply: Reply,
  body: ByteStream,
  chunks: AsyncIterator<string | Uint8Array>,
): Promise<void> {
  const { response } = request;
  // Until the first chunk is there, a failure can still become an honest status.
  let next = await chunks.next();
  if (isOver(response)) return;
  const linger = writeHead(request, reply);
  // A client may take nothing until all it sends is taken.
  if (linger) request.raw.resume();
  const { heldBytes } = body;
  const drained = drains(response);
  // Looked at after each wait: to a reply that is destroyed no more events come.
  while (next.done !== true && !response.destroyed) {
    const { value } = next;
    // The callback may never come from middleware that compresses; then the stream reuses no memory.
    if (!response.write(value, (error) => (error ? undefined : body.release?.(value)))) {
      request.hold(heldBytes ?? response.writableLength, () => response.destroy());
      await drained().finally(limitStall(request));
      if (response.destroyed) return;
      request.hold(0);
    }
    // What is made already is better sent than kept.
    if (heldBytes === undefined) await turns.wait();
    next = await chunks.next();
  }
  if (response.destroyed) return;
  response.once('close', limitStall(request));
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
function writeHead({ id, raw, response, connection, shared }: HttpRequest, reply: Reply): boolean {
  const { body, status } = reply;
  // An object: wrappers of `writeHead` that compress or log take a list for a list of pairs.
  const headers: Record<string, string | number> = {
    ...shared.headers,
    ...reply.headers,
    'x-request-id': id,
  };
  if (body !== undefined) {
    const length = isStream(body) ? body.length : Buffer.byteLength(body);
    if (length !== undefined) headers['content-length'] = length;
  } else if (status !== 204 && status !== 304) {
    headers['content-length'] = 0;
  }
  const linger = hasLongUnreadBody(raw);
  if (linger || (shared.draining && connection.newest === response)) headers['connection'] = 'close';
  if (headers['connection'] === 'close') connection.closing = true;
  response.writeHead(status, headers);
  return linger;
}

/** Whether the rest of a request's body is too long, or of unknown length, to read it to the end. */
function hasLongUnreadBody(message: IncomingMessage): boolean {
  if (message.complete) return false;
  if (message.headers['transfer-encoding'] !== undefined) return true;
  const length = Number(message.headers['content-length'] ?? 0);
  // A client that sent Expect and got no go-ahead may or may not send its body: where the next request
  // begins would be in doubt.
  return length > shortBodyBytes || (length > 0 && message.headers.expect !== undefined);
}

/**
 * Cuts a reply of which the client takes nothing for too long; returns what stops the clock. The timer is
 * our own, because a socket's is set back by what the client sends. A pipelined reply waits for its turn
 * first.
 */
function limitStall({ response, shared }: HttpRequest): () => void {
  const { writeTimeoutMs } = shared.limits;
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
