import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Observe } from '../telemetry/events.ts';
import { checkFraming, parseTarget } from './head.ts';
import { type Connection, connectionOf, startNext, waitInLine } from './in-flight.ts';
import { errorReply } from './refusals.ts';
import { type Headers, HttpError, type Reply, securityHeaders } from './reply.ts';
import { HttpRequest, type ListenerLimits, type Shared } from './request.ts';
import type { Router } from './router.ts';
import { send } from './send.ts';
import { turns } from './turns.ts';
import { WaitingMemory } from './waiting-memory.ts';

export type Handler = (request: HttpRequest) => Reply | Promise<Reply>;

export interface Route {
  readonly template: string;
  readonly handle: Handler;
  /** Answered however much is under way, and not counted. */
  readonly exempt: boolean;
  /** Answered before all that waits: load must not fail a probe. */
  readonly first: boolean;
}

export interface ListenerOptions {
  readonly router: Router<Route>;
  /** The prefix under which the listener is mounted, such as `/api`; empty for none. */
  readonly basePath: string;
  /** Turns whatever a handler threw into an answer; it reports what must stay inside. */
  readonly toHttpError: (caught: unknown, request: HttpRequest) => HttpError;
  /** Headers for every reply to this request, errors included. Default: none. */
  readonly commonHeaders?: ((request: HttpRequest) => Headers | undefined) | undefined;
  /** Headers of every reply to OPTIONS. Default: none. */
  readonly optionsHeaders?: Headers;
  /** Throws for a request to a host name that is not served. Default: all are. */
  readonly checkHost?: ((message: IncomingMessage) => void) | undefined;
  /** Headers of every reply, which its own may replace. Default: `securityHeaders`. */
  readonly headers?: Headers;
  readonly observe: Observe;
  readonly limits: ListenerLimits;
}

type Choice = Omit<Route, 'template'>;

/** What `node:http` calls for each request; `next` is for a host that answers what we do not know. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse, next?: () => void) => void;

const basePathPattern = /^(?:\/[\w.~-]+)*$/;
// nginx's word for a client that left before its answer: no such client sees it, logs and metrics do.
const clientLeft = 499;

/** Takes requests from `node:http` to their handlers, and every outcome back as a reply. */
export class HttpListener {
  readonly #options: ListenerOptions;
  readonly #shared: Shared;
  #inFlight = 0;

  constructor(options: ListenerOptions) {
    const { basePath, headers = securityHeaders, limits, observe } = options;
    if (!basePathPattern.test(basePath)) {
      const given = JSON.stringify(basePath);
      throw new TypeError(`basePath must be empty or like "/api", without a slash at its end, not ${given}`);
    }
    this.#options = options;
    const memory = new WaitingMemory(() => {
      observe({ type: 'refused', face: 'http', status: 503, reason: 'too much waits for slow clients' });
    });
    this.#shared = { basePath, headers, limits, memory, taken: 0, draining: false };
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** From now on each reply asks its client to open another connection elsewhere. */
  drain(): void {
    this.#shared.draining = true;
  }

  readonly listener: RequestListener = (message, response, next) => {
    const connection = connectionOf(message.socket);
    if (connection.closing || message.socket.destroyed) return;
    if (next !== undefined && !this.#knows(message)) return next();
    connection.newest = response;
    if (!connection.busy) this.#start(connection, message, response);
    else {
      waitInLine(message, connection, this.#shared.memory, () => {
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
    const request = new HttpRequest(message, response, connection, this.#shared);
    this.#inFlight += 1;
    // It comes once anyway: `once` would take off at each request what goes with the response.
    response.on('close', () => {
      this.#inFlight -= 1;
      request.release();
      const now = performance.now();
      this.#report(request, now);
      connection.idleSince = now;
      // An idle connection keeps nothing of its last request; while a body is on its way, errors need it.
      if (connection.newest === response && message.complete) connection.newest = undefined;
      startNext(message.socket, connection);
    });
    const route = this.#route(request);
    if (route.first || turns.isFree(request.startedAt)) this.#answer(request, route);
    else turns.add(() => this.#answer(request, route));
  }

  #report(request: HttpRequest, now: number): void {
    const { id, method, raw, response, startedAt, template, keyName } = request;
    this.#options.observe({
      type: 'request',
      face: 'http',
      id,
      method,
      path: withoutQuery(raw.url ?? ''),
      status: isWhole(request) ? response.statusCode : clientLeft,
      durationMs: now - startedAt,
      ...(request.longLived && { longLived: true }),
      route: template,
      traceparent: request.header('traceparent'),
      key: keyName,
    });
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
        return { exempt: true, first: true, handle: () => ({ status: 204, headers: { allow } }) };
      }
      const { value: route, params } = router.match(method, path);
      request.params = params;
      request.template = route.template;
      return route;
    } catch (caught) {
      return {
        exempt: true,
        first: true,
        handle: () => {
          throw caught;
        },
      };
    }
  }

  /** Returns whether it is still under way. */
  #answer(request: HttpRequest, { handle, exempt }: Choice): boolean {
    // While it waited for its turn its client may have left, or its body turned out malformed.
    if (request.response.destroyed || request.response.headersSent) return false;
    try {
      if (!exempt) request.enter();
      const reply = handle(request);
      const sent = reply instanceof Promise ? this.#sendLater(request, reply) : this.#send(request, reply);
      sent?.catch((caught: unknown) => this.#fail(request, caught));
      return sent !== undefined;
    } catch (caught) {
      this.#fail(request, caught);
      return false;
    }
  }

  async #sendLater(request: HttpRequest, replying: Promise<Reply>): Promise<void> {
    await this.#send(request, await replying);
  }

  #fail(request: HttpRequest, caught: unknown): void {
    const { observe, toHttpError } = this.#options;
    try {
      const error = toHttpError(caught, request);
      // Part of another reply is out: what comes after it would be read as the rest.
      if (request.response.headersSent) request.response.destroy();
      else this.#send(request, errorReply(error, request));
    } catch (cause) {
      // Not even the error could be written: a cut connection is the only honest end left.
      observe({ type: 'failure', where: 'http', requestId: request.id, cause });
      request.response.destroy();
    }
  }

  #send(request: HttpRequest, reply: Reply): Promise<void> | undefined {
    const { commonHeaders, optionsHeaders } = this.#options;
    let common = commonHeaders?.(request);
    if (request.method === 'OPTIONS') common = { ...common, ...optionsHeaders };
    return send(request, common === undefined ? reply : withHeaders(reply, common));
  }
}

function withHeaders(reply: Reply, common: Headers): Reply {
  const vary = [reply.headers?.['vary'], common['vary']].filter((value) => value !== undefined).join(', ');
  return { ...reply, headers: { ...reply.headers, ...common, ...(vary !== '' && { vary }) } };
}

// A client ends a long-lived reply by leaving: it is whole if the client had taken all until then.
function isWhole({ longLived, stalled, response }: HttpRequest): boolean {
  return response.writableFinished || (longLived && response.headersSent && !stalled);
}

// A query holds names: the values of filters and cursors do not belong in a log.
function withoutQuery(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? target : target.slice(0, mark);
}
