import type { ServerResponse } from 'node:http';
import { type ByteStream, isStream, type Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

export interface SendOptions {
  /** Whether the connection ends with this reply. */
  readonly close: boolean;
  /** A reply of which the client takes nothing for so long is cut, in milliseconds. */
  readonly writeTimeoutMs: number;
}

// What is left of a body that nobody will read: up to here it is cheaper to take it than to lose the
// connection.
const keepAliveDrainBytes = 64 * 1024;
// A client still sending when it is refused learns why only if we go on reading for a while: closing
// with unread bytes resets the connection and takes the reply along.
const lingerBytes = 256 * 1024;
const lingerMs = 1_000;

/** Writes a reply; the only place that does. Fails when a stream does, before or after the head. */
export async function send(
  request: HttpRequest,
  response: ServerResponse,
  reply: Reply,
  options: SendOptions,
): Promise<void> {
  const { body } = reply;
  if (isStream(body) && request.method !== 'HEAD')
    return await sendStream(request, response, reply, body, options);
  if (response.destroyed) return;
  const linger = hasLongUnreadBody(request);
  writeHead(request, response, reply, options.close || linger);
  const content = request.method === 'HEAD' || isStream(body) ? undefined : body;
  if (linger) {
    response.write(content ?? '');
    endWhenDrained(request, response);
  } else {
    response.end(content);
  }
  if (response.writableLength > 0) response.socket?.setTimeout(options.writeTimeoutMs);
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
    // Until the first chunk is there, a failure can still become an honest status.
    let next = await chunks.next();
    if (response.destroyed) return;
    writeHead(request, response, reply, options.close);
    response.socket?.setTimeout(options.writeTimeoutMs);
    while (next.done !== true) {
      if (!response.write(next.value)) await drained(response);
      if (response.destroyed) return;
      next = await chunks.next();
    }
    response.end();
  } finally {
    await chunks.return?.();
  }
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

function drained(response: ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const settle = (): void => {
    response.off('drain', settle).off('close', settle);
    resolve();
  };
  response.on('drain', settle).on('close', settle);
  return promise;
}

function hasLongUnreadBody({ raw }: HttpRequest): boolean {
  if (raw.complete) return false;
  if (raw.headers['transfer-encoding'] !== undefined) return true;
  const length = Number(raw.headers['content-length'] ?? 0);
  // Whoever sent Expect and got no go-ahead may or may not send the body: the framing is in doubt.
  return length > keepAliveDrainBytes || (length > 0 && raw.headers.expect !== undefined);
}

function endWhenDrained({ raw }: HttpRequest, response: ServerResponse): void {
  let bytes = 0;
  const finish = (): void => {
    clearTimeout(timer);
    raw.off('data', count).off('end', finish).off('close', finish);
    response.end();
  };
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > lingerBytes) finish();
  };
  const timer = setTimeout(finish, lingerMs);
  raw.on('data', count).on('end', finish).on('close', finish).resume();
}
