import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { type Observe, type RequestEvent, requestId } from '../telemetry/events.ts';

export const idName = 'x-request-id';
// How gRPC clients report status 415 of HTTP (UNKNOWN). Importing it would load grpc-js.
const unknown = 2;

/** Begins to measure a call. Returns the function that reports its end. */
export function reporter(observe: Observe, path: string, route: string | undefined, longLived = false) {
  const startedAt = performance.now();
  return (end: Pick<RequestEvent, 'id' | 'status' | 'traceparent' | 'key'>): void => {
    const durationMs = performance.now() - startedAt;
    // The spread comes first, because V8 copies it much faster than at the end.
    observe({ ...end, type: 'request', face: 'grpc', method: 'POST', path, route, longLived, durationMs });
  };
}

/**
 * Reports a request that grpc-js rejects before any interceptor runs, for its method or media type. grpc-js would throw
 * if the client has reset the stream meanwhile. All other responses have a request id, and `reportCalls` reports their
 * calls.
 */
export function reportRejection(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  observe: Observe,
): void {
  const { respond } = stream;
  const path = headers[':path']?.replace(/\?.*/, '') ?? '';
  const report = reporter(observe, path, undefined);
  stream.respond = (head, options) => {
    const response = head as OutgoingHttpHeaders;
    if (options?.endStream && response[idName] === undefined) {
      const id = requestId(headers[idName]);
      response[idName] = id;
      const status = Number(response['grpc-status'] ?? unknown);
      report({ id, status, traceparent: headers['traceparent']?.toString(), key: undefined });
    }
    if (!stream.closed) respond.call(stream, response, options);
  };
}
