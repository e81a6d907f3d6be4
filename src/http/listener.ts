import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Observe } from '../observer.ts';
import { errorReply } from './error-reply.ts';
import { checkFraming } from './framing.ts';
import { HttpError } from './http-error.ts';
import type { Headers, Reply } from './reply.ts';
import { HttpRequest } from './request.ts';
import type { Router } from './router.ts';
import { send } from './send.ts';

export type Handler = (request: HttpRequest) => Reply | Promise<Reply>;

export interface Route {
  readonly template: string;
  readonly handle: Handler;
  /** Answered even when the service has all the requests it can take: probes must not fail of load. */
  readonly vital: boolean;
}

export interface ListenerOptions {
  readonly router: Router<Route>;
  /** The prefix under which the listener is mounted, such as `/api`; empty for none. */
  readonly basePath: string;
  /** Turns whatever a handler threw into an answer; it reports what must stay inside. */
  readonly toHttpError: (caught: unknown, request: HttpRequest) => HttpError;
  /** Headers for every reply to this request, errors included. */
  readonly commonHeaders: (request: HttpRequest) => Headers | undefined;
  /** Headers for every answer to OPTIONS, beside `Allow`. */
  readonly optionsHeaders?: Headers;
  readonly observe: Observe;
  readonly limits: ListenerLimits;
}

export interface ListenerLimits {
  /** Longest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Header lines in a request. */
  readonly maxHeaders: number;
  /** Requests under way at once. */
  readonly maxInFlight: number;
  /** A reply of which the client takes nothing for so long is cut, in milliseconds. */
  readonly writeTimeoutMs: number;
}

/** What `node:http` calls for each request; `next` is for a host that answers what we do not know. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse, next?: () => void) => void;

// nginx's word for a client that left before its answer: no such client sees it, logs and metrics do.
const clientLeft = 499;

/** Takes requests from `node:http` to their handlers, and every outcome back as a reply. */
export class HttpListener {
  readonly #options: ListenerOptions;
  #inFlight = 0;
  #draining = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** From now on each reply asks its client to open another connection elsewhere. */
  drain(): void {
    this.#draining = true;
  }

  readonly listener: RequestListener = (message, response, next) => {
    const { basePath, limits } = this.#options;
    if (next !== undefined && !isUnder(basePath, message.url ?? '')) return next();
    const request = new HttpRequest(message, response, basePath, limits.maxBodyBytes);
    let route: Route | undefined;
    let refusal: unknown;
    try {
      route = this.#findRoute(request);
    } catch (caught) {
      if (next !== undefined && caught instanceof HttpError && caught.status === 404) return next();
      refusal = caught;
    }
    this.#track(request, response);
    this.#answer(request, response, route, refusal).catch((caught: unknown) => {
      this.#options.observe({ type: 'failure', where: 'http', requestId: request.id, cause: caught });
      response.destroy();
    });
  };

  #findRoute(request: HttpRequest): Route | undefined {
    const { router, limits, basePath } = this.#options;
    checkFraming(request.raw, limits.maxHeaders);
    if (!isUnder(basePath, request.raw.url ?? '')) throw new HttpError(404, 'no such resource');
    const { method } = request;
    const { path } = request.target;
    if (!router.methods.has(method)) throw new HttpError(501, `method ${method} is not implemented`);
    if (method === 'OPTIONS') return undefined;
    const { value, params } = router.match(method, path);
    request.params = params;
    request.template = value.template;
    return value;
  }

  #track(request: HttpRequest, response: ServerResponse): void {
    this.#inFlight += 1;
    response.once('close', () => {
      this.#inFlight -= 1;
      const traceparent = request.header('traceparent');
      this.#options.observe({
        type: 'request',
        face: 'http',
        id: request.id,
        method: request.method,
        path: request.raw.url ?? '',
        status: response.writableFinished ? response.statusCode : clientLeft,
        durationMs: performance.now() - request.startedAt,
        ...(request.template !== undefined && { route: request.template }),
        ...(traceparent !== undefined && { traceparent }),
      });
    });
  }

  async #answer(
    request: HttpRequest,
    response: ServerResponse,
    route: Route | undefined,
    refusal: unknown,
  ): Promise<void> {
    const { limits, commonHeaders } = this.#options;
    const options = { close: this.#draining, writeTimeoutMs: limits.writeTimeoutMs };
    try {
      if (refusal !== undefined) throw refusal;
      const reply = await this.#handle(request, route);
      await send(request, response, withHeaders(reply, commonHeaders(request)), options);
    } catch (caught) {
      const error = this.#options.toHttpError(caught, request);
      if (response.headersSent) {
        // A cut connection is the only honest end left.
        response.destroy();
        return;
      }
      const reply = errorReply(error, request);
      await send(request, response, withHeaders(reply, commonHeaders(request)), options);
    }
  }

  #handle(request: HttpRequest, route: Route | undefined): Reply | Promise<Reply> {
    if (route === undefined) return this.#describe(request);
    if (this.#inFlight > this.#options.limits.maxInFlight && !route.vital) {
      throw new HttpError(503, 'too many requests are under way', { 'retry-after': '1' });
    }
    return route.handle(request);
  }

  #describe(request: HttpRequest): Reply {
    const { router, optionsHeaders } = this.#options;
    const { path } = request.target;
    const allow = path === '*' ? [...router.methods].sort().join(', ') : router.allow(path);
    return { status: 204, headers: { allow, ...optionsHeaders } };
  }
}

function isUnder(basePath: string, url: string): boolean {
  if (!url.startsWith(basePath)) return false;
  const next = url[basePath.length];
  return basePath === '' || next === undefined || next === '/' || next === '?';
}

function withHeaders(reply: Reply, common: Headers | undefined): Reply {
  if (common === undefined) return reply;
  const vary = [reply.headers?.['vary'], common['vary']].filter((value) => value !== undefined).join(', ');
  return { ...reply, headers: { ...reply.headers, ...common, ...(vary !== '' && { vary }) } };
}
