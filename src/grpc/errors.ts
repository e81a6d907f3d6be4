import { status } from '@grpc/grpc-js';
import { type DomainError, type ErrorKind, failureSource } from '../domain/errors.ts';
import type { Observe } from '../telemetry/events.ts';

/** The gRPC status of each kind of failure. A new kind does not compile without its status. */
export const errorStatuses: Readonly<Record<ErrorKind, status>> = {
  invalid: status.INVALID_ARGUMENT,
  unauthenticated: status.UNAUTHENTICATED,
  forbidden: status.PERMISSION_DENIED,
  'not-found': status.NOT_FOUND,
  conflict: status.ABORTED,
  gone: status.OUT_OF_RANGE,
  'precondition-failed': status.FAILED_PRECONDITION,
  unprocessable: status.INVALID_ARGUMENT,
  'precondition-required': status.FAILED_PRECONDITION,
  cancelled: status.CANCELLED,
  internal: status.INTERNAL,
  overloaded: status.RESOURCE_EXHAUSTED,
  unavailable: status.UNAVAILABLE,
  'deadline-exceeded': status.DEADLINE_EXCEEDED,
};

/** Converts an error into a status. Causes go to the observer, never to the client. */
export function toStatus(error: DomainError, requestId: string, key: string | undefined, observe: Observe) {
  const where = failureSource(error, 'grpc');
  if (where !== undefined) observe({ type: 'failure', where, requestId, key, cause: error.cause ?? error });
  // For half a character, grpc-js would throw, which would end the process.
  const details = error.kind === 'internal' ? 'internal error' : error.message.toWellFormed();
  return { code: errorStatuses[error.kind], details };
}
