import { readdir, readFile } from 'node:fs/promises';
import type { SecureContextOptions } from 'node:tls';
import type { ServiceOptions } from '../service.ts';
import { UsageError } from './command.ts';
import type { ParsedConfig } from './command-line.ts';

/**
 * Reads the certificate and its key, and looks whether the public folder can be read, before anything is
 * opened. A `UsageError` has every problem.
 */
export async function readFiles({ config, settings }: ParsedConfig): Promise<Pick<ServiceOptions, 'tls'>> {
  const problems: string[] = [];
  const attempt = async <T>(
    flag: 'public' | 'tls-cert' | 'tls-key',
    must: string,
    work: (path: string) => Promise<T>,
  ): Promise<T | undefined> => {
    const path = config[flag];
    if (path === undefined) return undefined;
    return await work(path).catch((error) => {
      const reason = error instanceof Error && 'code' in error ? error.code : error;
      problems.push(`${settings[flag].label} must be ${must}, not ${JSON.stringify(path)} (${reason})`);
      return undefined;
    });
  };

  await attempt('public', 'a folder that can be read', (path) => readdir(path));
  const cert = await attempt('tls-cert', 'a certificate chain in PEM that can be read', async (path) => {
    const read = await readFile(path);
    await checkContext({ cert: read });
    return read;
  });
  const key = await attempt('tls-key', 'a private key in PEM that can be read', async (path) => {
    const read = await readFile(path);
    await checkContext({ key: read });
    return read;
  });
  const tls = cert && key && { cert, key };
  if (tls) await attempt('tls-key', 'the key of the certificate', () => checkContext(tls));
  if (problems.length > 0) throw new UsageError(...problems);
  return tls ? { tls } : {};
}

// Loaded only for a certificate: it takes a tenth of a start.
async function checkContext(options: SecureContextOptions): Promise<void> {
  (await import('node:tls')).createSecureContext(options);
}
