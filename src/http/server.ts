import type { Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Observe } from '../telemetry/events.ts';
import { connectionOf } from './connection.ts';
import { limitConnections } from './connection-limit.ts';
import { errorReply } from './error-reply.ts';
import { HttpError } from './http-error.ts';
import { limitIdle } from './idle-limit.ts';
import { endLingering, endSocket } from './linger.ts';
import type { RequestListener } from './listener.ts';
import { http, loadHttps } from './node-http.ts';
import { type ParserError, toRefusal } from './parser-error.ts';

export interface HttpServerOptions {
  readonly listener: RequestListener;
  readonly tls?: TlsOptions;
  readonly timeouts: HttpTimeouts;
  /** Connections at once; more are refused with 503. Default: 0, no limit. */
  readonly maxConnections?: number;
  readonly observe: Observe;
}

/** Certificate chain and private key, in PEM. */
export interface TlsOptions {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** All in milliseconds; 0 for no limit. */
export interface HttpTimeouts {
  /** For the head of a request. */
  readonly headersTimeoutMs: number;
  /** For a whole request, body included. */
  readonly requestTimeoutMs: number;
  /** For the next request on a connection. */
  readonly keepAliveTimeoutMs: number;
  /** How often late requests are looked for: the first two hold to within this. Default: 5,000. */
  readonly checkingIntervalMs?: number;
}

// Browsers send cookies of other services on the same host; Node's own default.
const maxHeaderBytes = 16 * 1024;

/** A `node:http` server with our limits, whose own refusals look like ours. It does not listen yet. */
export function createHttpServer(options: HttpServerOptions): Server {
  const { listener, observe, tls } = options;
  const settings = serverSettings(options.timeouts);
  const server =
    tls === undefined
      ? http.createServer(settings)
      : loadHttps().createServer({ ...settings, ...tls, handshakeTimeout: settings.headersTimeout });
  // The listener counts them itself: Node drops those beyond its limit in silence.
  server.maxHeadersCount = 0;
  const full = new HttpError(503, 'too many connections are open', { 'retry-after': '1' });
  const drop = (socket: Duplex): void => {
    reportRefusal(full, observe);
    socket.destroy();
  };
  limitConnections(server, {
    max: options.maxConnections ?? 0,
    // Without a handshake, which is what costs most, nothing could be said over TLS.
    tell: tls === undefined ? (socket) => refuse(socket, full, observe) : drop,
    drop,
  });

  const { headersTimeout, keepAliveTimeout, connectionsCheckingInterval } = settings;
  if (headersTimeout > 0 && keepAliveTimeout > 0) {
    const limitMs = keepAliveTimeout + headersTimeout;
    limitIdle(server, { limitMs, checkingIntervalMs: connectionsCheckingInterval });
  }
  server.on('request', listener);
  // The go-ahead is sent when a handler reads the body, so that a refusal comes instead of it.
  server.on('checkContinue', listener);
  server.on('checkExpectation', listener);

  const refuseInTurn = (socket: Duplex, refusal: HttpError): void => {
    const last = connectionOf(socket).newest;
    if (last === undefined || last.writableFinished) refuse(socket, refusal, observe);
    else last.once('finish', () => refuse(socket, refusal, observe));
  };
  server.on('connect', (_request, socket) => {
    // Node has let go of the socket: without this a reset would end the process.
    socket.on('error', () => socket.destroy());
    refuseInTurn(socket, new HttpError(501, 'the method is not implemented'));
  });

  const failed = new WeakSet<Duplex>();
  server.on('clientError', (error: ParserError, socket) => {
    // The parser says it again with each packet that follows.
    if (failed.has(socket)) return;
    failed.add(socket);
    const refusal = toRefusal(error);
    const response = connectionOf(socket).newest;
    if (refusal === undefined) socket.destroy();
    // What is malformed begins a request of its own.
    else if (response === undefined || response.req.complete) refuseInTurn(socket, refusal);
    // It is in the body of a request, which is refused; its handler will find that it has been.
    else if (!response.headersSent) refuseRequest(response, refusal);
    // Too late to say so: the reply that has begun is the last.
    else if (response.writableFinished) endSocket(socket);
    else response.once('finish', () => endSocket(socket));
  });
  return server;
}

function serverSettings({ checkingIntervalMs = 5_000, ...timeouts }: HttpTimeouts) {
  const { requestTimeoutMs, headersTimeoutMs } = timeouts;
  return {
    requestTimeout: requestTimeoutMs,
    // Node refuses to start when a part may take longer than the whole.
    headersTimeout: requestTimeoutMs === 0 ? headersTimeoutMs : Math.min(headersTimeoutMs, requestTimeoutMs),
    keepAliveTimeout: timeouts.keepAliveTimeoutMs,
    connectionsCheckingInterval: checkingIntervalMs,
    maxHeaderSize: maxHeaderBytes,
    insecureHTTPParser: false,
    // Without the life of a stream that nobody reads, a GET takes a twentieth less time.
    optimizeEmptyRequests: true,
    // Node's own answer would have an empty body: `checkFraming` gives ours.
    requireHostHeader: false,
  };
}

function refuseRequest(response: ServerResponse, refusal: HttpError): void {
  const { status, headers, body } = refusalParts(refusal);
  response.writeHead(status, headers);
  response.write(body);
  endLingering(response);
}

// There is no request, so none of Node's responses to write to.
function refuse(socket: Duplex, refusal: HttpError, observe: Observe): void {
  if (!socket.writable) return;
  const { status, headers, body } = refusalParts(refusal);
  reportRefusal(refusal, observe);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const date = `date: ${new Date().toUTCString()}\r\n`;
  endSocket(socket, `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n${lines.join('')}${date}\r\n${body}`);
}

function reportRefusal({ status, message }: HttpError, observe: Observe): void {
  observe({ type: 'refused', face: 'http', status, reason: message });
}

function refusalParts(refusal: HttpError) {
  const { status, headers, body } = errorReply(refusal);
  const length = Buffer.byteLength(body);
  return { status, body, headers: { ...headers, 'content-length': length, connection: 'close' } };
}
