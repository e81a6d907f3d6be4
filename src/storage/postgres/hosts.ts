import { setTimeout as delay } from 'node:timers/promises';
import { invalid } from '../../domain/errors.ts';
import { messageOf } from './errors.ts';

// Servers that are taking over should not be kept busy by the connections of all who wait for them.
const askAgainMs = 200;

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

/**
 * Resolves to the first host that passes. All are asked at once, so that one that hangs delays no other, and
 * asked again until each has answered. The error names each host with its reason.
 */
export function findHost(hosts: readonly Host[], probe: (host: Host) => Promise<void>): Promise<Host> {
  const failures = new Map<Host, unknown>();
  const { promise, resolve, reject } = Promise.withResolvers<Host>();
  let isOver = false;
  const ask = async (host: Host): Promise<void> => {
    while (!isOver) {
      await probe(host).then(
        () => resolve(host),
        (cause: unknown) => failures.set(host, cause),
      );
      if (failures.size === hosts.length) {
        reject(new Error(hosts.map((one) => `${one.name}: ${messageOf(failures.get(one))}`).join('; ')));
      }
      await delay(askAgainMs);
    }
  };
  for (const host of hosts) ask(host);
  return promise.finally(() => {
    isOver = true;
  });
}
