import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';
import type { Observe } from '../telemetry/events.ts';
import { prefers } from './conditional.ts';
import { connectionOf } from './connection.ts';
import { free } from './memory-budget.ts';
import { http } from './node-http.ts';
import { type ErrorResponse, fatalError, HttpError, type Reply, securityHeaders } from './reply.ts';
import type { HttpRequest } from './request.ts';

// Closing a connection with unread bytes resets it, and its client loses the response. Some clients read only after
// they have sent everything. So the server first reads the rest of a request, up to this length, while something
// arrives every `lingerMs`, and until the timeout of a whole request.
const lingerBytes = 16 * 1024 * 1024;
const lingerMs = 1_000;

const problemType = 'application/problem+json';
const jsonTypes = ['application/json', 'application/*', '*/*'];

/** `{"error": message}`, or the same message as RFC 9457 for a client that prefers `application/problem+json`. */
export function errorReply(error: ErrorResponse, request?: Pick<HttpRequest, 'header' | 'id'>) {
  const { status, message } = error;
  const wantsProblem = request !== undefined && prefers(request.header('accept'), problemType, jsonTypes);
  const body = wantsProblem
    ? { title: http.STATUS_CODES[status], status, detail: message, instance: `urn:request:${request.id}` }
    : { error: message };
  return {
    status,
    headers: {
      'content-type': wantsProblem ? problemType : 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      ...error.headers,
    },
    body: JSON.stringify(body),
  } satisfies Reply;
}

/** The error that `node:http` reports when it cannot parse a request. */
export interface ParserError {
  readonly code?: string;
  readonly reason?: string;
  /** The offset in `rawPacket` where the parser failed. */
  readonly bytesParsed?: number;
  readonly rawPacket?: Uint8Array;
}

