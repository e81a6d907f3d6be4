import { invalid } from '../../domain/errors.ts';

/** A server, by a URL for it alone. */
export interface Host {
  readonly name: string;
  readonly url: string;
}

export interface Hosts {
  /** A URL for each host, in the order in which they are tried. */
  readonly urls: readonly string[];
  /** Whether a host that takes no writes, such as a standby, is passed over. */
  readonly writable: boolean;
}

/**
 * Reads the hosts of a database URL as libpq does: `postgres://USER@h1:5432,h2:5432/NAME`, with
 * `target_session_attrs` as `read-write`, `primary` or `any`. Among several hosts the default is
 * `read-write`; one host is taken as it is, so that reads work while it is a standby.
 */
export function parseHosts(url: string): Hosts {
  const urls = hostUrls(url);
  const target = new URLSearchParams(url.split('?')[1]).get('target_session_attrs');
  const writable = target === null ? urls.length > 1 : target === 'read-write' || target === 'primary';
  if (!writable && target !== null && target !== 'any') {
    throw invalid('target_session_attrs', 'must be read-write, primary or any');
  }
  return { urls, writable };
}

/** A URL for each standby of a URL; whether each is one is seen when it is read from. */
export function standbyUrls(url: string | undefined): readonly string[] {
  return url === undefined ? [] : hostUrls(url);
}

function hostUrls(url: string): readonly string[] {
  const [, head = '', hosts = '', tail = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s.exec(url) ?? [];
  return hosts.split(',').map((host) => head + host + tail);
}
