import { type Channel, channel } from 'node:diagnostics_channel';

/** The events that the service reports. The union is closed: logs, metrics and traces are derived from these events. */
export type ServiceEvent =
  | ListeningEvent
  | RequestEvent
  | RefusedEvent
  | FailureEvent
  /** The SQLite file was missing, so the store is new and empty. */
  | { readonly type: 'created'; readonly path: string }
  /** The service works, but its operator should change something. */
  | { readonly type: 'warning'; readonly message: string }
  /** The certificate and the API keys have been read again; with several workers, all workers were replaced. */
  | { readonly type: 'reloaded' }
  | { readonly type: 'draining' }
  | { readonly type: 'closed' };

export interface ListeningEvent {
  readonly type: 'listening';
  /** Base address of the HTTP API, such as `http://127.0.0.1:3000`. */
  readonly http: string;
  /** `host:port` of the gRPC API, unless it is off. */
  readonly grpc?: string;
  /** How many files of the public folder are served; absent for several workers together. */
  readonly files?: number;
}

/** The addresses that a service listens on. */
export type Addresses = Pick<ListeningEvent, 'http' | 'grpc'>;

/** A request or call has ended. */
export interface RequestEvent {
  readonly type: 'request';
  readonly face: 'http' | 'grpc';
  readonly id: string;
  /** The HTTP method; `POST` for gRPC. */
  readonly method: string;
  /** The route's pattern or the RPC's path; absent when none matched. */
  readonly route: string | undefined;
  /** The path without the query, which may contain names of users. */
  readonly path: string;
  /**
   * The HTTP status or the status code of gRPC. For a reply that failed after its head, the status of the error; for a
   * connection that closed before the end of the response, 499.
   */
  readonly status: number;
  readonly durationMs: number;
  /** Whether the response was an endless stream, of `/changes` or a gRPC method. Its duration is not a latency. */
  readonly longLived: boolean;
  /** The W3C trace context that the client sent. */
  readonly traceparent: string | undefined;
  /** The name of the API key; absent when none was required or valid, or when it has no name. */
  readonly key: string | undefined;
}

/**
 * A connection or malformed bytes were rejected before they became a request, a slow client was cut to free memory, or
 * a gRPC call exceeded a limit on memory. That call, or a running request of that client, also has a `RequestEvent`.
 */
export interface RefusedEvent {
  readonly type: 'refused';
  readonly face: 'http' | 'grpc';
  readonly status: number;
  readonly reason: string;
}

/** A failure inside the service. Its cause is for operators and never reaches a client. */
export interface FailureEvent {
  readonly type: 'failure';
  /** `overload`: too many requests, followers, waiting writes or open files. Metrics do not count it as a failure. */
  readonly where: 'http' | 'grpc' | 'store' | 'process' | 'overload';
  readonly requestId?: string;
  /** The name of the API key of the request. */
  readonly key?: string | undefined;
  readonly cause: unknown;
}

/** Receives every event as it happens. It should return quickly. */
export type Observe = (event: ServiceEvent) => void;

const channels: Partial<Record<ServiceEvent['type'], Channel>> = {};

/**
 * One observer that passes each event to `count`, to `observe` and, for tools that cannot pass an observer, to the
 * diagnostics channel `users-service:TYPE`. If `observe` throws or rejects, the others receive a failure event.
 */
export function fanOut(observe: Observe = () => undefined, count?: Observe): Observe {
  if (typeof observe !== 'function') throw new TypeError('observe must be a function');
  const publish = (event: ServiceEvent): void => {
    count?.(event);
    channels[event.type] ??= channel(`users-service:${event.type}`);
    channels[event.type]?.publish(event);
  };
  const fail = (cause: unknown): void => publish({ type: 'failure', where: 'process', cause });
  return (event) => {
    publish(event);
    try {
      const result: unknown = observe(event);
      if (result instanceof Object && 'then' in result) Promise.resolve(result).catch(fail);
    } catch (cause) {
      fail(cause);
    }
  };
}

const validId = /^[\w.-]{1,64}$/;
// The random prefix identifies the process, and the counter identifies a request of that process. Ids are not secret,
// so `Math.random` is enough, and the service starts faster without `node:crypto`.
const processPrefix = Math.random().toString(36).slice(2) + Math.random().toString(36).slice(2);
let createdIds = 0;

/** The request id that the client sent if it is valid, else a new one. */
export function requestId(given: unknown): string {
  if (typeof given === 'string' && validId.test(given)) return given;
  createdIds += 1;
  return `${processPrefix}-${createdIds.toString(36)}`;
}
