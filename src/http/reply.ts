export type Headers = Readonly<Record<string, string>>;

/** Headers of every response: browsers must not guess its type, and pages of other sites must not embed it. */
export const securityHeaders: Headers = Object.freeze({
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
});

/** The result of a handler. Only `send` writes it to a socket. */
export interface Reply {
  readonly status: number;
  readonly headers?: Headers;
  /** A whole body gets a Content-Length. A stream is sent in chunks unless it has a `length`. */
  readonly body?: string | Uint8Array | ByteStream;
}

/** A body that is produced while it is sent, no faster than the client reads it, and not at all for HEAD. */
export interface ByteStream {
  readonly chunks: AsyncIterable<string | Uint8Array>;
  /** Length in bytes, if it is known in advance. */
  readonly length?: number;
  /** Called with each chunk of bytes after it was sent, unless a host may still use it. */
  readonly release?: (chunk: Uint8Array) => void;
}

export function jsonText(status: number, body: string | ByteStream, headers?: Headers): Reply {
  const contentType = 'application/json; charset=utf-8';
  const all = { 'content-type': contentType, 'cache-control': 'private, no-cache', ...headers };
  return { status, headers: all, body };
}

export function json(status: number, value: unknown, headers?: Headers): Reply {
  return jsonText(status, JSON.stringify(value), headers);
}

export function isStream(body: Reply['body']): body is ByteStream {
  return typeof body === 'object' && 'chunks' in body;
}

export interface ErrorResponse {
  readonly status: number;
  /** Written for the client. */
  readonly message: string;
  readonly headers?: Headers | undefined;
}

/** The header of temporary failures, by default of every `HttpError` with 503. */
export const retryAfter: Headers = Object.freeze({ 'retry-after': '1' });

export class HttpError extends Error implements ErrorResponse {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly headers: Headers;

  constructor(status: number, message: string, headers?: Headers, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.headers = headers ?? (status === 503 ? retryAfter : {});
  }
}

/** An error that closes the connection, because the start of the next request is uncertain. */
export function fatalError(status: number, message: string): HttpError {
  return new HttpError(status, message, { connection: 'close' });
}

/** The error for a path that does not exist, for any reason. */
export function noSuchResource(): HttpError {
  return new HttpError(404, 'no such resource');
}
