import { STATUS_CODES } from 'node:http';
import type { HttpError } from './http-error.ts';
import type { Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

const problemType = 'application/problem+json';

/**
 * The one shape of every failure: `{"error": message}`, or the same text as RFC 9457 for a client
 * that asks for `application/problem+json`.
 */
export function errorReply(error: HttpError, request?: HttpRequest): Reply {
  const { status, message } = error;
  const wantsProblem = request?.header('accept')?.toLowerCase().includes(problemType) === true;
  const body = wantsProblem
    ? { title: STATUS_CODES[status], status, detail: message, instance: `urn:request:${request.id}` }
    : { error: message };
  return {
    status,
    headers: {
      'content-type': wantsProblem ? problemType : 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      ...error.headers,
    },
    body: JSON.stringify(body),
  };
}
