import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { http } from './node-http.ts';
import { errorReply, linger } from './refusals.ts';
import { type ByteStream, type ErrorResponse, isStream, type Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';
import { scheduler } from './scheduler.ts';

// A longer body is written in slices of this size, to notice the progress of a client that reads slowly.
const sliceBytes = 64 * 1024;
// Up to this length, reading the rest of a body is cheaper than a new connection.
const shortBodyBytes = 64 * 1024;

/** Writes a reply. Only `refusals` writes responses without it. A stream can fail before or after the head. */
export function send(request: HttpRequest, reply: Reply): Promise<void> | undefined {
  const body = request.method === 'HEAD' ? undefined : sliced(reply.body);
  if (isStream(body)) return sendStream(request, reply, body);
  const { response } = request;
  if (isOver(response)) return undefined;
  writeHead(request, reply);
  response.end(body);
  if (response.writableLength > 0) {
    response.once('close', startStallTimer(request));
    request.hold(response.writableLength, () => request.abort());
  }
  return undefined;
}

/** Writes an error response, or ends a reply that has begun: its client would read the error as the rest of it. */
export function sendError(request: HttpRequest, error: ErrorResponse): void {
  const { response } = request;
  if (response.headersSent) {
    request.failedStatus = error.status;
    if (!response.writableEnded) request.abort();
  } else send(request, errorReply(error, request));
}

async function sendStream(request: HttpRequest, reply: Reply, body: ByteStream): Promise<void> {
  const { response } = request;
  // Unlike a stream of the handler, a body that `send` has sliced is in memory until its last byte is sent.
  const heldBytes = isStream(reply.body) ? undefined : body.length;
  let sentBytes = 0;
  const chunks = body.chunks[Symbol.asyncIterator]();
  try {
    // Before the first chunk, a failure can still become an error status.
    let next = await chunks.next();
    if (isOver(response)) return;
    writeHead(request, { ...reply, body });
    const drained = drainWaiter(response);
    const release = isCopied(response) ? body.release : undefined;
    // While this waits, the response may be destroyed, after which it never drains, or a host may end it.
    while (next.done !== true && !response.destroyed && !response.writableEnded) {
      const { value } = next;
      sentBytes += value.length;
      const onWritten = (error?: Error | null) => !error && typeof value !== 'string' && release?.(value);
      // The response of an adapter for serverless hosts returns nothing, and never drains.
      const isFull = response.write(value, onWritten) === false;
      // The stream keeps its chunk also while others have their turn.
      request.hold(heldBytes ?? Math.max(value.length, response.writableLength), () => request.abort());
      // End the response at once, because its client may close the connection at the last byte.
      if (sentBytes === body.length) break;
      if (isFull) {
        const stopTimer = startStallTimer(request);
        await drained().finally(stopTimer);
        if (response.destroyed) return;
      }
      // A body that is in memory does not wait for other requests, because sending it frees the memory.
      if (heldBytes === undefined) await scheduler.pause(value.length);
      request.hold(0);
      next = await chunks.next();
    }
    if (response.destroyed) return;
    const stopTimer = startStallTimer(request);
    // On serverless hosts, a response may emit no `close`.
    response.once('close', stopTimer).once('finish', stopTimer).end();
  } finally {
    await chunks.return?.();
  }
}

/**
 * Starts a timer that closes the connection if the client reads so little of a response that the buffers of the kernel
 * stay full. Returns a function to stop it. Bytes from the client would restart the timeout of the socket.
 */
function startStallTimer({ response, listener }: HttpRequest): () => void {
  const ms = listener.limits.writeTimeoutMs;
  const timer = ms === 0 ? undefined : setTimeout(() => response.destroy(), ms).unref();
  return () => clearTimeout(timer);
}

/** Whether the kernel has copied each chunk when it is written. Middleware or a connection in memory may keep it. */
function isCopied({ req, write }: ServerResponse): boolean {
  return req.socket instanceof Socket && write === http.ServerResponse.prototype.write;
}

/**
 * Returns a function that resolves when the response drains or closes. It adds one listener for the whole reply, since
 * middleware that compresses moves listeners to another stream, where `off` cannot remove them. As a separate
 * function, it does not keep the body in memory.
 */
function drainWaiter(response: ServerResponse): () => Promise<void> {
  let onDrain: () => void = () => undefined;
  response.on('drain', () => onDrain());
  response.on('close', () => onDrain());
  return () =>
    new Promise((resolve) => {
      onDrain = resolve;
    });
}

/** Whether the client has disconnected, or an error response was sent because its request body was malformed. */
function isOver(response: ServerResponse): boolean {
  return response.destroyed || response.headersSent;
}

/** Writes the head. If the rest of the request body must be read, the connection closes when that is done. */
function writeHead(request: HttpRequest, reply: Reply): void {
  const { raw, response, connection, listener } = request;
  const { body, status } = reply;
  const cors = listener.corsHeaders?.(request);
  // Use an object: wrappers of `writeHead` that compress or log would read a list as a list of pairs.
  const headers: Record<string, string | number> = {
    ...listener.commonHeaders,
    ...cors,
    'x-request-id': request.id,
    ...reply.headers,
  };
  // Middleware of a host may have set a Vary too.
  const hostVary = response.getHeader('vary');
  if (hostVary !== undefined || cors?.['vary'] !== undefined) {
    const all = [hostVary, reply.headers?.['vary'], cors?.['vary']].flat();
    headers['vary'] = all.filter((one) => one !== undefined).join(', ');
  }
  const length = isStream(body) ? body.length : Buffer.byteLength(body ?? '');
  if (length !== undefined && status !== 204 && status !== 304) headers['content-length'] = length;
  // Pipelined requests that have already arrived get their responses first.
  if (listener.draining && connection.newest === response) headers['connection'] = 'close';
  // A host may have set it too, such as while it drains.
  if (/\bclose\b/i.test(String(response.getHeader('connection')))) headers['connection'] = 'close';
  const staysOpen = headers['connection'] !== 'close' && response.shouldKeepAlive;
  const lingers = mustReadRest(raw, staysOpen);
  if (lingers) headers['connection'] = 'close';
  if (headers['connection'] === 'close') connection.closing = true;
  response.writeHead(status, headers);
  // Some clients read nothing until the server has read all of their request.
  if (lingers) linger(raw, () => listener.draining);
}

/**
 * Whether the rest of a request body must be read before the connection closes. If the connection could stay open,
 * Node.js reads a short rest by itself.
 */
function mustReadRest(message: IncomingMessage, staysOpen: boolean): boolean {
  if (message.complete) return false;
  if (message.headers['transfer-encoding'] !== undefined) return true;
  const length = Number(message.headers['content-length'] ?? 0);
  // A client that sent Expect may or may not send its body without 100 Continue: the next request is uncertain.
  return length > (staysOpen ? shortBodyBytes : 0) || (length > 0 && message.headers.expect !== undefined);
}

/** Whether a body is in memory and is written in slices. */
export function isLong(body: Reply['body']): body is string | Uint8Array {
  return body !== undefined && !isStream(body) && body.length > sliceBytes;
}

function sliced(body: Reply['body']): Reply['body'] {
  if (!isLong(body)) return body;
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  return { chunks: slices(bytes), length: bytes.length };
}

async function* slices(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += sliceBytes)
    yield bytes.subarray(start, start + sliceBytes);
}
