import type { IncomingMessage } from 'node:http';
import { HttpError } from './http-error.ts';

// RFC 3986, 3.2.2 and 3.2.3: an address in brackets or a name, and perhaps a port.
const hostPattern = /^(?:\[[0-9A-Za-z:.~_-]+\]|[A-Za-z0-9\-._~!$&'()*+,;=%]+)(?::[0-9]*)?$/;

/**
 * Refuses what Node's parser lets through and another hop might read differently: another version, a
 * doubled or empty Host, a doubled Content-Type, a Transfer-Encoding besides `chunked`, chunks in
 * HTTP/1.0, an unknown expectation, more headers than `maxHeaders`. The connection closes with each,
 * since where the next request begins is in doubt.
 */
export function checkFraming(message: IncomingMessage, maxHeaders: number): void {
  const { rawHeaders, httpVersion } = message;
  checkVersion(httpVersion);
  // Node would drop the excess in silence, an `x-api-key` among it perhaps.
  if (rawHeaders.length > maxHeaders * 2) throw refusal(431, `at most ${maxHeaders} headers are taken`);
  let host: string | undefined;
  let contentType: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    // The length first: it rules out nearly every header without a copy in lower case.
    if (name.length === 4 && name.toLowerCase() === 'host') {
      if (host !== undefined) throw refusal(400, 'Host must be given once');
      host = value;
    } else if (name.length === 12 && name.toLowerCase() === 'content-type') {
      if (contentType !== undefined) throw refusal(400, 'Content-Type must be given once');
      contentType = value;
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      checkTransferEncoding(httpVersion, value);
    }
  }
  checkHost(httpVersion, host);
  checkExpect(httpVersion, message.headers.expect);
}

// The parser takes 0.9, 1.0, 1.1 and 2.0; a request line that ends early counts as 0.9.
function checkVersion(httpVersion: string): void {
  if (httpVersion === '1.1' || httpVersion === '1.0') return;
  throw refusal(httpVersion === '0.9' ? 400 : 505, 'the protocol must be HTTP/1.1');
}

function checkHost(httpVersion: string, host: string | undefined): void {
  if (host === undefined) {
    if (httpVersion !== '1.0') throw refusal(400, 'Host is required');
  } else if (!hostPattern.test(host)) {
    throw refusal(400, 'Host must be a host name, with a port or without');
  }
}

function checkTransferEncoding(httpVersion: string, value: string): void {
  if (httpVersion === '1.0') throw refusal(400, 'Transfer-Encoding is not for HTTP/1.0');
  if (value.toLowerCase() !== 'chunked') throw refusal(501, 'Transfer-Encoding must be chunked');
}

// RFC 9110, 10.1.1: from HTTP/1.0 an expectation means nothing.
function checkExpect(httpVersion: string, expect: string | undefined): void {
  if (expect === undefined || httpVersion === '1.0' || expect.toLowerCase() === '100-continue') return;
  throw refusal(417, 'Expect must be 100-continue');
}

function refusal(status: number, message: string): HttpError {
  return new HttpError(status, message, { connection: 'close' });
}
