import type { Headers } from './reply.ts';

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
