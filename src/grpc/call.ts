import { type OutgoingHttpHeaders, sensitiveHeaders } from 'node:http2';
import type { handleUnaryCall, ServerInterceptor, ServerUnaryCall } from '@grpc/grpc-js';
import { Metadata, status } from '@grpc/grpc-js';
import type { Access, Scope } from '../domain/access.ts';
import { DomainError } from '../domain/errors.ts';
import type { Answer, CallOptions } from '../domain/repository.ts';
import { type Observe, requestId } from '../telemetry/events.ts';
import { errorStatuses, toStatus } from './errors.ts';
import { idName, reporter } from './report.ts';

export interface UnaryOptions {
  readonly access: Access;
  readonly observe: Observe;
  /** The number of running calls, and the maximum, beyond which a call is rejected; 0 for no limit. */
  readonly gate: { inFlight: number; readonly maxInFlight: number };
  /** Whether to report each call and return its id, for a server without `reportCalls`. */
  readonly reports?: boolean;
}

// As Retry-After in HTTP (gRFC A6). After a negative number, clients do not retry.
const pushbackName = 'grpc-retry-pushback-ms';
const pushbackMs = 1_000;
// The handler of a call and its report share only the metadata.
const keyNames = new WeakMap<Metadata, string>();
// A client cancels at its own deadline, which passes before ours, because ours begins when the call arrives.
const deadlineSlackMs = 100;
// Encoded, at most 4,500 bytes. grpc-java accepts 8 KiB of headers, and grpc-js closes its connection at about 100 KiB.
const maxDetails = 500;

/**
 * Converts a handler that returns a value or a promise into a grpc-js handler for callers with `scope`. It calls back
 * exactly once, also after an error: an unhandled rejection would hang the call and end the process.
 */
export function unary<Request, Response>(
  scope: Scope,
  { access, gate, observe, reports = false }: UnaryOptions,
  handle: (message: Request, options: CallOptions) => Answer<Response>,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    const { metadata } = call;
    const trailer = new Trailer();
    if (reports) trailer.set(idName, idOf(metadata));
    const report = reports ? callReporter(observe, call.getPath()) : undefined;
    gate.inFlight += 1;
    const settle = (error: { code: status; details: string } | null, response?: Response): void => {
      gate.inFlight -= 1;
      // grpc-js emits `cancelled` at the end of every call, even a successful one. The signal must not abort then.
      call.removeAllListeners('cancelled');
      report?.(metadata, call.cancelled ? errorStatuses[cancelError(call).kind] : (error?.code ?? status.OK));
      callback(error, response, trailer);
    };
    const fail = (caught: unknown): void => {
      const error = DomainError.from(caught, call.cancelled);
      const isTemporary = error.kind === 'overloaded' || error.kind === 'unavailable';
      if (isTemporary) trailer.set(pushbackName, String(error.isFinal ? -1 : pushbackMs));
      settle(toStatus(error, idOf(metadata), keyNames.get(metadata), observe));
    };
    let answer: Answer<Response>;
    try {
      const isOverloaded = gate.maxInFlight > 0 && gate.inFlight > gate.maxInFlight;
      if (isOverloaded) throw new DomainError('overloaded', 'too many requests are under way');
      access.check(scope, text(metadata, 'x-api-key'), (name) => keyNames.set(metadata, name));
      answer = handle(call.request, new UnaryCallOptions(call));
    } catch (caught) {
      return fail(caught);
    }
    if (answer instanceof Promise) answer.then((response) => settle(null, response), fail);
    else settle(null, answer);
  };
}

/** Keeps request ids out of the table of header compression, which HTTP/2 would search one by one for each call. */
class Trailer extends Metadata {
  // grpc-js makes a copy, which would be plain metadata.
  override clone(): this {
    return this;
  }

  override toHttp2Headers(): OutgoingHttpHeaders {
    return { ...super.toHttp2Headers(), [sensitiveHeaders]: [idName] };
  }
}

class UnaryCallOptions implements CallOptions {
  readonly #call: ServerUnaryCall<unknown, unknown>;
  #aborter: AbortController | undefined;

  constructor(call: ServerUnaryCall<unknown, unknown>) {
    this.#call = call;
  }

  get isAborted(): boolean {
    return this.#call.cancelled;
  }

  /** Aborts when the client cancels or the deadline passes. Created on first use, since most calls do not need it. */
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      const aborter = new AbortController();
      this.#aborter = aborter;
      const abort = () => aborter.abort(cancelError(this.#call));
      if (this.#call.cancelled) abort();
      else this.#call.on('cancelled', abort);
    }
    return this.#aborter.signal;
  }
}

/** Whether a cancelled call was ended by its deadline or by its client. */
function cancelError(call: { getDeadline(): unknown }): DomainError {
  return Number(call.getDeadline()) - deadlineSlackMs <= Date.now()
    ? new DomainError('deadline-exceeded', 'the deadline has passed')
    : new DomainError('cancelled', 'the request was cancelled');
}

/** Begins to measure a call of a known method. */
function callReporter(observe: Observe, path: string, longLived = false) {
  const report = reporter(observe, path, path, longLived);
  return (metadata: Metadata, code: status): void => {
    const traceparent = text(metadata, 'traceparent');
    report({ id: idOf(metadata), status: code, traceparent, key: keyNames.get(metadata) });
  };
}

/** Reports every call of a known method exactly once, even if it ends before its handler runs. */
export function reportCalls(observe: Observe): ServerInterceptor {
  return ({ path, responseStream }, call) => {
    const report = callReporter(observe, path, responseStream);
    const { start, sendStatus } = call;
    let metadata = new Metadata();
    let isReported = false;
    const end = (code: status): void => {
      if (!isReported) report(metadata, code);
      isReported = true;
    };
    const startCall: typeof start = (listener) => {
      const unread = metadata;
      start.call(call, {
        ...listener,
        onReceiveMetadata(received) {
          metadata = received;
          listener.onReceiveMetadata(received);
        },
        onCancel() {
          // `onCancel` runs after every call, and an error costs a stack trace.
          if (!isReported) end(errorStatuses[cancelError(call).kind]);
          listener.onCancel();
        },
      });
      // grpc-js does not start a call that its client has reset already.
      if (metadata === unread) end(status.CANCELLED);
    };
    const endCall: typeof sendStatus = (ending) => {
      // Errors of grpc-js and of the health service quote texts of the client.
      if (ending.code !== status.OK) ending.details = ending.details?.slice(0, maxDetails).toWellFormed();
      ending.metadata ??= new Trailer();
      ending.metadata.set(idName, idOf(metadata));
      sendStatus.call(call, ending);
      end(ending.code ?? status.UNKNOWN);
    };
    // Patch the call in place: a wrapper, which only the type requires, would cost more. The functions are constants,
    // because V8 allocates a function expression that is assigned to a property in the old generation, where it would
    // keep its call in memory for long.
    call.start = startCall;
    call.sendStatus = endCall;
    return call as ReturnType<ServerInterceptor>;
  };
}

/** The request id of the client if it is valid; otherwise a new one, which is set in the metadata for later calls. */
function idOf(metadata: Metadata): string {
  const given = text(metadata, idName);
  const id = requestId(given);
  if (id !== given) metadata.set(idName, id);
  return id;
}

/** A metadata value. HTTP/2 has joined repeated values with a comma. */
function text(metadata: Metadata, name: string): string | undefined {
  return metadata.get(name)[0]?.toString();
}
