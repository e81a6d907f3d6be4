import type { Headers } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';

const exposed =
  'ETag, Link, Location, X-Total-Count, Preference-Applied, Retry-After, Idempotency-Replayed, X-Request-Id';
const allowedHeaders =
  'Content-Type, If-Match, If-None-Match, Idempotency-Key, Last-Event-ID, Prefer, Range, X-Api-Key, X-Request-Id, Traceparent';
const allowedMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
// The maximum time that Chromium caches a preflight, in seconds.
const preflightMaxAge = '7200';

/** Returns the CORS headers for requests with a listed Origin (`*` lists all); `undefined` if the list is empty. */
export function corsHeaders(
  origins: readonly string[],
): ((request: HttpRequest) => Headers | undefined) | undefined {
  if (origins.length === 0) return undefined;
  const listed = new Set(origins);
  const any = listed.has('*');
  return (request) => {
    const origin = request.header('origin');
    // The response differs by origin, so a cache must not serve it to another origin.
    const vary = any ? undefined : { vary: 'origin' };
    if (origin === undefined || !(any || listed.has(origin))) return vary;
    const headers = { ...vary, 'access-control-allow-origin': any ? '*' : origin };
    if (request.method !== 'OPTIONS' || request.header('access-control-request-method') === undefined) {
      return { ...headers, 'access-control-expose-headers': exposed };
    }
    return {
      ...headers,
      'access-control-allow-methods': allowedMethods,
      'access-control-allow-headers': allowedHeaders,
      'access-control-max-age': preflightMaxAge,
    };
  };
}
