import type { IncomingMessage } from 'node:http';
import { HttpError } from './http-error.ts';

// RFC 3986, 3.2: what a host and port may consist of.
const hostPattern = /^[A-Za-z0-9\-._~!$&'()*+,;=%:[\]]+$/;

/**
 * Refuses what Node's parser lets through and another hop might read differently: a doubled or empty
 * Host, a Transfer-Encoding besides `chunked`, chunks in HTTP/1.0, more headers than `maxHeaders`.
 * The connection closes with each, since where the next request begins is in doubt.
 */
export function checkFraming(message: IncomingMessage, maxHeaders: number): void {
  const { rawHeaders } = message;
  // Node would drop the excess in silence, an `x-api-key` among it perhaps.
  if (rawHeaders.length > maxHeaders * 2) throw refusal(431, `at most ${maxHeaders} headers are taken`);
  let host: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') {
      if (host !== undefined) throw refusal(400, 'Host must be given once');
      host = rawHeaders[i + 1] ?? '';
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      checkTransferEncoding(message.httpVersion, rawHeaders[i + 1] ?? '');
    }
  }
  if (host === undefined) {
    if (message.httpVersion !== '1.0') throw refusal(400, 'Host is required');
  } else if (!hostPattern.test(host)) throw refusal(400, 'Host must be a host name, with a port or without');
}

function checkTransferEncoding(httpVersion: string, value: string): void {
  if (httpVersion === '1.0') throw refusal(400, 'Transfer-Encoding is not for HTTP/1.0');
  if (value.toLowerCase() !== 'chunked') throw refusal(501, 'Transfer-Encoding must be chunked');
}

function refusal(status: number, message: string): HttpError {
  return new HttpError(status, message, { connection: 'close' });
}
