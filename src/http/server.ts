import { createServer, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Observe } from '../observer.ts';
import type { RequestListener } from './listener.ts';

export interface HttpServerOptions {
  readonly listener: RequestListener;
  readonly tls?: TlsOptions;
  readonly timeouts: HttpTimeouts;
  readonly observe: Observe;
}

/** Certificate chain and private key, in PEM. */
export interface TlsOptions {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** All in milliseconds. */
export interface HttpTimeouts {
  /** For the head of a request. */
  readonly headersTimeoutMs: number;
  /** For a whole request, body included. */
  readonly requestTimeoutMs: number;
  /** For the next request on a connection. */
  readonly keepAliveTimeoutMs: number;
}

// How often Node looks for late requests: the timeouts hold to within this.
const checkingIntervalMs = 5_000;
// Browsers send cookies of other services on the same host; Node's own default.
const maxHeaderBytes = 16 * 1024;

const parserStatuses: Readonly<Record<string, readonly [status: number, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the request did not arrive in time'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'the chunk extensions are too long'],
  HPE_HEADER_OVERFLOW: [431, `the head must be at most ${maxHeaderBytes} bytes`],
  HPE_INVALID_METHOD: [501, 'the method is not implemented'],
  HPE_INVALID_VERSION: [505, 'the protocol must be HTTP/1.1'],
};

/** A `node:http` server with our limits, whose own refusals look like ours. It does not listen yet. */
export function createHttpServer(options: HttpServerOptions): Server {
  const { timeouts, listener } = options;
  const settings = {
    headersTimeout: timeouts.headersTimeoutMs,
    requestTimeout: timeouts.requestTimeoutMs,
    keepAliveTimeout: timeouts.keepAliveTimeoutMs,
    connectionsCheckingInterval: checkingIntervalMs,
    maxHeaderSize: maxHeaderBytes,
    insecureHTTPParser: false,
    // Node's own answer would have an empty body: `checkFraming` gives ours.
    requireHostHeader: false,
  };
  const server =
    options.tls === undefined ? createServer(settings) : createTlsServer({ ...settings, ...options.tls });
  // The listener counts them itself: Node drops those beyond its limit in silence.
  server.maxHeadersCount = 0;

  const latest = new WeakMap<Duplex, ServerResponse>();
  const onRequest: RequestListener = (request, response) => {
    latest.set(request.socket, response);
    listener(request, response);
  };
  server.on('request', onRequest);
  // The go-ahead is sent when a handler reads the body, so that a refusal comes instead of it.
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', (_request, response) => {
    refuse(options.observe, response.socket, 417, 'Expect must be 100-continue');
  });
  server.on('connect', (_request, socket) => {
    refuse(options.observe, socket, 501, 'method CONNECT is not implemented');
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const [status, message] = parserStatuses[error.code ?? ''] ?? [400, 'the request is malformed'];
    const response = latest.get(socket);
    const refuseThis = () => refuse(options.observe, socket, status, message);
    if (error.code === 'ECONNRESET') socket.destroy();
    else if (response === undefined || response.writableFinished) refuseThis();
    // A whole request still has its answer to come; what is malformed was pipelined behind it.
    else if (response.req.complete) response.once('finish', refuseThis);
    // Once a reply has begun, more bytes would be read as part of it.
    else if (response.headersSent) socket.destroy();
    else refuseThis();
  });
  return server;
}

/** Opens a port; resolves to the address in use. */
export async function listen(server: Server, port: number, host: string): Promise<AddressInfo> {
  const { promise, resolve, reject } = Promise.withResolvers<AddressInfo>();
  server.once('error', reject);
  server.listen({ port, host }, () => {
    server.off('error', reject);
    const address = server.address();
    if (address === null || typeof address === 'string') reject(new Error('the server has no TCP address'));
    else resolve(address);
  });
  return await promise;
}

function refuse(observe: Observe, socket: Duplex | Socket | null, status: number, message: string): void {
  observe({ type: 'refused', face: 'http', status, reason: message });
  if (socket === null || !socket.writable) return;
  const body = JSON.stringify({ error: message });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Date: ${new Date().toUTCString()}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}
