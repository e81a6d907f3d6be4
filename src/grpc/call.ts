import type { EventEmitter } from 'node:events';
import {
  type Deadline,
  type handleUnaryCall,
  Metadata,
  type Server,
  type ServerInterceptingCall,
  type ServerInterceptor,
  type ServerUnaryCall,
  status,
} from '@grpc/grpc-js';
import { DomainError } from '../domain/errors.ts';
import type { Answer } from '../domain/repository.ts';
import { type Observe, requestId } from '../telemetry/events.ts';
import { errorStatuses, toGrpcError } from './errors.ts';

export type UnaryHandler<Request, Response> = (message: Request, context: UnaryContext) => Answer<Response>;

export interface UnaryOptions {
  readonly observe: Observe;
  /** The number of running calls; beyond `maxInFlight` a call is rejected. */
  readonly gate: { inFlight: number; readonly maxInFlight: number };
  /** Whether to report each call, for a server without `reportCalls`. */
  readonly reports?: boolean;
}

const idName = 'x-request-id';
// The handler of a call and its report share only the metadata.
const keyNames = new WeakMap<Metadata, string>();
// A client cancels at its own deadline. It is earlier than ours by the time that the call took to arrive.
const deadlineSlackMs = 100;

/**
 * Converts a handler that returns a value or a promise into a grpc-js handler. It calls back exactly once, also
 * after an error: an unhandled rejection would hang the call and end the process.
 */
export function unary<Request, Response>(
  handle: UnaryHandler<Request, Response>,
  { gate, observe, reports = false }: UnaryOptions,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    const startedAt = performance.now();
    const context = new UnaryContext(call);
    const trailer = new Metadata();
    trailer.set(idName, context.id);
    gate.inFlight += 1;
    const settle = (code: status): void => {
      gate.inFlight -= 1;
      context.isSettled = true;
      if (!reports) return;
      const { metadata } = call;
      const path = call.getPath();
      const ending = call.cancelled ? cancellation(call.getDeadline()).code : code;
      reportCall(observe, { path, route: path, metadata, code: ending, startedAt });
    };
    const succeed = (response: Response): void => {
      settle(status.OK);
      callback(null, response, trailer);
    };
    const fail = (caught: unknown): void => {
      const error = toGrpcError(caught, context, observe);
      settle(error.code);
      callback({ ...error, metadata: trailer });
    };
    let answer: Answer<Response>;
    try {
      const isOverloaded = gate.maxInFlight > 0 && gate.inFlight > gate.maxInFlight;
      if (isOverloaded) throw new DomainError('overloaded', 'too many requests are under way');
      answer = handle(call.request, context);
    } catch (caught) {
      fail(caught);
      return;
    }
    if (answer instanceof Promise) answer.then(succeed, fail);
    else succeed(answer);
  };
}

/** The view of a call that handlers get. */
class UnaryContext {
  /** The client's `x-request-id` if it is valid, else a new one. */
  readonly id: string;
  readonly #call: ServerUnaryCall<unknown, unknown>;
  #aborter: AbortController | undefined;
  isSettled = false;

  constructor(call: ServerUnaryCall<unknown, unknown>) {
    this.id = requestId(text(call.metadata, idName));
    this.#call = call;
  }

