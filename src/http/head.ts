import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { MIMEType } from 'node:util';
import { fatalError, HttpError, noSuchResource } from './reply.ts';

// RFC 3986, 3.2.2 and 3.2.3: an address in brackets or a name, and an optional port.
const hostPattern = /^(?:\[[0-9A-Za-z:.~_-]+\]|[A-Za-z0-9\-._~!$&'()*+,;=%]+)(?::[0-9]*)?$/;

/** Rejects heads that Node's parser accepts, but that are not served here, or that another hop may read differently. */
export function checkHead(message: IncomingMessage, maxHeaders: number): void {
  const { httpVersion, headers, rawHeaders } = message;
  const isOld = httpVersion === '1.0';
  // The parser accepts 0.9, 1.0, 1.1 and 2.0. A request line that ends early counts as 0.9.
  if (!isOld && httpVersion !== '1.1') {
    throw fatalError(httpVersion === '0.9' ? 400 : 505, 'the protocol must be HTTP/1.1');
  }
  // Node would silently drop the excess headers, which may include `x-api-key`.
  if (rawHeaders.length > maxHeaders * 2) throw fatalError(431, `at most ${maxHeaders} headers are allowed`);
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    // Compare the length first: this excludes nearly every header without a lower-case copy.
    if (rawHeaders[i]?.length === 4 && rawHeaders[i]?.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1) throw fatalError(400, 'Host must be given once');
  const { host, 'transfer-encoding': coding } = headers;
  if (host === undefined && !isOld) throw fatalError(400, 'Host is required');
  if (host !== undefined && !hostPattern.test(host)) {
    throw fatalError(400, 'Host must be a host name, with a port or without');
  }
  if (coding !== undefined && isOld) throw fatalError(400, 'Transfer-Encoding is not allowed in HTTP/1.0');
  if (coding !== undefined && String(coding).toLowerCase() !== 'chunked') {
    throw fatalError(501, 'Transfer-Encoding must be chunked');
  }
  // RFC 9110, 10.1.1: ignore an expectation of an HTTP/1.0 client.
  if (headers.expect === undefined || isOld || headers.expect.toLowerCase() === '100-continue') return;
  throw fatalError(417, 'Expect must be 100-continue');
}

export interface Target {
  /** The path below the base path, still percent-encoded; `*` for the asterisk-form. */
  readonly path: string;
  /** The query after the `?`, still encoded. */
  readonly query: string;
}

// Does not match a URL with a user name, which is deprecated and dangerous (RFC 9110, 4.2.4).
const absoluteForm = /^https?:\/\/([^/?#@]+)(?=[/?]|$)/i;

/**
 * Splits a request target (RFC 9112, 3.2). Fails with 400 for a malformed one, and with 404 for one outside `basePath`.
 * `new URL` would throw on `//`, resolve `..` and read a host from `//host/path`, which has caused vulnerabilities.
 */
export function parseTarget(method: string, url: string, basePath: string): Target {
  if (url.includes('#')) throw new HttpError(400, 'the request target must not have a fragment');
  if (url === '*' && method === 'OPTIONS') return { path: '*', query: '' };
  // The authority and Host do not matter here: this service is the same for every name.
  const authority = absoluteForm.exec(url)?.[0] ?? '';
  const mark = url.indexOf('?');
  const given = url.slice(authority.length, mark === -1 ? undefined : mark);
  const path = given === '' && authority !== '' ? '/' : given;
  const query = mark === -1 ? '' : url.slice(mark + 1);
  if (!path.startsWith('/')) throw new HttpError(400, 'the request target must begin with "/"');
  if (path === basePath) return { path: '/', query };
  if (!path.startsWith(`${basePath}/`)) throw noSuchResource();
  return { path: path.slice(basePath.length), query };
}

export type Parameter = readonly [name: string, value: string];

/** Parses the parameters of a query in order, with repetitions. Malformed encoding fails with 400. */
export function parseQuery(query: string): Parameter[] {
  if (query === '') return [];
  // `URLSearchParams` would replace malformed encoding, and ignores a leading question mark.
  decodePercent(query, 'query');
  return [...new URLSearchParams(`?${query}`)];
}

/** The segments of a path. Split first, then decode: an encoded slash is part of its segment, not a separator. */
export function splitPath(path: string): string[] {
  const segments = path.slice(1).split('/');
  return path.includes('%') ? segments.map((segment) => decodePercent(segment, 'path')) : segments;
}

function decodePercent(text: string, part: 'path' | 'query'): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new HttpError(400, `the ${part} has malformed percent-encoding`);
  }
}

// The forms that remain when a URL has normalized the address.
const loopbackPattern = /^(?:(?:.+\.)?localhost\.?|127\.[\d.]+|\[::(?:1|ffff:7f..:.+)\])$/;

/** Whether only the same machine can connect to this address, in any notation. */
export function isLoopback(host: string): boolean {
  return loopbackPattern.test(normalized(host) ?? '');
}

// In a URL an IPv6 address has brackets.
function authorityOf(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** The form of a host that clients send after they have parsed a URL; `undefined` if no URL can have it. */
function normalized(host: string): string | undefined {
  return URL.parse(`http://${authorityOf(host)}`)?.hostname;
}

/**
 * Creates the check that a request is for a host name of this service; `undefined` if all names are allowed. With DNS
 * rebinding, a malicious page has the same origin as the service. So on a loopback address only loopback names and
 * the allowed ones are served; elsewhere every name, or the listed ones and IP addresses, which DNS cannot redirect.
 */
export function hostCheck(
  allowed: readonly string[],
  host: string | undefined,
  address = host,
): ((message: IncomingMessage) => void) | undefined {
  const loopback = address !== undefined && isLoopback(address);
  if (allowed.includes('*') || (allowed.length === 0 && !loopback)) return undefined;
  const names = new Set(['localhost', '127.0.0.1', '[::1]', ...allowed.map((name) => name.toLowerCase())]);
  for (const own of [host, address]) {
    // Some clients, such as curl, send an IPv6 address as their user wrote it.
    if (own !== undefined) names.add(authorityOf(own).toLowerCase()).add(normalized(own) ?? own);
  }
  return ({ headers, url = '' }) => {
    // The authority of an absolute target replaces Host (RFC 9112, 3.2.2).
    const authority = absoluteForm.exec(url)?.[1] ?? headers.host;
    // Only HTTP/1.0 requests have no host, and browsers do not use it.
    if (authority === undefined) return;
    const name = authority.toLowerCase().replace(/\.?(?::\d*)?$/, '');
    if (!names.has(name) && (loopback || isIP(name.replace(/^\[|\]$/g, '')) === 0)) {
      throw new HttpError(421, 'this host name is not served; allow it with --allowed-hosts');
    }
  };
}

// RFC 9110, 5.6.2 (token), 5.6.4 (quoted-string) and 8.3.1 (media-type). `MIMEType` alone ignores malformed parameters.
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const parameter = `${token}=(?:${token}|"(?:[^"\\\\]|\\\\.)*")[ \\t]*`;
const mediaTypePattern = new RegExp(`^${token}/${token}[ \\t]*(?:;[ \\t]*(?:${parameter})?)*$`);

/** Fails with 415, and a header with the accepted types, unless the body is UTF-8 JSON of one of `types`. */
export function checkContentType(contentType = '', types: readonly string[], acceptHeader: string): void {
  // Most clients send exactly this.
  if (types.includes(contentType)) return;
  const type = mediaTypePattern.test(contentType) ? new MIMEType(contentType) : undefined;
  const charset = type?.params.get('charset')?.toLowerCase() ?? 'utf-8';
  if (type === undefined || !types.includes(type.essence) || charset !== 'utf-8') {
    const headers = { [acceptHeader]: types.join(', ') };
    throw new HttpError(415, `Content-Type must be ${types.join(' or ')} in UTF-8`, headers);
  }
}
