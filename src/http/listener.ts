import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Observe } from '../telemetry/events.ts';
import { connectionOf, hasParser, mergeChunks } from './connection.ts';
import { checkHead, parseTarget, splitPath } from './head.ts';
import { MemoryBudget } from './memory-budget.ts';
import { type ErrorResponse, type Headers, HttpError, isStream, type Reply } from './reply.ts';
import { type Handler, HttpRequest, type Listener } from './request.ts';
import type { Router } from './router.ts';
import { scheduler } from './scheduler.ts';
import { isLong, send, sendError } from './send.ts';

export interface Route {
  readonly template: string;
  readonly handle: Handler;
  /** `limited`: counts for `maxInFlight`. `exempt`: does not. `first`: also runs and replies before all that wait. */
  readonly priority: 'limited' | 'exempt' | 'first';
}

export interface ListenerOptions
  extends Pick<Listener, 'basePath' | 'commonHeaders' | 'corsHeaders' | 'limits'> {
  readonly router: Router<Route>;
  /** Further headers of replies to OPTIONS. Default: none. */
  readonly optionsHeaders?: (request: HttpRequest, allow: string) => Headers;
  /** Converts anything that a handler threw into an error response, and reports internal causes. */
  readonly toErrorResponse: (caught: unknown, request: HttpRequest) => ErrorResponse;
  /** Throws for a request to a host name that is not served. Default: all names are served. */
  readonly checkHost?: ((message: IncomingMessage) => void) | undefined;
  readonly observe: Observe;
}

type Choice = Omit<Route, 'template'>;
const immediate = (handle: Handler): Choice => ({ handle, priority: 'first' });

/** Called by `node:http` for each request. A host passes `next` to handle requests for unknown paths. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse, next?: () => void) => void;

// As in nginx, the status in logs and metrics for a connection that closed before the end of the response.
const clientLeft = 499;
// An absolute target may contain a name and a password before an @, which must not be in the log.
const mayHaveUserInfo = /^[^/].*@/;

/** Passes requests from `node:http` to their handlers, and sends every result or error as a reply. */
export class HttpListener {
  readonly #state: Listener & ListenerOptions;

  constructor(options: ListenerOptions) {
    const memory = new MemoryBudget(options.observe, options.limits.maxBodyBytes);
    this.#state = { ...options, memory, inFlight: 0, counted: 0, draining: false };
  }

  get inFlight(): number {
    return this.#state.inFlight;
  }

  /** Closes each connection after its newest reply. */
  drain(): void {
    this.#state.draining = true;
  }

  readonly onRequest: RequestListener = (message, response, next) => {
    if (message.socket.destroyed) return;
    const connection = connectionOf(message.socket);
    if (next !== undefined && !connection.closing && !this.#knows(message)) return next();
    // A response with `Connection: close`, or the error for a late or malformed request, is the last one. A request
    // after it is never started, but waits like others, so that reading pauses if many follow.
    const isDropped = connection.closing || connection.failure !== undefined;
    connection.newest = response;
    mergeChunks(message);
    const start = (mayBeFirst: boolean): void => {
      // Meanwhile, the host may have used the response. A destroyed one emits no `close` for the request.
      if (isDropped || response.headersSent || response.destroyed) return;
      this.#start(new HttpRequest(message, response, connection, this.#state), mayBeFirst);
    };
    // A queued response gets its socket in its turn. Until then, it emits no `close` in Node.js 24.7 to 24.20. Without
    // the property, which Node.js sets with the first response, the socket is a test double, which has no queue.
    const isQueued = response.socket === null && !response.headersSent && '_httpMessage' in message.socket;
    if (isQueued) connection.wait(response, this.#state.memory, () => start(false));
    // Only a request that is alone on its connection may go first: a packet can contain thousands of health checks.
    else start(connection.running === undefined);
  };

  // A malformed target counts as known, so that this service rejects it.
  #knows({ method = 'GET', url = '' }: IncomingMessage): boolean {
    try {
      const { path } = parseTarget(method, url, this.#state.basePath);
      return path === '*' || this.#state.router.knows(splitPath(path));
    } catch (caught) {
      return !(caught instanceof HttpError && caught.status === 404);
    }
  }

  #start(request: HttpRequest, mayBeFirst: boolean): void {
    const { connection, raw, response } = request;
    const fail = (caught: unknown): void => this.#fail(request, caught);
    connection.running = { response, fail };
    // `once` would cost a removal of the listener for each request.
    response.on('close', () => this.#end(request, response.writableFinished));
    // Without a parser, as on serverless hosts, a response may emit no `close`. `abort` emits the error.
    if (!hasParser(raw.socket))
      response.on('finish', () => this.#end(request, true)).on('error', () => this.#end(request, false));
    const route = this.#route(request);
    if ((route.priority === 'first' && mayBeFirst) || scheduler.admit(request.startedAt))
      this.#answer(request, route);
    else {
      const release = request.holdUnread(fail);
      const drop = scheduler.addTask(() => {
        release();
        return this.#answer(request, route);
      });
      response.on('close', drop);
    }
  }

  /** Reports a request, once. `isSent`: whether all of its response was sent. */
  #end(request: HttpRequest, isSent: boolean): void {
    if (request.hasEnded) return;
    request.release();
    const now = performance.now();
    const { id, method, raw, response, connection, startedAt, template, keyName } = request;
    const { longLived, holdsMemory, failedStatus } = request;
    const { url = '' } = raw;
    // If a part of its body or its reply is still in memory, the request was cut off.
    const hasFailed = holdsMemory || (failedStatus !== undefined && failedStatus >= 500);
    // A client ends an endless reply by disconnecting.
    const isWhole = isSent || (longLived && response.headersSent && !hasFailed);
    this.#state.observe({
      type: 'request',
      face: 'http',
      id,
      method,
      // Without the query, because values of filters and cursors, such as names, do not belong in a log.
      path: mayHaveUserInfo.test(url) ? '' : url.replace(/\?.*/, ''),
      status: isWhole ? response.statusCode : (failedStatus ?? clientLeft),
      durationMs: now - startedAt,
      route: template,
      traceparent: request.header('traceparent'),
      key: keyName,
      longLived,
    });
    connection.end(raw, response, now);
  }

