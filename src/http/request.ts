import type { IncomingMessage, ServerResponse } from 'node:http';
import { requestId } from '../telemetry/request-id.ts';
import { checkBodyHead, checkContentType, parseJson, readBody } from './body.ts';
import { leftSignal } from './connections.ts';
import type { BodyMemory, InFlightLimit } from './in-flight.ts';
import { type Parameter, parseQuery, parseTarget, type Target } from './target.ts';

const acceptHeaders = { PATCH: 'accept-patch', POST: 'accept-post' } as const;

/** A request as handlers see it: split, but decoded and read only as far as they ask. */
export class HttpRequest {
  readonly raw: IncomingMessage;
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
  /** Where it takes a place, unless it is answered however much is under way. */
  limit: InFlightLimit | undefined;
  /** Whether it takes one now. */
  admitted = false;
  readonly #response: ServerResponse;
  readonly #maxBodyBytes: number;
  readonly #bodyMemory: BodyMemory;
  readonly #strippedPath: string;
  #target: Target | undefined;
  #parameters: readonly Parameter[] | undefined;

  constructor(
    raw: IncomingMessage,
    response: ServerResponse,
    basePath: string,
    maxBodyBytes: number,
    bodyMemory: BodyMemory,
  ) {
    this.raw = raw;
    this.method = raw.method ?? 'GET';
    this.id = requestId(raw.headers['x-request-id']);
    // Express takes its own prefix off the URL, and says what it was.
    const hostPath = 'baseUrl' in raw && typeof raw.baseUrl === 'string' ? raw.baseUrl : '';
    this.basePath = hostPath + basePath;
    this.#strippedPath = basePath;
    this.#response = response;
    this.#maxBodyBytes = maxBodyBytes;
    this.#bodyMemory = bodyMemory;
  }

  /** Fails with 400 when malformed, with 404 when not below the base path. */
  get target(): Target {
    this.#target ??= parseTarget(this.method, this.raw.url ?? '', this.#strippedPath);
    return this.#target;
  }

  /** Aborts when the client leaves; all requests of its connection share it. */
  get signal(): AbortSignal {
    return leftSignal(this.raw.socket);
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

  /** The body as JSON: its text and its value. Fails with 400, 413, 415 or 503. */
  async json(types: readonly string[] = ['application/json']) {
    const accept = this.method === 'PATCH' || this.method === 'POST' ? acceptHeaders[this.method] : 'accept';
    checkContentType(this.raw.headers['content-type'], types, accept);
    checkBodyHead(this.raw, this.#maxBodyBytes);
    this.#sendGoAhead();
    return parseJson(await this.#bytes());
  }

  async #bytes(): Promise<Buffer> {
    const reading = readBody(this.raw, this.#maxBodyBytes, this.#bodyMemory);
    // Most bodies come in the packet of their head: a tick later they are there.
    await undefined;
    if (this.limit === undefined || this.raw.complete) return await reading;
    // Meanwhile the place is another's, or slow clients would soon have taken them all.
    this.limit.release(this);
    const bytes = await reading;
    this.limit.acquire(this, this.#response);
    return bytes;
  }

  // A client that asked first is told to go on only when somebody wants its body: a refusal must come
  // instead. To HTTP/1.0, which knows no such answer, none may be sent (RFC 9110, 15.2).
  #sendGoAhead(): void {
    const { headers, httpVersion } = this.raw;
    if (headers.expect === undefined || httpVersion === '1.0') return;
    if (!this.#response.headersSent && !this.#response.destroyed) this.#response.writeContinue();
  }
}