export const tooManyConnections = new HttpError(503, 'too many connections are open');
const malformed = fatalError(400, 'the request is malformed');
const unknownMethod = fatalError(501, 'the method is not implemented');
const unknownVersion = fatalError(505, 'the protocol must be HTTP/1.1');
const parserRefusals: Readonly<Record<string, HttpError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: fatalError(408, 'the request did not arrive in time'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: fatalError(413, 'the chunk extensions are too long'),
  HPE_INVALID_URL: fatalError(400, 'the request target must be a path, percent-encoded if not ASCII'),
  HPE_HEADER_OVERFLOW: fatalError(431, 'the headers of the request are too long or too many'),
  HPE_PAUSED_H2_UPGRADE: unknownVersion,
};
const tokenCharacter = /[!#$%&'*+.^_`|~0-9A-Za-z-]/;

/** Converts a parser error into an error response; `undefined` when the connection itself or its TLS failed. */
function parserRefusal(error: ParserError): HttpError | undefined {
  const { code = '', reason, rawPacket, bytesParsed = 0 } = error;
  if (code === 'HPE_INVALID_VERSION' && reason === 'Invalid HTTP version') return unknownVersion;
  // Distinguish an unknown method from bytes that are no method at all, such as a TLS hello. The parser stops at the
  // first character that no known method has there; for `GE` that is the space behind it.
  const at = (index: number) => String.fromCharCode(rawPacket?.[index] ?? 0);
  const stoppedAt = at(bytesParsed);
  const isMethod = tokenCharacter.test(stoppedAt === ' ' ? at(bytesParsed - 1) : stoppedAt);
  if (code === 'HPE_INVALID_METHOD' && isMethod) return unknownMethod;
  return parserRefusals[code] ?? (code.startsWith('HPE_') ? malformed : undefined);
}

/** Handles `clientError`: a request is malformed or late, or the connection or its TLS has failed. */
export function refuseUnparsed(error: ParserError, socket: Duplex, observe: Observe): void {
  const connection = connectionOf(socket);
  // The parser reports the same error for each packet that follows.
  if (connection.failure !== undefined) return;
  const refusal = parserRefusal(error);
  connection.failure = refusal;
  // For example, the client does not accept the certificate, or does not use TLS.
  if (refusal === undefined && error.code?.startsWith('ERR_SSL_'))
    reportRefusal({ status: 400, message: `TLS failed: ${error.reason}` }, observe);
  // Probably opened in advance and not used. The client would take a 408 for the response to its first request.
  const isUnused = 'bytesRead' in socket && socket.bytesRead === 0;
  if (refusal === undefined || isUnused) {
    socket.destroy();
    return;
  }
  const { newest, running } = connection;
  // The error is in the head of a new request.
  if (newest === undefined || newest.req.complete)
    afterResponse(socket, newest, () => refuse(socket, refusal, observe));
  // Too late for another status: the current response is the last one.
  else if (newest.headersSent) afterResponse(socket, newest, () => endSocket(socket));
  else if (running?.response === newest) running.fail(refusal);
  else connection.toReject = newest;
}

/** Handles CONNECT, for which Node has no response object. */
export function refuseConnect(socket: Duplex, observe: Observe): void {
  // Node has removed its listeners. Without this one, a connection reset would end the process.
  socket.on('error', () => socket.destroy());
  afterResponse(socket, connectionOf(socket).newest, () => refuse(socket, unknownMethod, observe));
}

/** Acts when a response is sent. Until then, the connection is not read, because nothing would limit how fast. */
function afterResponse(socket: Duplex, last: ServerResponse | undefined, act: () => void): void {
  if (last === undefined || last.writableFinished) {
    act();
    return;
  }
  // Node may resume the socket after an earlier response, so pause it again.
  socket.on('resume', socket.pause).pause();
  last.once('finish', () => {
    socket.off('resume', socket.pause).resume();
    act();
  });
}

/** Sends an error on a connection that has no request, and thus no response object. Then closes it. */
export function refuse(socket: Duplex, refusal: ErrorResponse, observe: Observe): void {
  // The response with `Connection: close` was the last one, and closes the connection.
  if (!socket.writable || connectionOf(socket).closing) return;
  reportRefusal(refusal, observe);
  const { status, headers, body } = errorReply(refusal);
  const lines = Object.entries({
    ...securityHeaders,
    ...headers,
    'content-length': Buffer.byteLength(body),
    connection: 'close',
    date: new Date().toUTCString(),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  endSocket(socket, `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
}

export function reportRefusal({ status, message }: ErrorResponse, observe: Observe): void {
  observe({ type: 'refused', face: 'http', status, reason: message });
}

/** Ends the connection of a reply only when its client has had time to send the rest of its request. */
export function linger(raw: IncomingMessage, isHurried: () => boolean): void {
  const { socket } = raw;
  const { destroySoon = socket.end } = socket;
  const close = (): void => void destroySoon.call(socket);
  const bytesLeft = readRest(raw);
  // Node calls this when the last response has ended.
  socket.destroySoon = () => {
    // The client will not send more.
    if (raw.readableEnded || socket.readableEnded) return close();
    raw.once('end', close);
    // Before Node.js, which in a host sends a second response when a body ends early.
    socket.prependOnceListener('end', close);
    closeOnPause(socket, bytesLeft, isHurried, close);
  };
}

/** Sends some last bytes, and ends the connection. Continues to read for `lingerMs`. */
function endSocket(socket: Duplex, bytes = ''): void {
  const close = (): void => void socket.destroy();
  closeOnPause(socket, readRest(socket.on('data', free)), () => true, close);
  socket.end(bytes);
}

/** Reads a rest that is not used. Returns a function for how many bytes may still come. */
function readRest(rest: Readable): () => number {
  let left = lingerBytes;
  const onData = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left <= 0) rest.pause();
  };
  // Counts before the other listeners may free the memory of a chunk.
  rest.prependListener('data', onData).resume();
  return () => left;
}

/** Every `lingerMs`, calls `close` if nothing has arrived, or `isHurried` returns true. */
function closeOnPause(socket: Duplex, bytesLeft: () => number, isHurried: () => boolean, close: () => void) {
  let lastLeft = bytesLeft();
  const timer = setInterval(() => {
    const left = bytesLeft();
    if (left === lastLeft || isHurried()) close();
    // A connection in memory that is still open at its other side emits no `close`.
    if (socket.writableEnded) clearInterval(timer);
    lastLeft = left;
  }, lingerMs);
  socket.once('close', () => clearInterval(timer));
}
