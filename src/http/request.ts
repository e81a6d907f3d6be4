import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers';
import { requestId } from '../telemetry/events.ts';
import { cancelBody, hasBody, type Json, jsonReadByHost, parseJson, readBody, tooLarge } from './body.ts';
import { type Connection, hasParser, unreadBytes } from './connection.ts';
import { checkContentType, type Parameter, parseQuery, parseTarget, type Target } from './head.ts';
import type { MemoryBudget } from './memory-budget.ts';
import { type Headers, HttpError, type Reply } from './reply.ts';
import { scheduler } from './scheduler.ts';

export interface ListenerLimits {
  /** Maximum length of a request body, in bytes. Users and posts have at most 131,072. Default: 1,048,576. */
  readonly maxBodyBytes: number;
  /** Maximum number of header lines in a request. Default: 100. */
  readonly maxHeaders: number;
  /** Maximum number of running requests; more are rejected with 503. 0 for no limit. Default: 10,000. */
  readonly maxInFlight: number;
  /** How long a client may take to read about 1.5 MB that wait for it, in ms; 0: no limit. Default: 60,000. */
  readonly writeTimeoutMs: number;
}

export type Handler = (request: HttpRequest) => Reply | Promise<Reply>;

/** What a request needs of its listener: the options and the state that all its requests share. */
export interface Listener {
  /** The prefix under which the listener is mounted, such as `/api`; empty for none. */
  readonly basePath: string;
  /** The headers of every reply, errors included. A reply may override them. */
  readonly commonHeaders: Headers;
  /** Returns further such headers, which depend on the origin of a request. Default: none. */
  readonly corsHeaders?: ((request: HttpRequest) => Headers) | undefined;
  readonly limits: ListenerLimits;
  readonly memory: MemoryBudget;
  /** The number of running requests, without endless streams. */
  inFlight: number;
  /** How many of them count for `maxInFlight`. Exempt ones, and those that wait for their body or to reply, do not. */
  counted: number;
  draining: boolean;
}

// No valid user or post is longer, even with every character escaped.
const recordBytes = 128 * 1024;
const acceptHeaders: Readonly<Record<string, string>> = { PATCH: 'accept-patch', POST: 'accept-post' };

/** The prefix that a host has removed from the URL. Express stores it, and Connect stores the whole URL. */
function hostPath(raw: IncomingMessage): string {
  if ('baseUrl' in raw && typeof raw.baseUrl === 'string') return raw.baseUrl;
  if (!('originalUrl' in raw) || typeof raw.originalUrl !== 'string') return '';
  const { originalUrl, url = '' } = raw;
  // Connect adds a slash to the URL of the mount path itself.
  const end = originalUrl.endsWith(url) ? url : url.replace(/^\/(?=\?|$)/, '');
  return originalUrl.endsWith(end) ? originalUrl.slice(0, originalUrl.length - end.length) : '';
}

/** The view of a request that handlers get. Its parts are decoded and read only on demand. */
export class HttpRequest {
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly connection: Connection;
  readonly listener: Listener;
  readonly method: string;
  /** The client's `x-request-id` if it is valid, else a new one. Replies, logs and events contain it. */
  readonly id: string;
  /** The path where the service is mounted, such as `/api`: the prefix of every path in a reply. */
  readonly basePath: string;
  /** When it arrived; if it was pipelined, when the earlier responses had ended. By `performance.now()`, in ms. */
  readonly startedAt = performance.now();
  params: Readonly<Record<string, string>> = {};
  /** The pattern of its route, such as `/users/{id}`; `undefined` if none matched. */
  template: string | undefined;
  /** The name of the API key that authorized the request, if the key has one. */
  keyName: string | undefined;
  /** Whether the reply is an endless stream. If its client leaves after reading all of it so far, it was complete. */
  longLived = false;
  /** The status of the error that ended the reply after its head was sent. */
  failedStatus: number | undefined;
  /** Whether its body, or a part of the reply that its client has not read, is in memory. `hold` sets it. */
  holdsMemory = false;
  /** Whether the response has ended, or its client has disconnected. */
  hasEnded = false;
  #isCounted = false;
  #target: Target | undefined;
  #parameters: readonly Parameter[] | undefined;

  constructor(raw: IncomingMessage, response: ServerResponse, connection: Connection, listener: Listener) {
    this.raw = raw;
    this.response = response;
    this.connection = connection;
    this.listener = listener;
    this.method = raw.method ?? 'GET';
    this.id = requestId(raw.headers['x-request-id']);
    this.basePath = hostPath(raw) + listener.basePath;
    listener.inFlight += 1;
  }

  /** Fails with 400 for a malformed target, and with 404 for one outside the base path. */
  get target(): Target {
    this.#target ??= parseTarget(this.method, this.raw.url ?? '', this.listener.basePath);
    return this.#target;
  }

  get signal(): AbortSignal {
    return this.connection.signal;
  }

  get isAborted(): boolean {
    return this.raw.socket.destroyed;
  }

  /** A header by its lower-case name. Most repeated headers are joined with a comma; of others, the first counts. */
  header(name: string): string | undefined {
    const value = this.raw.headers[name];
    return typeof value === 'object' ? value.join(', ') : value;
  }

  get parameters(): readonly Parameter[] {
    this.#parameters ??= parseQuery(this.target.query);
    return this.#parameters;
  }

