import { readdir, readFile } from 'node:fs/promises';
import type { SecureContextOptions } from 'node:tls';
import { ConfigError, labelOf, type ParsedConfig } from '../config.ts';

type FileOption = 'public' | 'tls-cert' | 'tls-key';

/** Looks at what options name before anything is opened; fails with a `ConfigError` like their values. */
export async function checkFiles({ config, origins }: ParsedConfig): Promise<void> {
  const problems: string[] = [];
  const attempt = async <T>(name: FileOption, must: string, work: () => T | Promise<T>) => {
    try {
      return config[name] === '' ? undefined : await work();
    } catch (error) {
      const reason = error instanceof Error && 'code' in error ? error.code : error;
      const label = labelOf(name, origins[name]);
      problems.push(`${label} must be ${must}, not ${JSON.stringify(config[name])} (${reason})`);
      return undefined;
    }
  };

  await attempt('public', 'a folder that can be read', () => readdir(config.public));
  const cert = await attempt('tls-cert', 'a certificate chain in PEM that can be read', async () => {
    const read = await readFile(config['tls-cert']);
    await checkContext({ cert: read });
    return read;
  });
  const key = await attempt('tls-key', 'a private key in PEM that can be read', async () => {
    const read = await readFile(config['tls-key']);
    await checkContext({ key: read });
    return read;
  });
  if (cert !== undefined && key !== undefined) {
    await attempt('tls-key', 'the key of the certificate', () => checkContext({ cert, key }));
  }
  if (problems.length > 0) throw new ConfigError(problems);
}

// Loaded for those who have a certificate: it takes a tenth of a start.
async function checkContext(options: SecureContextOptions): Promise<void> {
  (await import('node:tls')).createSecureContext(options);
}
