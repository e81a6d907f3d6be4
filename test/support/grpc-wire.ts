import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
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

/** A connection that opens HTTP/2 and then sends only the frames that its test writes. */
export async function connectFrames(t: Pick<TestContext, 'after'>, address: string): Promise<Socket> {
  const socket = connectSocket(Number(address.split(':')[1]), '127.0.0.1').on('error', () => undefined);
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  socket.resume().write(Buffer.concat([preface, frame(4, 0, 0, Buffer.alloc(0))]));
  return socket;
}

/** Resolves when the server has read all frames of a connection. */
export async function roundTrip(socket: Socket): Promise<void> {
  const payload = Buffer.alloc(8, 'ping');
  const answer = frame(6, 1, 0, payload);
  let received = Buffer.alloc(0);
  socket.write(frame(6, 0, 0, payload));
  while (!received.includes(answer)) received = Buffer.concat([received, ...(await once(socket, 'data'))]);
}

/** The frame that opens a call. */
export function headersFrame(stream: number, path: string): Buffer {
  const fields = [
    // `:method: POST` and `:scheme: http` of the static table.
    Buffer.of(0x83, 0x86),
    header(':path', path),
    header(':authority', 'localhost'),
    header('content-type', 'application/grpc'),
    header('te', 'trailers'),
  ];
  return frame(1, 4, stream, Buffer.concat(fields));
}

/** A frame with bytes of a call, which does not end it. */
export function dataFrame(stream: number, bytes: Uint8Array): Buffer {
  return frame(0, 0, stream, bytes);
}

/** The frame with which a client cancels a call. Without an end of the stream before it, unlike the client of Node.js. */
export function resetFrame(stream: number, code: number = constants.NGHTTP2_CANCEL): Buffer {
  return frame(3, 0, stream, Buffer.of(0, 0, 0, code));
}

/** A frame of HTTP/2 (RFC 9113, 4.1). */
function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A header of HPACK without index and Huffman code (RFC 7541, 6.2.2). */
function header(name: string, value: string): Buffer {
  const [key, text] = [Buffer.from(name), Buffer.from(value)];
  return Buffer.concat([Buffer.of(0, key.length), key, Buffer.of(text.length), text]);
}

export function split(bytes: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    messages.push(bytes.subarray(at + 5, end));
    at = end;
  }
  return messages;
}