  /** The name of the API key, set by the access check of the handler. */
  get keyName(): string | undefined {
    return keyNames.get(this.#call.metadata);
  }

  set keyName(name: string | undefined) {
    if (name !== undefined) keyNames.set(this.#call.metadata, name);
  }

  get apiKey(): string | undefined {
    return text(this.#call.metadata, 'x-api-key');
  }

  get isAborted(): boolean {
    return this.#call.cancelled;
  }

  /** Aborts when the client cancels or the deadline passes. Created on first use, since most calls do not need it. */
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      const aborter = new AbortController();
      this.#aborter = aborter;
      // grpc-js emits `cancelled` at the end of every call, even a successful one.
      const abort = () => this.isSettled || aborter.abort(cancellation(this.#call.getDeadline()).error);
      if (this.#call.cancelled) abort();
      else this.#call.on('cancelled', abort);
    }
    return this.#aborter.signal;
  }
}

/** Whether a call was cancelled by its deadline or by its client, as a status and an error. */
function cancellation(deadline: Deadline): { readonly code: status; readonly error: DomainError } {
  const error =
    Number(deadline) - deadlineSlackMs <= Date.now()
      ? new DomainError('deadline-exceeded', 'the deadline has passed')
      : new DomainError('cancelled', 'the request was cancelled');
  return { code: errorStatuses[error.kind], error };
}

/** Reports the end of a call. `route` is the path if the method exists. */
function reportCall(
  observe: Observe,
  call: { path: string; route: string | undefined; metadata: Metadata; code: status; startedAt: number },
): void {
  observe({
    type: 'request',
    face: 'grpc',
    id: requestId(text(call.metadata, idName)),
    method: 'POST',
    path: call.path,
    status: call.code,
    durationMs: performance.now() - call.startedAt,
    route: call.route,
    traceparent: text(call.metadata, 'traceparent'),
    key: keyNames.get(call.metadata),
  });
}

/**
 * Reports every call of a server exactly once, even if it ends before its handler runs. A request that is not gRPC
 * (415) does not count as a call.
 */
export function reportCalls(observe: Observe): ServerInterceptor {
  return ({ path, requestStream, responseSerialize }, call) => {
    const startedAt = performance.now();
    const route = responseSerialize === serializeNothing ? undefined : path;
    const { start, sendStatus } = call;
    let metadata = new Metadata();
    let isReported = false;
    const end = (code: status): void => {
      if (isReported) return;
      isReported = true;
      reportCall(observe, { path, route, metadata, code, startedAt });
    };
    // Patch the call in place: a wrapper object around each call would cost more.
    call.start = (listener) =>
      start.call(call, {
        ...listener,
        onReceiveMetadata(received) {
          metadata = received;
          // The handler and this report must use the same id.
          const given = text(received, idName);
          const id = requestId(given);
          if (id !== given) received.set(idName, id);
          listener.onReceiveMetadata(received);
        },
        onReceiveHalfClose() {
          // Do not run the handler when the client already has its response.
          if (requestStream || !isReported) listener.onReceiveHalfClose();
        },
        onCancel() {
          // `onCancel` runs after every call, and `cancellation` costs a stack trace.
          if (!isReported) end(cancellation(call.getDeadline()).code);
          listener.onCancel();
        },
      });
    call.sendStatus = (ending) => {
      sendStatus.call(call, ending);
      end(ending.code ?? status.UNKNOWN);
    };
    // The type requires a wrapper, but grpc-js accepts the call itself.
    return call as ServerInterceptingCall;
  };
}

const serializeNothing = (): Buffer => Buffer.alloc(0);

/**
 * Adds a handler for unknown methods, so that their calls reach the interceptors. grpc-js responds to them
 * itself, and only this private method of its server handles them.
 */
export function handleUnknownMethods(server: Server): void {
  const find: unknown = Reflect.get(server, '_retrieveHandler');
  if (typeof find !== 'function') throw new Error('this version of @grpc/grpc-js is not supported');
  Reflect.set(server, '_retrieveHandler', (path: string): unknown => {
    const handler: unknown = find.call(server, path);
    if (handler !== null) return handler;
    const details = `The server does not implement the method ${path}`;
    const func = (call: EventEmitter) => call.emit('error', { code: status.UNIMPLEMENTED, details });
    return { path, type: 'bidi', func, serialize: serializeNothing, deserialize: Buffer.from };
  });
}

/** A metadata value. Repeated values are joined with a comma, like HTTP headers. */
function text(metadata: Metadata, name: string): string | undefined {
  const values = metadata.get(name);
  return values.length === 0 ? undefined : values.join(', ');
}
