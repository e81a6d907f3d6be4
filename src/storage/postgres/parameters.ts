import { X509Certificate } from 'node:crypto';
import type { Client } from 'pg';
import { checkRange } from '../../check-range.ts';
import { type Finding, ok, warn } from '../finding.ts';

/** Rejects parameters of a URL that the driver accepts, but with which connections fail or are less secure. */
export function checkParameters({ port, ssl }: Pick<Client, 'port'> & { ssl: unknown }, url: string): void {
  // With these, the driver would throw where no caller can catch it.
  checkRange('port', port, [0, 65_535]);
  if (typeof ssl === 'string') throw new Error('ssl must be true; to turn TLS off, use sslmode=disable');
  if (typeof ssl !== 'object' || ssl === null || !('ca' in ssl)) return;
  try {
    // Node.js ignores a text without a certificate. If it is empty, all public authorities are accepted.
    new X509Certificate(String(ssl.ca));
  } catch (cause) {
    const file = new URLSearchParams(url.split(/[?#]/)[1]).getAll('sslrootcert').at(-1);
    throw new Error(`sslrootcert must be a file with a certificate in PEM, not ${file}`, { cause });
  }
}

/** Whether the connections of the driver are encrypted, and check the certificate of the server. */
export function examineEncryption({ ssl }: { ssl: unknown }): Finding {
  if (ssl === false) return ok('the connection is not encrypted');
  const text = 'the connection is encrypted';
  return Object(ssl).rejectUnauthorized === false
    ? warn(`${text}, but the certificate of the server is not checked`, 'use sslmode=verify-full')
    : ok(text);
}
