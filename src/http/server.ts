import { once } from 'node:events';
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import type { Observe } from '../telemetry/events.ts';
import { Connections } from './connections.ts';
import type { RequestListener } from './listener.ts';
import { http, isSecure, loadHttps, tlsSettings } from './node-http.ts';
import { type ParserError, refuse, refuseConnect, refuseUnparsed, reportRefusal } from './refusals.ts';
import { HttpError } from './reply.ts';
import { heapLimitBytes } from './waiting-memory.ts';

export interface HttpServerOptions {
  readonly listener: RequestListener;
  readonly tls?: TlsOptions;
  readonly timeouts: HttpTimeouts;
  /** Connections at once; more are rejected with 503. Default: 0, no limit. */
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

export interface CloseServerOptions {
  /** How long connections without a request are kept for one more, in milliseconds. */
  readonly idleMs: number;
  /** Cuts off what is left. */
  readonly signal: AbortSignal;
}

// Browsers send cookies of other services on the same host; Node's own default.
const maxHeaderBytes = 16 * 1024;
// What a connection with a request under way takes at most: with a small heap `maxConnections` would be
// more than fit.
const heapPerConnection = 80 * 1024;
// As many as the kernel allows: when its queue of new connections is full a client, a probe too, comes
// through only when it tries again after a second or more.
const backlog = 65_535;
// How soon a connection is closed whose reply had begun before it could say so.
const sweepEveryMs = 50;
const full = new HttpError(503, 'too many connections are open', { 'retry-after': '1' });

/** A `node:http` server with our limits, whose own errors look like ours, and the life of its port. */
export class HttpServer {
  readonly #server: Server;
  readonly #connections: Connections;

  /** It does not listen yet. */
  constructor({ listener, observe, tls, timeouts, maxConnections = 0 }: HttpServerOptions) {
    const settings = serverSettings(timeouts);
    const { headersTimeout, keepAliveTimeout, connectionsCheckingInterval } = settings;
    const server =
      tls === undefined
        ? http.createServer(settings)
        : loadHttps().createServer({ ...settings, ...tlsSettings, ...tls, handshakeTimeout: headersTimeout });
    this.#server = server;
    // The listener counts them itself: Node drops those beyond its limit silently.
    server.maxHeadersCount = 0;
    this.#connections = new Connections(server, {
      max: Math.min(maxConnections, Math.floor(heapLimitBytes / heapPerConnection)),
      maxIdleMs: headersTimeout > 0 && keepAliveTimeout > 0 ? keepAliveTimeout + headersTimeout : 0,
      checkingIntervalMs: connectionsCheckingInterval,
      reject(socket, silently) {
        // Over TLS a response would need the handshake, which is what costs most.
        if (!silently && tls === undefined) refuse(socket, full, observe);
        else {
          reportRefusal(full, observe);
          socket.destroy();
        }
      },
    });
    server.on('request', listener);
    // The go-ahead is sent when a handler reads the body, so that an error can come instead of it.
    server.on('checkContinue', listener);
    server.on('checkExpectation', listener);
    server.on('connect', (_request, socket) => {
      refuseConnect(socket, observe);
    });
    server.on('clientError', (error: ParserError, socket) => refuseUnparsed(error, socket, observe));
    server.on('error', (cause) => {
      if (server.listening) observe({ type: 'failure', where: 'http', cause });
    });
  }

  /** Opens the port; resolves to the one in use. */
  async listen(host: string, port: number): Promise<number> {
    this.#server.listen({ host, port, backlog });
    // Rejects when an `error` comes instead.
    await once(this.#server, 'listening');
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /** The certificate of connections from now on; those open keep theirs. */
  setTls(tls: TlsOptions): void {
    if (isSecure(this.#server)) this.#server.setSecureContext({ ...tlsSettings, ...tls });
  }

  /** Takes no more connections and resolves when those open have ended; the replies must ask for it. */
  async close({ idleMs, signal }: CloseServerOptions): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    // `http.Server.close` would cut the idle ones at once, on some of which a request is on its way.
    NetServer.prototype.close.call(this.#server, () => resolve());
    let timer: NodeJS.Timeout;
    const sweep = (): void => {
      // After the next look at the sockets: what has arrived is no longer idle.
      setImmediate(() => {
        // To Node a connection is idle whose last bytes a slow client has still to take.
        if (this.#connections.sockets.every((socket) => socket.writableLength === 0)) {
          this.#server.closeIdleConnections();
        }
      });
      timer = setTimeout(sweep, sweepEveryMs);
    };
    timer = setTimeout(sweep, idleMs);
    const force = (): void => {
      for (const socket of this.#connections.sockets) socket.destroy();
    };
    if (signal.aborted) force();
    else signal.addEventListener('abort', force, { once: true });
    await promise;
    signal.removeEventListener('abort', force);
    clearTimeout(timer);
    // Only now has what was cut off been reported.
    await Promise.all(this.#connections.sockets.map((socket) => once(socket, 'close')));
    // Ends Node's look-out for late requests too.
    this.#server.close();
  }
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
    // Without the life of a stream that is never read, a GET takes a twentieth less time.
    optimizeEmptyRequests: true,
    // Node's own response would have an empty body: `checkFraming` gives ours.
    requireHostHeader: false,
  };
}
