import { readdir, readFile, stat } from 'node:fs/promises';
import { platform } from 'node:os';
import type { SecureContextOptions } from 'node:tls';
import { parseKey } from '../domain/access.ts';
import { messageOf } from '../domain/errors.ts';
import type { ServiceOptions } from '../service.ts';
import { UsageError } from './command.ts';
import type { ParsedConfig } from './command-line.ts';

export type Files = Pick<ServiceOptions, 'tls' | 'apiKeys'>;

/**
 * Reads the certificate, its key and the file of API keys, and checks that the public folder can be read.
 * A `UsageError` has every problem.
 */
export async function readFiles({ config, settings }: ParsedConfig): Promise<Files> {
  const problems: string[] = [];
  const attempt = async <T>(
    flag: 'public' | 'tls-cert' | 'tls-key' | 'api-keys-file',
    must: string,
    work: (path: string) => Promise<T>,
  ): Promise<T | undefined> => {
    const path = config[flag];
    if (path === undefined) return undefined;
    return await work(path).catch((error) => {
      const reason = error instanceof Error ? ('code' in error ? error.code : error.message) : error;
      problems.push(`${settings[flag].label} must be ${must}, not ${JSON.stringify(path)} (${reason})`);
      return undefined;
    });
  };

  await attempt('public', 'a folder that can be read', (path) => readdir(path));
  const readPem = (flag: 'tls-cert' | 'tls-key', what: string, part: 'cert' | 'key') =>
    attempt(flag, `${what} in PEM that can be read`, async (path) => {
      const pem = await readFile(path);
      await checkContext({ [part]: pem });
      return pem;
    });
  const cert = await readPem('tls-cert', 'a certificate chain', 'cert');
  const key = await readPem('tls-key', 'a private key', 'key');
  const tls = cert && key && { cert, key };
  if (tls) await attempt('tls-key', 'the key of the certificate', () => checkContext(tls));
  const fileKeys = await attempt('api-keys-file', 'a file of API keys for its owner alone', readKeys);
  if (problems.length > 0) throw new UsageError(...problems);
  const apiKeys = [...config['api-key'], ...(fileKeys ?? [])];
  return tls ? { apiKeys, tls } : { apiKeys };
}

/** One key on each line; empty lines and lines that begin with `#` do not count. */
async function readKeys(path: string): Promise<string[]> {
  const { mode } = await stat(path);
  // Windows has no such modes.
  if (platform() !== 'win32' && (mode & 0o077) !== 0) throw new Error('others have access: chmod 600');
  const lines = (await readFile(path, 'utf8')).split('\n').map((line) => line.trim());
  const keys = lines.filter((line) => line !== '' && !line.startsWith('#'));
  for (const key of keys) {
    try {
      parseKey(key);
    } catch (error) {
      throw new Error(`line ${lines.indexOf(key) + 1}: ${messageOf(error)}`);
    }
  }
  return keys;
}

// Loaded only for a certificate: it takes a tenth of a start.
async function checkContext(options: SecureContextOptions): Promise<void> {
  (await import('node:tls')).createSecureContext(options);
}
