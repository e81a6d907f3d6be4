import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Observe } from '../telemetry/events.ts';
import { type Connection, connectionOf, Pipelines } from './connections.ts';
import { checkFraming, parseTarget } from './head.ts';
import { InFlightLimit, Turns, WaitingMemory } from './in-flight.ts';
import { errorReply } from './refusals.ts';
import { type Headers, HttpError, type Reply, securityHeaders } from './reply.ts';
import { HttpRequest } from './request.ts';
import type { Router } from './router.ts';
import { send } from './send.ts';

export type Handler = (request: HttpRequest) => Reply | Promise<Reply>;

export interface Route {
  readonly template: string;
  readonly handle: Handler;
  /** Answered however much is under way, and not counted: load must not fail a probe. */
  readonly exempt: boolean;
}

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

export interface ListenerOptions {
  readonly router: Router<Route>;
  /** The prefix under which the listener is mounted, such as `/api`; empty for none. */
  readonly basePath: string;
  /** Turns whatever a handler threw into an answer; it reports what must stay inside. */
  readonly toHttpError: (caught: unknown, request: HttpRequest) => HttpError;
  /** Headers for every reply to this request, errors included. */
  readonly commonHeaders: (request: HttpRequest) => Headers | undefined;
  /** Throws for a request to a host name that is not served. Default: all are. */
  readonly checkHost?: ((message: IncomingMessage) => void) | undefined;
  /** Headers of every reply, which its own may replace. Default: `securityHeaders`. */
  readonly headers?: Headers;
  readonly observe: Observe;
  readonly limits: ListenerLimits;
}

type Choice = Pick<Route, 'handle' | 'exempt'>;

/** What `node:http` calls for each request; `next` is for a host that answers what we do not know. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse, next?: () => void) => void;

const basePathPattern = /^(?:\/[\w.~-]+)*$/;
// nginx's word for a client that left before its answer: no such client sees it, logs and metrics do.
const clientLeft = 499;

/** Takes requests from `node:http` to their handlers, and every outcome back as a reply. */
export class HttpListener {
  readonly #options: ListenerOptions;
  readonly #limit: InFlightLimit;
  readonly #memory: WaitingMemory;
  readonly #turns = new Turns();
  readonly #pipelines = new Pipelines();
  #inFlight = 0;
  #draining = false;

