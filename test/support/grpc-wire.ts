import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import type { TestContext } from 'node:test';

export interface WireAnswer {
  /** The HTTP status, 0 when the stream ended without an answer. */
  readonly httpStatus: number;
  /** `grpc-status` and `grpc-message`, wherever they stood. */
  readonly code: number | undefined;
  readonly details: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  /** The bytes after the head of each message. */
  readonly messages: readonly Buffer[];
}

/** A bare HTTP/2 connection, ended with the test; what happens to it is no failure of the test. */
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

/** Sends the bytes of a call as they are and resolves to whatever comes back. */
export async function callWire(
  session: ClientHttp2Session,
  path: string,
  body: Uint8Array,
  headers: OutgoingHttpHeaders = {},
): Promise<WireAnswer> {
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...headers,
  });
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
  // A stream that breaks closes too.
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

/** A message with its head: not compressed, and so many bytes long. */
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
