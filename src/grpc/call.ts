import { type handleUnaryCall, Metadata, type ServerUnaryCall, status } from '@grpc/grpc-js';
import { DomainError } from '../domain/errors.ts';
import type { Observe } from '../telemetry/events.ts';
import { requestId } from '../telemetry/request-id.ts';
import { errorStatuses, toGrpcError } from './errors.ts';

/** A call as handlers see it. */
export interface UnaryContext {
  /** The client's `x-request-id` where it is one, else a new one. */
  readonly id: string;
  readonly apiKey: string | undefined;
  /** Aborts when the client cancels or its deadline passes. */
  readonly signal: AbortSignal;
}

export type UnaryHandler<Request, Response> = (message: Request, context: UnaryContext) => Promise<Response>;

/** Calls under way, bounded as a whole. */
export interface CallGate {
  inFlight: number;
  readonly maxInFlight: number;
}

// A client whose deadline passes ends the call itself, before our own timer by as long as its call took to us.
const deadlineSlackMs = 100;

/**
 * Makes a grpc-js handler of an async one. It calls back exactly once whatever the handler does: a
 * rejection that nobody catches would hang the call and end the process.
 */
export function unary<Request, Response>(
  method: string,
  handle: UnaryHandler<Request, Response>,
  gate: CallGate,
  observe: Observe,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    const startedAt = performance.now();
    const id = requestId(text(call.metadata, 'x-request-id'));
    const context = new CallContext(id, call);
    const trailer = new Metadata();
    trailer.set('x-request-id', id);
    gate.inFlight += 1;

    const end = (code: status): void => {
      gate.inFlight -= 1;
      observe({
        type: 'request',
        face: 'grpc',
        id,
        method: 'POST',
        route: method,
        path: method,
        status: code,
        durationMs: performance.now() - startedAt,
        traceparent: text(call.metadata, 'traceparent'),
      });
    };
    answer(handle, call.request, context, gate).then(
      (response) => {
        const ended = context.settle();
        callback(null, response, trailer);
        end(ended === undefined ? status.OK : errorStatuses[ended.kind]);
      },
      (caught: unknown) => {
        const ended = context.settle();
        const error = toGrpcError(caught, id, observe);
        callback({ ...error, metadata: trailer });
        end(ended === undefined ? error.code : errorStatuses[ended.kind]);
      },
    );
  };
}

async function answer<Request, Response>(
  handle: UnaryHandler<Request, Response>,
  message: Request,
  context: UnaryContext,
  gate: CallGate,
): Promise<Response> {
  if (gate.inFlight > gate.maxInFlight)
    throw new DomainError('overloaded', 'too many requests are under way');
  return await handle(message, context);
}

class CallContext implements UnaryContext {
  readonly id: string;
  readonly #call: ServerUnaryCall<unknown, unknown>;
  #aborter: AbortController | undefined;
  #settled = false;

  constructor(id: string, call: ServerUnaryCall<unknown, unknown>) {
    this.id = id;
    this.#call = call;
  }

  get apiKey(): string | undefined {
    return text(this.#call.metadata, 'x-api-key');
  }

  // Made when somebody asks: most calls are answered before anyone could.
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      const aborter = new AbortController();
      this.#aborter = aborter;
      // grpc-js calls every end of a call `cancelled`, the good one too.
      const abort = () => this.#settled || aborter.abort(this.#ended());
      if (this.#call.cancelled) abort();
      else this.#call.on('cancelled', abort);
    }
    return this.#aborter.signal;
  }

  /** The handler is done; how the call had ended by then, if it had. */
  settle(): DomainError | undefined {
    this.#settled = true;
    return this.#call.cancelled ? (this.#aborter?.signal.reason ?? this.#ended()) : undefined;
  }

  #ended(): DomainError {
    const late = Number(this.#call.getDeadline()) - deadlineSlackMs <= Date.now();
    return late
      ? new DomainError('deadline-exceeded', 'the deadline has passed')
      : new DomainError('cancelled', 'the request was cancelled');
  }
}

/** A metadata value; repeated ones are joined with a comma, as HTTP headers are. */
function text(metadata: Metadata, name: string): string | undefined {
  const values = metadata.get(name);
  return values.length === 0 ? undefined : values.join(', ');
}