  constructor(options: ListenerOptions) {
    if (!basePathPattern.test(options.basePath)) {
      const given = JSON.stringify(options.basePath);
      throw new TypeError(`basePath must be empty or like "/api", without a slash at its end, not ${given}`);
    }
    this.#options = options;
    this.#limit = new InFlightLimit(options.limits.maxInFlight);
    this.#memory = new WaitingMemory(() => {
      options.observe({
        type: 'refused',
        face: 'http',
        status: 503,
        reason: 'too much waits for slow clients',
      });
    });
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** From now on each reply asks its client to open another connection elsewhere. */
  drain(): void {
    this.#draining = true;
  }

  readonly listener: RequestListener = (message, response, next) => {
    const connection = connectionOf(message.socket);
    if (connection.closing || message.socket.destroyed) return;
    if (next !== undefined && !this.#knows(message)) return next();
    if (connection.newest === undefined) this.#turns.connected();
    connection.newest = response;
    if (!connection.busy) this.#start(connection, message, response);
    else {
      this.#pipelines.wait(message.socket, connection, () => {
        // Its body may have turned out malformed meanwhile, and it has been answered so.
        if (!response.headersSent) this.#start(connection, message, response);
      });
    }
  };

  // A malformed target counts as known: it is rejected here as well as anywhere.
  #knows({ method = 'GET', url = '' }: IncomingMessage): boolean {
    try {
      const { path } = parseTarget(method, url, this.#options.basePath);
      return path === '*' || this.#options.router.knows(path);
    } catch (caught) {
      return !(caught instanceof HttpError && caught.status === 404);
    }
  }

  #start(connection: Connection, message: IncomingMessage, response: ServerResponse): void {
    connection.busy = true;
    const { basePath, limits } = this.#options;
    const request = new HttpRequest(
      message,
      response,
      basePath,
      limits.maxBodyBytes,
      this.#memory,
      this.#turns,
    );
    this.#track(connection, request, response);
    const route = this.#route(request);
    if (route.exempt || this.#turns.isOpen(request.startedAt)) this.#answer(request, response, route);
    else this.#turns.enqueue(() => this.#answer(request, response, route));
  }

  #track(connection: Connection, request: HttpRequest, response: ServerResponse): void {
    this.#inFlight += 1;
    // It comes once anyway: `once` would take off at each request what goes with the response.
    response.on('close', () => {
      this.#inFlight -= 1;
      request.release();
      this.#options.observe({
        type: 'request',
        face: 'http',
        id: request.id,
        method: request.method,
        path: withoutQuery(request.raw.url ?? ''),
        status: response.writableFinished ? response.statusCode : clientLeft,
        durationMs: performance.now() - request.startedAt,
        route: request.template,
        traceparent: request.header('traceparent'),
        key: request.keyName,
      });
      this.#pipelines.startNext(request.raw.socket, connection);
    });
  }

  #answer(request: HttpRequest, response: ServerResponse, route: Choice): void {
    // Its client may have left while it waited for its turn.
    if (response.destroyed) return;
    this.#reply(request, response, route).catch((caught: unknown) => {
      // Not even the error could be written: a cut connection is the only honest end left.
      this.#options.observe({ type: 'failure', where: 'http', requestId: request.id, cause: caught });
      response.destroy();
    });
  }

  async #reply(request: HttpRequest, response: ServerResponse, { handle, exempt }: Choice): Promise<void> {
    try {
      if (!exempt) {
        this.#limit.acquire(request, response);
        request.limit = this.#limit;
      }
      const reply = await handle(request);
      // A group of writes commits at once: their replies in one go would be a long turn.
      const turn = exempt ? undefined : request.turn();
      if (turn !== undefined) await turn;
      await this.#send(request, response, reply);
    } catch (caught) {
      const error = this.#options.toHttpError(caught, request);
      // Part of another reply is out: what comes after it would be read as the rest.
      if (response.headersSent) response.destroy();
      else await this.#send(request, response, errorReply(error, request));
    }
  }

  // Whatever is wrong with a request is answered at once, as a route that fails.
  #route(request: HttpRequest): Choice {
    const { router, limits, checkHost } = this.#options;
    try {
      checkFraming(request.raw, limits.maxHeaders);
      checkHost?.(request.raw);
      const { method } = request;
      const { path } = request.target;
      if (!router.methods.has(method)) throw new HttpError(501, `method ${method} is not implemented`);
      if (method === 'OPTIONS') {
        const allow = path === '*' ? [...router.methods].sort().join(', ') : router.allow(path);
        return { exempt: true, handle: () => ({ status: 204, headers: { allow } }) };
      }
      const { value: route, params } = router.match(method, path);
      request.params = params;
      request.template = route.template;
      return route;
    } catch (caught) {
      return {
        exempt: true,
        handle: () => {
          throw caught;
        },
      };
    }
  }

  #send(request: HttpRequest, response: ServerResponse, reply: Reply): Promise<void> | undefined {
    const { limits, commonHeaders, headers = securityHeaders } = this.#options;
    const { raw } = request;
    const close = this.#draining && connectionOf(raw.socket).newest === response;
    const options = { close, headers, writeTimeoutMs: limits.writeTimeoutMs };
    return send(request, response, withHeaders(reply, commonHeaders(request)), options);
  }
}

function withHeaders(reply: Reply, common: Headers | undefined): Reply {
  if (common === undefined) return reply;
  const vary = [reply.headers?.['vary'], common['vary']].filter((value) => value !== undefined).join(', ');
  return { ...reply, headers: { ...reply.headers, ...common, ...(vary !== '' && { vary }) } };
}

// A query holds names: the values of filters and cursors do not belong in a log.
function withoutQuery(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? target : target.slice(0, mark);
}
