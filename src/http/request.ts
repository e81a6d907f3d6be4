import type { IncomingMessage, ServerResponse } from 'node:http';
import { requestId } from '../telemetry/events.ts';
import { checkBodyHead, checkContentType, type Json, jsonReadByHost, parseJson, readBody } from './body.ts';
import { type Parameter, parseQuery, parseTarget, type Target } from './head.ts';
import { type Connection, leftSignal } from './in-flight.ts';
import { type Headers, HttpError } from './reply.ts';
import { turns } from './turns.ts';
import type { WaitingMemory } from './waiting-memory.ts';

export interface ListenerLimits {
  /** Longest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Header lines in a request. */
  readonly maxHeaders: number;
  /** Requests under way at once, exempt ones apart; more are rejected with 503. */
  readonly maxInFlight: number;
  /** A reply of which the client takes nothing for so long is cut, in ms. */
  readonly writeTimeoutMs: number;
}

/** What the requests of a listener share. */
export interface Shared {
  /** The prefix under which the listener is mounted, such as `/api`; empty for none. */
  readonly basePath: string;
  /** Headers of every reply, which its own may replace. */
  readonly headers: Headers;
  readonly limits: ListenerLimits;
  readonly memory: WaitingMemory;
  /** How many places of `maxInFlight` are taken. */
  taken: number;
  /** Whether each reply asks its client to open another connection elsewhere. */
  draining: boolean;
}

// No legal user or post is longer, even with every character escaped.
const recordBytes = 128 * 1024;
const acceptHeaders = { PATCH: 'accept-patch', POST: 'accept-post' } as const;

/** A request as handlers see it: split, but decoded and read only as far as they ask. */
export class HttpRequest {
  readonly raw: IncomingMessage;
  /** For `send`, which alone writes to it. */
  readonly response: ServerResponse;
  readonly connection: Connection;
  readonly shared: Shared;
  readonly method: string;
  /** The client's `x-request-id` where it is one, else a new one; returned, logged, reported. */
  readonly id: string;
  /** Where the service is mounted, such as `/api`; stands before every path a reply names. */
  readonly basePath: string;
  /** When it arrived, by `performance.now()`, in milliseconds. */
  readonly startedAt = performance.now();
  /** Path parameters, decoded. */
  params: Readonly<Record<string, string>> = {};
  /** The pattern of the path it matched. */
  template: string | undefined;
  /** The name of the API key that the request was let in with, if the key has one. */
  keyName: string | undefined;
  #hasPlace = false;
  #holdsMemory = false;
  /** Whether its reply is a stream without an end. */
  longLived = false;
  /** Whether its client has to take bytes before more are sent. */
  stalled = false;
  #target: Target | undefined;
  #parameters: readonly Parameter[] | undefined;

  constructor(raw: IncomingMessage, response: ServerResponse, connection: Connection, shared: Shared) {
    this.raw = raw;
    this.response = response;
    this.connection = connection;
    this.shared = shared;
    this.method = raw.method ?? 'GET';
    this.id = requestId(raw.headers['x-request-id']);
    // Express takes its own prefix off the URL, and says what it was.
    const hostPath = 'baseUrl' in raw && typeof raw.baseUrl === 'string' ? raw.baseUrl : '';
    this.basePath = hostPath + shared.basePath;
  }

  /** Fails with 400 when malformed, with 404 when not below the base path. */
  get target(): Target {
    this.#target ??= parseTarget(this.method, this.raw.url ?? '', this.shared.basePath);
    return this.#target;
  }

  /** Aborts when the client leaves; all requests of its connection share it. */
  get signal(): AbortSignal {
    return leftSignal(this.connection, this.raw.socket);
  }

  get isAborted(): boolean {
    return this.raw.socket.destroyed;
  }

  /** A header by its lower-case name; repeated ones are joined with a comma. */
  header(name: string): string | undefined {
    const value = this.raw.headers[name];
    return typeof value === 'object' ? value.join(', ') : value;
  }

  /** The query's parameters in order, decoded, repetitions included. */
  get parameters(): readonly Parameter[] {
    this.#parameters ??= parseQuery(this.target.query);
    return this.#parameters;
  }

  /** A path parameter; asking for one the pattern does not have is a mistake in the route table. */
  param(name: string): string {
    const value = this.params[name];
    if (value === undefined) throw new Error(`the route has no parameter ${name}`);
    return value;
  }

  /**
   * The body as JSON: its text and its value. Fails with 400, 413, 415 or 503. It may have `maxBytes`, and
   * no more than the service's own limit.
   */
  async json(types: readonly string[] = ['application/json'], maxBytes = recordBytes): Promise<Json> {
    const accept = this.method === 'PATCH' || this.method === 'POST' ? acceptHeaders[this.method] : 'accept';
    checkContentType(this.raw.headers['content-type'], types, accept);
    const most = Math.min(maxBytes, this.shared.limits.maxBodyBytes);
    checkBodyHead(this.raw, most);
    const read = jsonReadByHost(this.raw);
    if (read !== undefined) return read;
    this.#sendGoAhead();
    return parseJson(await this.#bytes(most));
  }

  async #bytes(maxBytes: number): Promise<Buffer> {
    const reading = readBody(this.raw, maxBytes, (bytes, giveUp) => this.hold(bytes, giveUp));
    // Most bodies come in the packet of their head: a tick later they are there.
    await undefined;
    if (this.raw.complete) return await reading;
    // Slow clients would soon have taken all places.
    const hadPlace = this.#hasPlace;
    this.#leave();
    const bytes = await reading;
    await turns.wait();
    if (hadPlace) this.enter();
    return bytes;
  }

  /**
   * Takes a place among the requests under way, or fails with 503: a brake for emergencies, since the bound on
   * connections bounds them already. While a body is on its way its request takes none, only memory.
   */
  enter(): void {
    // A client that has left already would never give it back.
    if (this.response.closed) return;
    const { limits, taken } = this.shared;
    if (limits.maxInFlight > 0 && taken >= limits.maxInFlight) {
      throw new HttpError(503, 'too many requests are under way', { 'retry-after': '1' });
    }
    this.shared.taken += 1;
    this.#hasPlace = true;
  }

  #leave(): void {
    if (this.#hasPlace) this.shared.taken -= 1;
    this.#hasPlace = false;
  }

  /** How long the chunks of a reply should be. */
  get chunkBytes(): number {
    return this.shared.memory.chunkBytes;
  }

  /** Sets how much memory it holds: its body, then what its client has not taken of the reply. */
  hold(bytes: number, giveUp?: () => void): void {
    this.#holdsMemory = true;
    this.stalled = bytes > 0;
    this.shared.memory.hold(this, bytes, giveUp);
  }

  /** Takes no place from now on: a stream without an end waits most of the time. */
  becomeLongLived(): void {
    this.longLived = true;
    this.#leave();
  }

  /** Gives back all that it takes. */
  release(): void {
    this.#leave();
    if (this.#holdsMemory) this.shared.memory.hold(this, 0);
  }

  // A client that sent Expect gets the go-ahead only when a handler wants its body: until then an error can
  // come instead. HTTP/1.0 has no such response (RFC 9110, 15.2).
  #sendGoAhead(): void {
    const { headers, httpVersion } = this.raw;
    if (headers.expect === undefined || httpVersion === '1.0') return;
    if (!this.response.headersSent && !this.response.destroyed) this.response.writeContinue();
  }
}
