/** Something the service reports. Closed: a log, a metric or a trace is a function of these. */
export type ServiceEvent =
  | ListeningEvent
  | RequestEvent
  | RefusedEvent
  | FailureEvent
  /** What can change while running has been read again: the certificate, or all of it by new workers. */
  | { readonly type: 'reloaded' }
  | { readonly type: 'draining' }
  | { readonly type: 'closed' };

export interface ListeningEvent {
  readonly type: 'listening';
  /** Base addresses, such as `http://127.0.0.1:3000` and `127.0.0.1:50051`. */
  readonly http: string;
  readonly grpc?: string;
}

/** A request has ended, on either face. */
export interface RequestEvent {
  readonly type: 'request';
  readonly face: 'http' | 'grpc';
  readonly id: string;
  /** The HTTP method; `POST` for gRPC. */
  readonly method: string;
  /** The route's pattern or the RPC's name; absent when none matched. */
  readonly route: string | undefined;
  readonly path: string;
  /** The HTTP status, 499 when the client left first; on gRPC the status code. */
  readonly status: number;
  readonly durationMs: number;
  /** The W3C trace context the client sent. */
  readonly traceparent: string | undefined;
}

/** Something was turned away before it became a request: a malformed head, one connection too many. */
export interface RefusedEvent {
  readonly type: 'refused';
  readonly face: 'http' | 'grpc';
  readonly status: number;
  readonly reason: string;
}

/** A failure that is nobody's request's fault; its cause must not reach a client. */
export interface FailureEvent {
  readonly type: 'failure';
  readonly where: 'http' | 'grpc' | 'store' | 'process';
  readonly requestId?: string;
  readonly cause: unknown;
}

/** Receives every event, as it happens. It must not throw and should not take long. */
export type Observe = (event: ServiceEvent) => void;
