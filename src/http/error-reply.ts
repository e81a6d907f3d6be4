import { parseWeights } from './conditional.ts';
import type { HttpError } from './http-error.ts';
import { http } from './node-http.ts';
import type { Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

const problemType = 'application/problem+json';

/**
 * The one shape of every failure: `{"error": message}`, or the same text as RFC 9457 for a client
 * that asks for `application/problem+json`.
 */
export function errorReply(error: HttpError, request?: HttpRequest) {
  const { status, message } = error;
  const wantsProblem = request !== undefined && prefersProblem(request.header('accept'));
  const body = wantsProblem
    ? { title: http.STATUS_CODES[status], status, detail: message, instance: `urn:request:${request.id}` }
    : { error: message };
  return {
    status,
    headers: {
      'content-type': wantsProblem ? problemType : 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      ...error.headers,
    },
    body: JSON.stringify(body),
  } satisfies Reply;
}

// Only who names the type asks for it: a wildcard is no sign that a client knows it.
function prefersProblem(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const weights = parseWeights(accept);
  const problem = weights.get(problemType) ?? 0;
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0;
  return problem > 0 && problem >= json;
}
