import { DomainError, type ErrorKind, failureSource } from '../domain/errors.ts';
import { type ErrorResponse, type Headers, HttpError, retryAfter } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import type { Observe } from '../telemetry/events.ts';

/** The HTTP status of each kind of failure. A new kind does not compile without its status. */
export const errorStatuses: Readonly<Record<ErrorKind, number>> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  'not-found': 404,
  conflict: 409,
  gone: 410,
  'precondition-failed': 412,
  unprocessable: 422,
  'precondition-required': 428,
  // The code of nginx for a client that closed the connection.
  cancelled: 499,
  internal: 500,
  overloaded: 503,
  unavailable: 503,
  'deadline-exceeded': 504,
};

const errorHeaders: Partial<Record<ErrorKind, Headers>> = {
  unauthenticated: { 'www-authenticate': 'ApiKey realm="users-service"' },
  conflict: retryAfter,
  overloaded: retryAfter,
  unavailable: retryAfter,
};

/** Converts anything that a handler threw into an error response. Causes go to the observer, never to the client. */
export function toErrorResponse(caught: unknown, request: HttpRequest, observe: Observe): ErrorResponse {
  const { id: requestId, keyName: key } = request;
  if (Error.isError(caught) && caught instanceof HttpError) {
    const { status, cause } = caught;
    if (status === 503 && cause !== undefined)
      observe({ type: 'failure', where: 'overload', requestId, key, cause });
    return caught;
  }
  const error = DomainError.from(caught, request.isAborted);
  const where = failureSource(error, 'http');
  if (where !== undefined) observe({ type: 'failure', where, requestId, key, cause: error.cause ?? error });
  // Not an `HttpError`, which would capture another stack trace.
  return {
    status: errorStatuses[error.kind],
    message: error.kind === 'internal' ? 'internal error' : error.message,
    headers: error.isFinal ? undefined : errorHeaders[error.kind],
  };
}
