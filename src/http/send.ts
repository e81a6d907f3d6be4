import type { ServerResponse } from 'node:http';
import { endLingering, hasLongUnreadBody } from './linger.ts';
import { isStream, type Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

export interface SendOptions {
  /** Whether the connection ends with this reply. */
  readonly close: boolean;
  /** A reply of which the client takes nothing for so long is cut, in ms; within twice the time at the latest. */
  readonly writeTimeoutMs: number;
}

/** Writes a reply; the only place that does. Fails when a stream does, before or after the head. */
export async function send(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  options: SendOptions,
): Promise<void> {
  const { body } = reply;
  if (!isStream(body)) return writeWhole(request, response, reply, body, options);
  const chunks = body.chunks[Symbol.asyncIterator]();
  try {
    if (request.method === 'HEAD') writeWhole(request, response, reply, undefined, options);
    else await writeStream(request, response, reply, chunks, options);
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
  const linger = hasLongUnreadBody(request.raw);
  writeHead(request, response, reply, options.close || linger);
  if (linger) {
    response.flushHeaders();
    if (content !== undefined) response.write(content);
    endLingering(response);
  } else {
    response.end(content);
  }
  if (response.writableLength > 0) limitStall(request, options);
}

async function writeStream(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  chunks: AsyncIterator<string | Uint8Array>,
  options: SendOptions,
): Promise<void> {
  // Until the first chunk is there, a failure can still become an honest status.
  let next = await chunks.next();
  if (isOver(response)) return;
  const linger = hasLongUnreadBody(request.raw);
  writeHead(request, response, reply, options.close || linger);
  limitStall(request, options);
  // A client may take nothing until all it sends is taken.
  if (linger) request.raw.resume();
  // Looked at after each wait: to a reply that is destroyed no more events come.
  while (next.done !== true && !response.destroyed) {
    if (!(await written(response, next.value))) return;
    next = await chunks.next();
  }
  if (response.destroyed) return;
  if (linger) endLingering(response);
  else response.end();
}

// The client has left, or its request turned out malformed halfway and has had that for an answer.
function isOver(response: ServerResponse): boolean {
  return response.destroyed || response.headersSent;
}

function writeHead(request: HttpRequest, response: ServerResponse, reply: Reply, close: boolean): void {
  const { body, status } = reply;
  const headers: Record<string, string | number> = { ...reply.headers, 'x-request-id': request.id };
  if (body !== undefined) {
    const length = isStream(body) ? body.length : Buffer.byteLength(body);
    if (length !== undefined) headers['content-length'] = length;
  } else if (status !== 204 && status !== 304) {
    headers['content-length'] = 0;
  }
  if (close) headers['connection'] = 'close';
  response.writeHead(status, headers);
}

// Of the connection, which a pipelined reply does not have yet for its own. Node lifts the limit when
// the next request comes, and ends the connection when it is reached.
function limitStall({ raw }: HttpRequest, { writeTimeoutMs }: SendOptions): void {
  raw.socket.setTimeout(writeTimeoutMs);
}

/** Resolves when a chunk has left, to whether it has: not when the client is gone. */
function written(response: ServerResponse, chunk: string | Uint8Array): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const onClose = (): void => resolve(false);
  response.once('close', onClose);
  response.write(chunk, (error) => {
    response.off('close', onClose);
    resolve(error === null || error === undefined);
  });
  return promise;
}
