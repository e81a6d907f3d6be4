import { addAbortListener, once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { Server as SecureServer } from 'node:https';
import { Server as NetServer } from 'node:net';
import type { Observe } from '../telemetry/events.ts';
import { Connections } from './connections.ts';
import { http, loadCrypto, loadHttps, loadTls } from './node-http.ts';
import { type ParserError, refuseConnect, refuseUnparsed } from './refusals.ts';

export interface HttpServerOptions {
  readonly tls?: TlsOptions | undefined;
  readonly timeouts: HttpTimeouts;
  readonly maxHeaders: number;
  /** Default: 0, no limit. */
  readonly maxConnections?: number;
  readonly observe: Observe;
}

/** Certificate chain and private key, in PEM. */
export interface TlsOptions {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

// TLS of both APIs: Mozilla's intermediate profile. Node also allows CBC suites, which were attacked too often.
const tlsSettings = {
  minVersion: 'TLSv1.2',
  ciphers:
    'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:ECDHE+AESGCM:ECDHE+CHACHA20',
} as const;

/** Adds our settings. Throws without a certificate or a key: Node.js would listen, and then fail every handshake. */
export function tlsOf(pair: TlsOptions): TlsOptions {
  const tls = { ...tlsSettings, ...pair };
  if (!tls.cert || !tls.key) throw new TypeError('tls must be { cert, key }, both in PEM');
  return tls;
}

/** Throws unless the pair can be used. OpenSSL accepts a key of another algorithm, and then fails every handshake. */
export function checkPair(tls: TlsOptions): void {
  loadTls().createSecureContext(tls);
  const { createPrivateKey, X509Certificate } = loadCrypto();
  if (!new X509Certificate(tls.cert).checkPrivateKey(createPrivateKey(tls)))
    throw new Error('the key has another algorithm than the certificate');
}

export function certificatesOf({ cert }: TlsOptions) {
  const { X509Certificate } = loadCrypto();
  const blocks = String(cert).match(/-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----[^-]+-----END \1-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}

export interface HttpTimeouts {
  /** For receiving the head of a request, in ms; 0 for no limit. Default: 10,000. */
  readonly headersTimeoutMs: number;
  /** For receiving a whole request, body included, in ms; 0 for no limit. Default: 30,000. */
  readonly requestTimeoutMs: number;
  /** For the next request on an idle connection, in ms; 0 for no limit. Default: 72,000. */
  readonly keepAliveTimeoutMs: number;
  /** Between checks for late requests, in ms. Default: the shorter timeout of a request, but 100 to 5,000. */
  readonly checkingIntervalMs?: number;
}

// Node adds a second, and would warn at each response that its timers do not support the sum.
const maxKeepAliveMs = 2 ** 31 - 1 - 1_000;
// Interval between checks for idle connections while the server closes.
const sweepEveryMs = 50;

/** An HTTP or HTTPS server on one port, with limits on its connections and with our format of errors. */
export class HttpServer {
  readonly server: Server;
  readonly #secure: SecureServer | undefined;
  readonly #connections: Connections;
  /** When the first certificate of the chain ends, in seconds since 1970; infinite without TLS. */
  certificateEnd = Infinity;

  constructor({ observe, tls, timeouts, maxHeaders, maxConnections = 0 }: HttpServerOptions) {
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = timeouts;
    // Node rejects a timeout of the head that is longer than the timeout of the whole request.
    const headMs = Math.min(headersTimeoutMs, requestTimeoutMs || Number.POSITIVE_INFINITY);
    const limits = [headMs, requestTimeoutMs].filter((ms) => ms > 0);
    const { checkingIntervalMs = Math.max(100, Math.min(5_000, ...limits)) } = timeouts;
    const settings = {
      requestTimeout: requestTimeoutMs,
      headersTimeout: headMs,
      keepAliveTimeout: Math.min(keepAliveTimeoutMs, maxKeepAliveMs),
      connectionsCheckingInterval: checkingIntervalMs,
      insecureHTTPParser: false,
      // Node then creates no body stream for a request without a body, which makes a GET faster.
      optimizeEmptyRequests: true,
      // `checkHead` rejects a missing Host, because Node's own response would have an empty body.
      requireHostHeader: false,
      // Only for TLS. With the default protocols, Node.js would reject clients that offer only HTTP/1.0.
      ALPNProtocols: ['http/1.1', 'http/1.0'],
      handshakeTimeout: headMs,
    };
    this.#secure = tls && loadHttps().createServer({ ...tls, ...settings });
    const server = this.#secure ?? http.createServer(settings);
    this.server = server;
    if (tls !== undefined) this.setTls(tls);
    // The listener rejects more than `maxHeaders`. Without a limit, Node would keep thousands of them for each request
    // that never ends. Above twice the limit, Node rejects the request or drops the extra lines.
    server.maxHeadersCount = 2 * maxHeaders;
    this.#connections = new Connections(server, maxConnections, observe);
    server.on('connect', (_request, socket) => refuseConnect(socket, observe));
    server.on('clientError', (error: ParserError, socket) => refuseUnparsed(error, socket, observe));
    server.on('error', (cause) => {
      if (server.listening) observe({ type: 'failure', where: 'http', cause });
    });
  }

  get connections(): number {
    return this.#connections.count;
  }

  /** Must be called as soon as the port is open, before a request can arrive. */
  serve(listener: RequestListener): void {
    this.server.on('request', listener);
    // A handler sends 100 Continue when it reads the body. Until then, an error can be sent instead.
    this.server.on('checkContinue', listener).on('checkExpectation', listener);
  }

  /** Sets the certificate for new connections. Open connections keep the previous one. */
  setTls(tls: TlsOptions): void {
    checkPair(tls);
    this.certificateEnd = Math.min(...certificatesOf(tls).map((one) => one.validToDate.getTime() / 1000));
    this.#secure?.setSecureContext(tls);
  }

  /**
   * Accepts no more connections, and resolves when all open connections have ended. Before this call, the listener
   * must drain. An idle connection may still send a request for `idleMs`, and is then closed, also within a head or
   * a TLS handshake. An abort of `signal` closes the rest.
   */
  async close({ idleMs, signal }: { idleMs: number; signal: AbortSignal }): Promise<void> {
    const closed = once(this.server, 'close');
    // `http.Server.close` would close idle connections at once, although a request may be on its way.
    NetServer.prototype.close.call(this.server);
    const sweep = (): void => {
      // First let the event loop read the sockets: a connection with a new request is no longer idle. A response that
      // began before this call has promised its client that the connection stays open, so `idleMs` begins at its end.
      setImmediate(() => this.#connections.closeIdle(performance.now() - idleMs));
      timer = setTimeout(sweep, sweepEveryMs);
    };
    let timer = setTimeout(sweep, idleMs);
    using _ = addAbortListener(signal, () => {
      for (const socket of this.#connections.sockets) socket.destroy();
    });
    await closed;
    clearTimeout(timer);
    // The requests of closed connections are reported when these events are emitted.
    await Promise.all(this.#connections.sockets.map((socket) => once(socket, 'close')));
    // Also stops Node's own check for late requests.
    this.server.close();
  }
}