  // Every error of a request becomes a route that fails.
  #route(request: HttpRequest): Choice {
    const { router, limits, checkHost, corsHeaders, optionsHeaders } = this.#state;
    const { raw, response, connection } = request;
    try {
      // The body was malformed or late before the request could start.
      if (connection.toReject === response) throw connection.failure;
      checkHead(raw, limits.maxHeaders);
      checkHost?.(raw);
      const { method } = request;
      const { path } = request.target;
      if (!router.methods.has(method)) throw new HttpError(501, `method ${method} is not implemented`);
      const segments = splitPath(path);
      if (method === 'OPTIONS') {
        // If its preflight fails, a page cannot read the 404 of its request.
        const isPreflight = corsHeaders && request.header('access-control-request-method') !== undefined;
        const isForAll = path === '*' || (isPreflight && !router.knows(segments));
        const allow = isForAll ? [...router.methods].sort().join(', ') : router.allow(segments);
        return immediate(() => ({ status: 204, headers: { allow, ...optionsHeaders?.(request, allow) } }));
      }
      const { value: route, params } = router.match(method, segments);
      request.params = params;
      request.template = route.template;
      return route;
    } catch (caught) {
      return immediate(() => {
        throw caught;
      });
    }
  }

  /** Returns whether the request is still running. */
  #answer(request: HttpRequest, { handle, priority }: Choice): boolean {
    // While the request waited, its client may have disconnected, or its body may have been malformed.
    if (request.response.destroyed || request.response.headersSent) return false;
    try {
      if (priority === 'limited') request.count();
      const reply = handle(request);
      // Not `instanceof`: a host may replace the global `Promise`, as zone.js does.
      const isPromise = 'then' in reply;
      if (isPromise) {
        reply.then(
          (reply) => this.#reply(request, reply, priority),
          (caught: unknown) => this.#fail(request, caught),
        );
      } else this.#reply(request, reply, priority);
      return isPromise;
    } catch (caught) {
      this.#fail(request, caught);
      return false;
    }
  }

  #reply(request: HttpRequest, reply: Reply, priority: Choice['priority']): void {
    if (priority === 'first') return void this.#send(request, reply);
    // The requests of a turn ran one after another, so they do not count as many while their replies wait.
    if (!isStream(reply.body)) request.uncount();
    // A long body does not wait, because it counts for the memory budget only while it is sent.
    if (isLong(reply.body)) this.#send(request, reply);
    else scheduler.addReply(() => this.#send(request, reply));
  }

  /** Returns whether the reply continues in promises. */
  #send(request: HttpRequest, reply: Reply): boolean {
    try {
      const sent = send(request, reply);
      sent?.catch((caught: unknown) => this.#fail(request, caught));
      return sent !== undefined;
    } catch (caught) {
      this.#fail(request, caught);
      return false;
    }
  }

  #fail(request: HttpRequest, caught: unknown): void {
    const { observe, toErrorResponse } = this.#state;
    try {
      sendError(request, toErrorResponse(caught, request));
    } catch (cause) {
      // The error response could not be written: only closing the connection can signal the failure.
      observe({ type: 'failure', where: 'http', requestId: request.id, cause });
      request.abort();
    }
  }
}
