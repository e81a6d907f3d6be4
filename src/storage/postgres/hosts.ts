import type { Client } from 'pg';
import { loadCrypto } from '../../domain/access.ts';
import { invalid, messageOf } from '../../domain/errors.ts';
import { checkRange } from '../../domain/range.ts';

export const postgresPattern = /^postgres(ql)?:\/\/./;

/**
 * What the URL of a database must be; `undefined` if it is valid. For other texts, the driver would often use the local
 * server. Part of an unescaped password could be read as the host, and a message would show it. Without a host,
 * `?host=` names the folder of a socket. Only the value of a parameter may contain @.
 */
export function unmetPostgresRequirement(url: string): string | undefined {
  if (!postgresPattern.test(url)) return 'postgres://USER@HOST/NAME';
  const firstHost = url.replace(/^(postgres\w*:\/\/(?:[^/?#]*@)?[^/?#@,]*),[^/?#@]*/, '$1');
  const parsed = URL.parse(firstHost.replace('@/', '@host/'));
  const rest = parsed && `${parsed.pathname}${parsed.search.split('=', 1)}${parsed.hash}`;
  return rest === null || rest.includes('@')
    ? 'a URL with a port up to 65535 and a password with %, @, /, ? and # as %25, %40, %2F, %3F and %23'
    : undefined;
}

export interface Host {
  /** `host:port`. */
  readonly name: string;
  /** A URL for it alone. */
  readonly url: string;
}

export type Hosts = readonly [Host, ...Host[]];

/** The optional package `pg`, loaded only for a database. */
export async function loadDriver(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw new Error('a postgres: database needs the package "pg": run npm install pg', { cause });
  }
}

/**
 * Reads the hosts of a database URL as libpq does: `postgres://USER@h1:5432,h2:5432/NAME`, with
 * `target_session_attrs` as `read-write`, `primary` or `any`. With several hosts the default is `read-write`. With one
 * host it is `any`, so that reads work while the host is a standby.
 */
export function parseHosts(driver: typeof Client, url: string): { hosts: Hosts; writable: boolean } {
  const hosts = hostsOf(driver, url);
  const given = new URLSearchParams(url.split('?')[1]).get('target_session_attrs');
  const target = given ?? (hosts.length > 1 ? 'read-write' : 'any');
  if (!['read-write', 'primary', 'any'].includes(target)) {
    throw invalid('target_session_attrs', 'must be read-write, primary or any');
  }
  return { hosts, writable: target !== 'any' };
}

// In these modes the driver verifies certificates too, but warns that its next major version will not.
const verifiedModes = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=[&#]|$)/;
// The driver takes `system` for a file. Without a file, it uses public certificates. Its last `sslmode` applies.
const systemRoots = /([?&])sslrootcert=system(?=[&#]|$)([^#]*)/;
// The driver ignores others, such as a misspelt `sslmod`, and empty ones, and may then connect without TLS.
const tlsParameters = ['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation'];

/** The hosts of a database URL, in its order. An error begins with `culprit`. */
export function hostsOf(driver: typeof Client, url: string, culprit = 'the database URL'): Hosts {
  const requirement = unmetPostgresRequirement(url);
  if (requirement !== undefined) throw invalid(culprit, `must be ${requirement}`);
  // If the driver finds a space, it also encodes what is encoded already.
  const known = url.replaceAll(' ', '%20').replace(systemRoots, '$1$2&sslmode=verify-full');
  const given = known.includes('uselibpqcompat=') ? known : known.replace(verifiedModes, '$1verify-full');
  const [, head = '', names = '', tail = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s.exec(given) ?? [];
  const [first = '', ...others] = names.split(',').map((name) => head + name + tail);
  const toHost = (connectionString: string): Host => {
    try {
      const client = new driver({ connectionString });
      checkParameters(client, connectionString);
      return { name: `${client.host}:${client.port}`, url: connectionString };
    } catch (caught) {
      // The driver's messages name the wrong part of the URL, but do not quote it: it may contain a password.
      throw invalid(culprit, `cannot be used: ${messageOf(caught)}`);
    }
  };
  return [toHost(first), ...others.map(toHost)];
}

/** Rejects parameters of a URL that the driver accepts, but with which connections fail or are less secure. */
function checkParameters({ port, ssl }: Pick<Client, 'port'> & { ssl: unknown }, url: string): void {
  // With these, the driver would throw where no caller can catch it.
  checkRange('port', port, [0, 65_535]);
  const given = new URLSearchParams(url.split(/[?#]/)[1]);
  const unusable = [...given].find(
    ([name, value]) => /^ssl/i.test(name) && (value === '' || !tlsParameters.includes(name)),
  );
  if (unusable) throw new Error(`${unusable[0]} is unknown or empty; use ${tlsParameters.join(', ')}`);
  if (typeof ssl === 'string') throw new Error('ssl must be true; to turn TLS off, use sslmode=disable');
  if (typeof ssl !== 'object' || ssl === null || !('ca' in ssl)) return;
  try {
    // Node.js ignores a text without a certificate. If it is empty, all public authorities are accepted.
    const { X509Certificate } = loadCrypto();
    new X509Certificate(String(ssl.ca));
  } catch (cause) {
    const file = given.getAll('sslrootcert').at(-1);
    throw new Error(`sslrootcert must be a file with a certificate in PEM, not ${file}`, { cause });
  }
}
