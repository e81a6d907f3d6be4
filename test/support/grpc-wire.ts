import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import type { TestContext } from 'node:test';

export interface WireAnswer {
  /** The HTTP status, or 0 if the stream ended without a response. */
  readonly httpStatus: number;
  /** `grpc-status` and `grpc-message` from the headers or the trailers. */
  readonly code: number | undefined;
  readonly details: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  /** The bytes of each message, without its header. */
  readonly messages: readonly Buffer[];
}

/** A plain HTTP/2 connection that is closed after the test. Its errors do not fail the test. */
export async function connectWire(
  t: Pick<TestContext, 'after'>,
  address: string,
): Promise<ClientHttp2Session> {
  const session = connect(`http://${address}`);
  session.on('error', () => undefined);
  t.after(() => session.destroy());
  await once(session, 'connect');
  return session;
}

/** Opens a call, of which only the headers are sent. */
export function openCall(
  session: ClientHttp2Session,
  path: string,
  headers: OutgoingHttpHeaders = {},
): ClientHttp2Stream {
  return session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
}

/** Sends the bytes of a call unchanged, and resolves to the response. */
export async function callWire(
  session: ClientHttp2Session,
  path: string,
  body: Uint8Array,
  headers: OutgoingHttpHeaders = {},
): Promise<WireAnswer> {
  const stream = openCall(session, path, headers);
  let head: IncomingHttpHeaders = {};
  let trailers: IncomingHttpHeaders = {};
  const chunks: Buffer[] = [];
  stream.on('response', (received) => {
    head = received;
  });
  stream.on('trailers', (received) => {
    trailers = received;
  });
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  const closed = Promise.withResolvers<void>();
  // A stream with an error emits close too.
  stream.on('error', () => undefined).on('close', () => closed.resolve());
  stream.end(body);
  await closed.promise;
  const all = { ...head, ...trailers };
  const code = all['grpc-status'];
  return {
    httpStatus: Number(head[':status'] ?? 0),
    code: code === undefined ? undefined : Number(code),
    details: all['grpc-message'] === undefined ? undefined : decodeURIComponent(String(all['grpc-message'])),
    headers: head,
    trailers,
    messages: split(Buffer.concat(chunks)),
  };
}

/** A message with its header, which by default has the real length and no compression. */
export function framed(bytes: Uint8Array, flag = 0, length = bytes.length): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flag);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

function split(bytes: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    messages.push(bytes.subarray(at + 5, end));
    at = end;
  }
  return messages;
}
