export type Headers = Readonly<Record<string, string>>;

/**
 * Sent with every response: browsers must not guess its type, and pages of other sites must not embed it.
 */
export const securityHeaders: Headers = Object.freeze({
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
});

/** What a handler answers; only the server writes it to a socket. */
export interface Reply {
  readonly status: number;
  readonly headers?: Headers;
  /** A whole body gets a Content-Length; a stream is sent in chunks unless its length is given. */
  readonly body?: string | Uint8Array | ByteStream;
}

/** A body that is produced while it is sent: no faster than the client takes it. */
export interface ByteStream {
  readonly chunks: AsyncIterable<string | Uint8Array>;
  /** In bytes, when known beforehand. */
  readonly length?: number;
  /** Memory it holds until its end, of which the chunks are parts; by default a chunk at a time. */
  readonly heldBytes?: number;
  /** Called when a chunk has left, and its memory can be used again. */
  readonly release?: (chunk: string | Uint8Array) => void;
}

const jsonType = 'application/json; charset=utf-8';

/** A JSON reply from text that is JSON already. */
export function jsonText(status: number, body: string | ByteStream, headers?: Headers): Reply {
  return { status, headers: { 'content-type': jsonType, 'cache-control': 'no-cache', ...headers }, body };
}

export function json(status: number, value: unknown, headers?: Headers): Reply {
  return jsonText(status, JSON.stringify(value), headers);
}

export function isStream(body: Reply['body']): body is ByteStream {
  return typeof body === 'object' && 'chunks' in body;
}

/** A failure that already knows its answer: the status, a message for the client, extra headers. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly headers: Headers;

  constructor(status: number, message: string, headers: Headers = {}, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.headers = headers;
  }
}

/** The one answer to a path that leads nowhere, whatever the reason. */
export function noSuchResource(cause?: unknown): HttpError {
  return new HttpError(404, 'no such resource', {}, { cause });
}
