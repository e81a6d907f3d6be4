import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Observe } from '../telemetry/events.ts';
import { prefers } from './conditional.ts';
import { type Connection, connectionOf, type RunningRequest } from './connection.ts';
import { http } from './node-http.ts';
import { type ErrorResponse, type Reply, securityHeaders } from './reply.ts';

// Closing a connection with unread bytes resets it, and its client loses the response. Some clients read only after
// they have sent everything. So the server first reads the rest of a request, within this length and this time.
const lingerBytes = 256 * 1024;
const lingerMs = 1_000;

const problemType = 'application/problem+json';
const jsonTypes = ['application/json', 'application/*', '*/*'];

/** `{"error": message}`, or the same message as RFC 9457 for a client that prefers `application/problem+json`. */
export function errorReply(error: ErrorResponse, request?: Pick<RunningRequest, 'id' | 'header'>) {
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

const malformed: ErrorResponse = { status: 400, message: 'the request is malformed' };
const unknownMethod: ErrorResponse = { status: 501, message: 'the method is not implemented' };
const unknownVersion: ErrorResponse = { status: 505, message: 'the protocol must be HTTP/1.1' };
const parserRefusals: Readonly<Record<string, ErrorResponse>> = {
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, message: 'the request did not arrive in time' },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, message: 'the chunk extensions are too long' },
  HPE_INVALID_URL: {
    status: 400,
    message: 'the request target is malformed: it must be a path, with all but ASCII percent-encoded',
  },
  HPE_HEADER_OVERFLOW: { status: 431, message: 'the headers of the request are too long or too many' },
  HPE_PAUSED_H2_UPGRADE: unknownVersion,
};
const tokenCharacter = /[!#$%&'*+.^_`|~0-9A-Za-z-]/;

/** Converts a parser error into an error response; `undefined` when the connection itself or its TLS failed. */
function parserRefusal(error: ParserError): ErrorResponse | undefined {
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
  if (connection.failed) return;
  connection.failed = true;
  const refusal = parserRefusal(error);
  // For example, the client does not accept the certificate, or does not use TLS.
  if (refusal === undefined && error.code?.startsWith('ERR_SSL_'))
    reportRefusal({ status: 400, message: `TLS failed: ${error.reason}` }, observe);
  // Probably opened in advance and not used. The client would take a 408 for the response to its first request.
  const isUnused = 'bytesRead' in socket && socket.bytesRead === 0;
  if (refusal === undefined || isUnused) {
    socket.destroy();
    return;
  }
  const response = connection.newest;
  // The error is in the head of a new request.
  if (response === undefined || response.req.complete)
    afterResponse(response, () => refuse(socket, refusal, observe));
  else if (!response.headersSent) refuseBody(connection, response, refusal, observe);
  // Too late for another status: the current response is the last one.
  else afterResponse(response, () => endSocket(socket));
}

/** Sends an error that is in the body of a request. The handler of the request fails, or its reply is dropped. */
function refuseBody(
  { running }: Connection,
  response: ServerResponse,
  refusal: ErrorResponse,
  observe: Observe,
): void {
  // A pipelined request that still waits has no id, and is not reported when it ends.
  const request = running?.response === response ? running : undefined;
  if (request === undefined) reportRefusal(refusal, observe);
  const { status, headers, body } = refusalParts(refusal, request);
  response.writeHead(status, headers);
  response.write(body);
  // The request before it limits how long this response waits for the socket.
  const ms = running?.writeTimeoutMs ?? 0;
  const limitStall = () => response.once('close', startStallTimer(response, ms));
  if (response.socket === null) response.once('socket', limitStall);
  else limitStall();
  endLingering(response, request);
}

/** Handles CONNECT, for which Node has no response object. */
export function refuseConnect(socket: Duplex, observe: Observe): void {
  const connection = connectionOf(socket);
  // Node has removed its listeners. Without these, a connection reset would end the process, and a long response to an
  // earlier request would stop when its client reads slowly.
  socket.on('error', () => socket.destroy()).on('drain', () => connection.running?.response.emit('drain'));
  afterResponse(connection.newest, () => refuse(socket, unknownMethod, observe));
}

function afterResponse(last: ServerResponse | undefined, act: () => void): void {
  if (last === undefined || last.writableFinished) act();
  else last.once('finish', act);
}

/** Sends an error on a connection that has no request, and thus no response object. Then closes it. */
export function refuse(socket: Duplex, refusal: ErrorResponse, observe: Observe): void {
  if (!socket.writable) return;
  const { status, headers, body } = refusalParts(refusal);
  reportRefusal(refusal, observe);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const date = `date: ${new Date().toUTCString()}\r\n`;
  endSocket(socket, `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n${lines.join('')}${date}\r\n${body}`);
}

export function reportRefusal({ status, message }: ErrorResponse, observe: Observe): void {
  observe({ type: 'refused', face: 'http', status, reason: message });
}

function refusalParts(refusal: ErrorResponse, request?: RunningRequest) {
  const { headers, ...reply } = errorReply(refusal, request);
  const common = request?.commonHeaders ?? securityHeaders;
  const length = Buffer.byteLength(reply.body);
  return { ...reply, headers: { ...common, ...headers, 'content-length': length, connection: 'close' } };
}

/** Ends a response whose body was written, but lets the client send its whole request first, for up to `lingerMs`. */
export function endLingering(response: ServerResponse, request?: RunningRequest): void {
  const { req } = response;
  const { socket } = req;
  // The client will not send more.
  if (req.readableEnded || socket.readableEnded || socket.destroyed) {
    response.end();
    return;
  }
  if (request !== undefined) request.sentAt = performance.now();
  let bytes = 0;
  const end = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes <= lingerBytes) return;
    req.off('data', count);
    // Further bytes stay in the kernel. The stream of the request resumes the socket, so pause it again each time.
    socket.on('resume', socket.pause).pause();
  };
  const timer = setTimeout(end, lingerMs);
  // Counts before the other listeners may free the memory of a chunk.
  req.prependListener('data', count).on('end', end).resume();
  socket.on('end', end).on('close', end);
}

/**
 * Starts a timer that closes the connection if the client reads so little of a response that the buffers of the kernel
 * stay full. Returns a function to stop it. Bytes from the client would restart the timeout of the socket.
 */
export function startStallTimer(response: ServerResponse, ms: number): () => void {
  // A response that lingers is not stalled.
  const end = (): unknown => response.writableLength > 0 && response.destroy();
  const timer = ms === 0 ? undefined : setTimeout(end, ms).unref();
  return () => clearTimeout(timer);
}

/** Sends some last bytes, and ends the connection. Continues to read for at most `lingerMs`, any number of bytes. */
function endSocket(socket: Duplex, bytes = ''): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket
    .once('close', () => clearTimeout(timer))
    .resume()
    .end(bytes);
}
