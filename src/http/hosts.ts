import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { HttpError } from './http-error.ts';

const loopbackNames = ['localhost', '127.0.0.1', '[::1]'];
const authorityPattern = /^https?:\/\/([^/?#]*)/i;

/** Whether only programs on the same machine can reach this address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^(?:::ffff:)?127\./.test(host);
}

/**
 * Makes the check that a request is for a host name of this service; `undefined` if it would allow all.
 *
 * A page of another name that DNS resolves to this machine (DNS rebinding) shares its origin with the
 * service: it could read and change everything. So on a loopback address only the names of the loopback
 * and the allowed ones are served. Elsewhere every name is, unless some are listed; then an IP address
 * is too, since no DNS answer can change what it means, and probes of orchestrators use it.
 */
export function hostCheck(
  allowed: readonly string[],
  listensOn: string | undefined,
): ((message: IncomingMessage) => void) | undefined {
  const loopback = listensOn !== undefined && isLoopback(listensOn);
  if (allowed.includes('*') || (allowed.length === 0 && !loopback)) return undefined;
  const names = new Set([...loopbackNames, ...allowed.map((name) => name.toLowerCase())]);
  if (listensOn !== undefined) names.add(listensOn);
  return ({ headers, url = '' }) => {
    // The authority of an absolute target replaces Host (RFC 9112, 3.2.2).
    const authority = authorityPattern.exec(url)?.[1] ?? headers.host;
    // Only HTTP/1.0 has none, and no browser speaks it.
    if (authority === undefined) return;
    const name = authority.toLowerCase().replace(/\.?(?::\d*)?$/, '');
    if (names.has(name) || (!loopback && isIP(name.replace(/^\[|\]$/g, '')) !== 0)) return;
    throw new HttpError(421, 'this host name is not served; allow it with --allowed-hosts');
  };
}
