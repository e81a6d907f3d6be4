import type { IncomingMessage } from 'node:http';
import { duplexPair, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers';
import { http } from '../http/node-http.ts';
import { type ParserError, refuseUnparsed } from '../http/refusals.ts';
import type { RequestListenerOptions } from '../rest/app.ts';
import { fanOut } from '../telemetry/events.ts';
import { createRequestListener } from './request-listener.ts';

/** Returns the response to a request. Fails with the reason of its signal or the error of its body. */
export type FetchHandler = (request: Request) => Promise<Response>;

// Headers of the host's own connection (RFC 9110, 7.6.1), and the length of the body, which Node sets again.
// biome-ignore format: one line for each name is longer to read.
const ofConnection = [
  'connection', 'content-length', 'expect', 'keep-alive', 'trailer', 'transfer-encoding', 'upgrade',
];
// Statuses without a body (RFC 9110, 6.4.1), for which `Response` rejects one.
const withoutBody = [204, 205, 304];
// How long to read the rest of a body after the response.
const lingerMs = 1_000;

/**
 * The HTTP API for hosts that pass a `Request` and expect a `Response`. Each request uses a connection in memory, with
 * the same limits and headers as on a port. Throws like `createRequestListener`.
 */
export function createFetchHandler(options: RequestListenerOptions): FetchHandler {
  // This server never listens. It receives its connections from the handler.
  const server = http.createServer(createRequestListener(options));
  const observe = fanOut(options.observe);
  server.on('clientError', (error: ParserError, socket) => refuseUnparsed(error, socket, observe));
  return async (request) => {
    if (request.bodyUsed) throw new TypeError('the body of the request was already read');
    const [near, far] = duplexPair();
    // The end of one side ends the other: after a reply is aborted, or after the client disconnects.
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());

    const { method, signal } = request;
    const reader = request.body?.getReader();
    const { host, pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    for (const name of ofConnection) headers.delete(name);
    if (!headers.has('host')) headers.set('host', host);
    if (reader !== undefined) headers.set('transfer-encoding', 'chunked');

    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    // Not `http.request`: tracing of the host would replace `traceparent`, and a proxy tool the connection.
    const outgoing = new http.ClientRequest({
      createConnection: () => near,
      method,
      path: pathname + search,
      headers: Object.fromEntries(headers),
      signal,
    });
    // Not earlier: `ClientRequest` throws for a header with a control character.
    server.emit('connection', far);
    outgoing.on('response', (incoming) => resolve(toResponse(incoming, method, signal)));
    // Like `fetch`, fail with the reason of the signal.
    const fail = (error: unknown) => reject(signal.aborted ? signal.reason : error);
    // If the body fails, the request fails too. The error of the body then comes first.
    outgoing.on('error', (error) => setImmediate(fail, error));
    if (reader === undefined) outgoing.end();
    else {
      // The response to the head, such as 401, may come before the first bytes of the body.
      outgoing.flushHeaders();
      // A stream can fail without a reason, which `pipeline` takes for success.
      const failIfUnsent = () => outgoing.writableEnded || fail(new Error('the body of the request failed'));
      outgoing.on('close', () => discard(reader).catch(() => undefined));
      const chunks = async function* () {
        for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
      };
      pipeline(chunks, outgoing).then(failIfUnsent, fail);
    }
    return await promise;
  };
}

/**
 * Reads the rest of a body for a while, and then cancels it. Some hosts close the connection when a body is cancelled,
 * so their clients would not receive a response that comes before its end. A body is never cancelled during a read: if
 * one that undici has made of an async iterable then ends, undici throws an uncaught exception.
 */
async function discard(reader: ReadableStreamDefaultReader): Promise<void> {
  const deadline = performance.now() + lingerMs;
  // A body whose chunks are all there must not block the event loop.
  while (performance.now() < deadline && !(await reader.read()).done)
    await new Promise((resolve) => setImmediate(resolve));
  await reader.cancel();
}

function toResponse(incoming: IncomingMessage, method: string, signal: AbortSignal): Response {
  const { rawHeaders, statusCode: status = 500 } = incoming;
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '');
  for (const name of ofConnection) if (name !== 'content-length') headers.delete(name);
  if (method !== 'HEAD' && !withoutBody.includes(status)) {
    const abort = () => void incoming.destroy(signal.reason);
    signal.addEventListener('abort', abort);
    // A host may use its `Request` again.
    incoming.on('close', () => signal.removeEventListener('abort', abort));
    return new Response(Readable.toWeb(incoming), { status, headers });
  }
  incoming.resume();
  return new Response(null, { status, headers });
}
