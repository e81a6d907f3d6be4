import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Http2Stream } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { getHeapStatistics } from 'node:v8';
import type { GrpcApp, GrpcOptions } from './app.ts';

// Loading grpc-js blocks the process. The delay lets a client that waits for the ports get its first response earlier.
const loadAfterMs = 1_000;
// The status that gRPC clients report for a rejected connection (UNAVAILABLE). Importing it would load grpc-js.
const unavailable = 14;
// Also a status of gRPC, and the error code of HTTP/2 that clients report as this status (ENHANCE_YOUR_CALM).
const resourceExhausted = 8;
const enhanceYourCalm = 11;
// Maximum memory of an idle connection, and of a stream with 64 KiB of headers and a message of 64 KiB. With a small
// heap, fewer connections fit than `maxConnections`.
const heapPerConnection = 80 * 1024;
const heapPerStream = 256 * 1024;
const sliceBytes = 512;

// Since Node.js 24.4. They see a stream until it is closed, unlike an interceptor of grpc-js, for which a call ends
// with its status, although its client may keep the stream open.
const streamCreated = 'http2.server.stream.created';
const streamClosed = 'http2.server.stream.close';

/**
 * The gRPC port, from opening to closing. grpc-js takes longer to load than all other modules, so it is loaded for
 * the first connection, or soon after the service is listening.
 *
 * This class owns the sockets because `forceShutdown` of grpc-js 1.14.7 closes no connection while channelz is
 * off. One call that never ends would keep the process alive.
 */
export class GrpcServer {
  readonly #options: GrpcOptions;
  readonly #maxConnections: number;
  readonly #sockets = new Set<Socket>();
  readonly #maxStreams: number;
  /** The oldest first. */
  readonly #streams = new Set<Http2Stream>();
  #tls: SecureContextOptions | undefined;
  #server: Server | undefined;
  #port = 0;
  #app: Promise<GrpcApp> | undefined;
  #loading: NodeJS.Timeout | undefined;
  #serving = false;
  #closing = false;

  /** `maxConnections` is the maximum number of open connections; 0 for no limit. */
  constructor(options: GrpcOptions, maxConnections: number) {
    this.#options = options;
    const { heap_size_limit: heapBytes } = getHeapStatistics();
    this.#maxConnections = Math.min(maxConnections, Math.floor(heapBytes / heapPerConnection));
    this.#maxStreams = Math.floor(heapBytes / heapPerStream);
  }

  /** Opens the port, and resolves to its number. */
  async listen(host: string, port: number, tls?: SecureContextOptions): Promise<number> {
    this.#tls = tls;
    const server = createServer({ noDelay: true }, (socket) => this.#accept(socket)).listen({ host, port });
    await once(server, 'listening');
    server.on('error', this.#reportFailure);
    this.#server = server;
    subscribe(streamCreated, this.#addStream);
    subscribe(streamClosed, this.#deleteStream);
    const address = server.address();
    this.#port = typeof address === 'object' && address !== null ? address.port : port;
    return this.#port;
  }

  /** Sets the certificate for new connections. */
  setTls(tls: SecureContextOptions): void {
    this.#tls = tls;
  }

  /** Sets the status that the health service reports for all services. */
  setServing(serving: boolean): void {
    this.#serving = serving;
    const load = () => this.#load().catch(this.#reportFailure);
    if (serving && this.#app === undefined) this.#loading = setTimeout(load, loadAfterMs);
    this.#app?.then((app) => app.setServing(this.#serving)).catch(this.#reportFailure);
  }

  /** Stops accepting calls, and resolves when the running ones have ended. `signal` closes their connections. */
  async close(signal: AbortSignal): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#closing = true;
    clearTimeout(this.#loading);
    const force = (): void => {
      for (const socket of this.#sockets) socket.destroy();
    };
    const closed = once(server.close(), 'close');
    if (signal.aborted) force();
    else signal.addEventListener('abort', force, { once: true });
    const app = await this.#app?.catch(() => undefined);
    app?.drain();
    await closed;
    signal.removeEventListener('abort', force);
    unsubscribe(streamCreated, this.#addStream);
    unsubscribe(streamClosed, this.#deleteStream);
  }

  async #accept(socket: Socket): Promise<void> {
    if (this.#maxConnections > 0 && this.#sockets.size >= this.#maxConnections) {
      const reason = 'too many connections are open';
      this.#options.observe({ type: 'refused', face: 'grpc', status: unavailable, reason });
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // Without this listener, a connection reset would end the process.
    socket.on('error', () => undefined);
    try {
      const app = await this.#load();
      if (this.#closing) socket.destroy();
      else if (!socket.destroyed) app.accept(socket, this.#tls);
    } catch (cause) {
      this.#reportFailure(cause);
      socket.destroy();
    }
  }

  readonly #addStream = (message: unknown): void => {
    const { stream } = message as { stream: Http2Stream };
    // The channel reports the streams of all HTTP/2 servers of the process.
    if (stream.session?.socket.localPort !== this.#port) return;
    stream.push = pushSlices;
    this.#streams.add(stream);
    const [oldest] = this.#streams;
    if (this.#streams.size <= this.#maxStreams || oldest === undefined) return;
    const reason = 'too many calls are open';
    this.#options.observe({ type: 'refused', face: 'grpc', status: resourceExhausted, reason });
    oldest.close(enhanceYourCalm);
  };

  readonly #deleteStream = (message: unknown): void => {
    this.#streams.delete((message as { stream: Http2Stream }).stream);
  };

  #load(): Promise<GrpcApp> {
    this.#app ??= import('./app.ts')
      .then(({ createGrpcApp }) => createGrpcApp(this.#options))
      .then((app) => {
        app.setServing(this.#serving);
        return app;
      });
    // After a failure, the next connection tries again.
    this.#app.catch(() => {
      this.#app = undefined;
    });
    return this.#app;
  }

  readonly #reportFailure = (cause: unknown): void =>
    this.#options.observe({ type: 'failure', where: 'grpc', cause });
}

/**
 * Replaces `push` of a stream. grpc-js parses all messages of a chunk at once, and a message of 5 bytes needs some 600
 * bytes of memory. Between slices, it pauses until its handler asks for the next message.
 */
function pushSlices(this: Http2Stream, chunk: Buffer | null): boolean {
  const { push } = Readable.prototype;
  if (chunk === null || chunk.length <= sliceBytes) return push.call(this, chunk);
  let isWanted = true;
  for (let start = 0; start < chunk.length; start += sliceBytes) {
    isWanted = push.call(this, chunk.subarray(start, start + sliceBytes));
  }
  return isWanted;
}
