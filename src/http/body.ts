import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { types } from 'node:util';
import { hasParser } from './connection.ts';
import { free } from './memory-budget.ts';
import { HttpError } from './reply.ts';

/** The maximum depth of nested arrays and objects, far below the depth where `JSON.stringify` fails. */
export const maxJsonDepth = 64;
/** The maximum number of array elements and object members together. An empty array or object counts as one. */
export const maxJsonMembers = 10_000;

const utf8 = new TextDecoder();

const bodyCancelled = new HttpError(503, 'too many bodies are being received');
const tooDeep = new HttpError(400, `the body must be at most ${maxJsonDepth} levels deep`);

// The memory of a chunk besides its bytes, which matters when a body arrives byte by byte.
const bytesPerChunk = 256;

/**
 * Reads a whole body. Reports the memory in use to `hold`, with a function that cancels the read. A cancelled read
 * fails with 503, a chunked body of more than `maxBytes` with 413, and one whose client disconnects with 499.
 */
export function readBody(
  message: IncomingMessage,
  maxBytes: number,
  hold: (bytes: number, cancel?: () => void) => void,
): Promise<Buffer> {
  if (!hasBody(message)) return Promise.resolve(Buffer.alloc(0));
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  // Without a parser, the host may still use the bytes.
  const ownsChunks = hasParser(message.socket) && isOnlyReader(message);
  let length = 0;
  const onData = (data: Buffer | string): void => {
    // It is text if the host has called `setEncoding`, as to keep the body for a signature.
    const chunk = typeof data === 'string' ? Buffer.from(data, message.readableEncoding ?? 'utf8') : data;
    length += chunk.length;
    if (length > maxBytes) {
      stop();
      reject(tooLarge(maxBytes));
    } else {
      chunks.push(chunk);
      hold(length + chunks.length * bytesPerChunk, onCancel);
    }
  };
  const onCancel = (): void => {
    stop();
    freeChunks();
    reject(cancelBody(message));
  };
  const onEnd = (): void => {
    stop();
    hold(length);
    resolve(Buffer.concat(chunks, length));
    freeChunks();
  };
  const onClose = (): void => {
    stop();
    reject(new HttpError(499, 'the client disconnected before its request was complete'));
  };
  // A host that also read the body may have removed its listener by now, so check both at the start and now.
  const freeChunks = (): void => {
    if (ownsChunks && isOnlyReader(message)) chunks.forEach(free);
  };
  const stop = (): void => {
    message.off('data', onData).off('end', onEnd).off('close', onClose);
  };
  if (message.destroyed) onClose();
  // A host may have paused it while it did something else first.
  else message.on('data', onData).on('end', onEnd).on('close', onClose).resume();
  return promise;
}

/** Discards the rest of a body, so that the connection can serve its next request. Returns the error of this one. */
export function cancelBody(message: IncomingMessage): HttpError {
  if (isOnlyReader(message)) message.on('data', free);
  return bodyCancelled;
}

// A host may keep the chunks itself, for example to check a signature of the body.
function isOnlyReader(message: IncomingMessage): boolean {
  return message.listenerCount('data') + message.listenerCount('readable') === 0;
}

// RFC 9112, 6.3. With `optimizeEmptyRequests`, a request without a body emits no events.
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

/** The JSON of a body that the host has already read, such as by `express.json()`; `undefined` if unread or absent. */
export function jsonReadByHost(message: IncomingMessage): Json | undefined {
  if (!message.readableEnded || !hasBody(message)) return undefined;
  const body: unknown = 'body' in message ? message.body : undefined;
  if (body === undefined) throw new Error('the body was already read by another parser before this listener');
  // Not `instanceof`: jsdom replaces the global class.
  if (types.isUint8Array(body)) return parseJson(body);
  try {
    return parseText(typeof body === 'string' ? body : JSON.stringify(body));
  } catch (caught) {
    // In Node.js 24, `JSON.stringify` overflows the stack at a few thousand levels.
    throw caught instanceof RangeError ? tooDeep : caught;
  }
}

export interface Json {
  readonly text: string;
  readonly value: unknown;
}

/** Decodes and parses JSON. Each mistake fails with 400 and its own message. */
export function parseJson(bytes: Uint8Array): Json {
  if (!isUtf8(bytes)) throw new HttpError(400, 'the body must be well-formed UTF-8');
  return parseText(utf8.decode(bytes));
}

function parseText(text: string): Json {
  if (text.trim() === '') throw new HttpError(400, 'the body must be JSON, and is empty');
  checkShape(text);
  try {
    const value: unknown = JSON.parse(text);
    return { text, value };
  } catch (error) {
    throw new HttpError(400, 'the body must be well-formed JSON', {}, { cause: error });
  }
}

const [quote, comma, backslash] = [0x22, 0x2c, 0x5c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

// Checks the text before it is parsed: creating many values takes long, and deep values overflow the stack.
function checkShape(text: string): void {
  let depth = 0;
  let members = 0;
  let inString = false;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (inString) {
      // The character after a backslash is part of the string, even a quote.
      if (unit === backslash) i += 1;
      else if (unit === quote) inString = false;
    } else if (unit === quote) inString = true;
    else if (unit === closeBrace || unit === closeBracket) depth -= 1;
    else if (unit === comma || unit === openBrace || unit === openBracket) {
      members += 1;
      if (unit !== comma) depth += 1;
      if (depth > maxJsonDepth) throw tooDeep;
      if (members > maxJsonMembers)
        throw new HttpError(400, `the body must have at most ${maxJsonMembers} members and elements`);
    }
  }
}

export function tooLarge(maxBytes: number): HttpError {
  return new HttpError(413, `the body must be at most ${maxBytes} bytes`);
}