  param(name: string): string {
    const value = this.params[name];
    if (value === undefined) throw new Error(`the route has no parameter ${name}`);
    return value;
  }

  /** The body as JSON, at most `maxBytes` and `maxBodyBytes` long. Fails with 400, 408, 413, 415, 499 or 503. */
  async json(types: readonly string[] = ['application/json'], maxBytes = recordBytes): Promise<Json> {
    checkContentType(this.raw.headers['content-type'], types, acceptHeaders[this.method] ?? 'accept');
    const read = jsonReadByHost(this.raw);
    if (read !== undefined) return read;
    const encoding = this.raw.headers['content-encoding']?.toLowerCase() ?? 'identity';
    if (encoding !== 'identity') {
      throw new HttpError(415, 'Content-Encoding must be identity', { 'accept-encoding': 'identity' });
    }
    return parseJson(await this.#receiveBody(maxBytes));
  }

  /** Waits for the rest of a body that is not used: a write must not happen if its client gets 400, 408 or 413. */
  async receiveRest(): Promise<void> {
    const { complete, readableEnded } = this.raw;
    // A test double may lack `complete`.
    if (!complete && !readableEnded && hasBody(this.raw)) await this.#receiveBody(recordBytes);
  }

  async #receiveBody(maxBytes: number): Promise<Buffer> {
    const { raw, response } = this;
    const limit = Math.min(maxBytes, this.listener.limits.maxBodyBytes);
    if (Number(raw.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
    // A client that sent Expect gets 100 Continue only now, so that an error could be sent instead. In a host without a
    // listener for `checkContinue`, Node has sent it.
    const waits = raw.headers.expect !== undefined && Reflect.get(response, '_sent100') !== true;
    // HTTP/1.0 has no such response (RFC 9110, 15.2). An adapter for serverless hosts would take it for the reply.
    if (waits && raw.httpVersion !== '1.0' && hasParser(raw.socket)) response.writeContinue();
    const reading = readBody(raw, limit, (bytes, cancel) => this.hold(bytes, cancel));
    // Most bodies arrive in the same packet as their head, and can be read one tick later.
    await undefined;
    if (raw.complete) return await reading;
    // A request that waits for its body does not count. Otherwise a few slow clients could reach the limit.
    this.uncount();
    const bytes = await reading;
    // The client may have received 408 before its last bytes arrived, and may repeat the request.
    if (response.headersSent) throw new HttpError(408, 'the request did not arrive in time');
    if (!scheduler.admit(performance.now())) await scheduler.wait();
    this.count();
    return bytes;
  }

  /** Counts the request for `maxInFlight`, or fails with 503. Usually the limit on connections is reached first. */
  count(): void {
    // After the client has disconnected, the request would count for ever.
    if (this.hasEnded) return;
    const { limits, counted } = this.listener;
    if (limits.maxInFlight > 0 && counted >= limits.maxInFlight) {
      const cause = 'maxInFlight requests are under way';
      throw new HttpError(503, 'too many requests are under way', undefined, { cause });
    }
    this.listener.counted += 1;
    this.#isCounted = true;
  }

  /** Ends the effect of `count`, if it was called. */
  uncount(): void {
    if (this.#isCounted) this.listener.counted -= 1;
    this.#isCounted = false;
  }

  get chunkBytes(): number {
    return this.listener.memory.chunkBytes;
  }

  /** Sets the memory that the request uses: its body, then the part of the reply that waits. */
  hold(bytes: number, cancel?: () => void): void {
    // A host may end the response while the body arrives. Nothing would release the memory after that.
    if (this.hasEnded) return;
    this.holdsMemory = bytes > 0;
    this.listener.memory.hold(this, bytes, cancel);
  }

  /**
   * Counts the body that Node reads while the request waits, until the returned function is called. A chunked body
   * counts as a long one until its end has arrived. If too much waits, discards the body and fails.
   */
  holdUnread(fail: (error: HttpError) => void): () => void {
    const { raw } = this;
    const { headers, push } = raw;
    if (raw.readableEnded || !hasBody(raw)) return () => undefined;
    const release = (): void => {
      raw.push = push;
      this.hold(0);
    };
    const cancel = (): void => {
      release();
      fail(cancelBody(raw));
    };
    raw.push = (chunk) => {
      const isWanted = push.call(raw, chunk);
      if (chunk === null) this.hold(raw.readableLength, cancel);
      return isWanted;
    };
    this.hold(unreadBytes(headers), cancel);
    return release;
  }

  /** The request no longer counts as running: an endless stream waits most of the time. */
  becomeLongLived(): void {
    // After the client has disconnected, the request has already ended.
    if (this.hasEnded) return;
    this.longLived = true;
    this.listener.inFlight -= 1;
    this.uncount();
  }

  /** Cuts the response off by closing the connection. Serverless hosts have none, and wait for an error instead. */
  abort(): void {
    this.response.destroy();
    if (hasParser(this.raw.socket)) return;
    // Not earlier: the adapter listens only after it has called the listener.
    setImmediate(() => this.response.emit('error', new Error('the response was cut off')));
  }

  /** Ends what the request counts and holds. */
  release(): void {
    this.hasEnded = true;
    if (!this.longLived) this.listener.inFlight -= 1;
    this.uncount();
    if (this.holdsMemory) this.listener.memory.hold(this, 0);
  }
}
