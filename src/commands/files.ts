import { constants, createReadStream, openSync, type ReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { platform } from 'node:os';
import { parseKey, parseKeys } from '../domain/access.ts';
import { messageOf } from '../domain/errors.ts';
import type { ServiceOptions } from '../service/service.ts';
import { UsageError } from './errors.ts';
import type { ParsedConfig } from './settings.ts';

export type Files = Pick<ServiceOptions, 'tls'> & { readonly apiKeys: readonly string[] };

/**
 * Reads the certificate, its key and the API keys. Checks the public folder, except for a reload, which does not read
 * it. A `UsageError` lists all problems.
 */
export async function readFiles({ config, settings }: ParsedConfig, isReload = false): Promise<Files> {
  const problems: string[] = [];
  const attempt = async <T>(
    flag: 'public' | 'tls-cert' | 'tls-key' | 'api-keys-file',
    rule: string,
    work: (path: string) => Promise<T>,
  ): Promise<T | undefined> => {
    const path = config[flag];
    if (path === undefined) return undefined;
    return await work(path).catch((error) => {
      // The code of a system error is shorter than its message.
      const reason = error.code ?? messageOf(error);
      // Instead of a path, the text may be the content of the file, which is secret.
      const mayBeSecret = /-----BEGIN|[\n=]|\w{32}/.test(path);
      const isContent = reason === 'ENAMETOOLONG' || (reason === 'ENOENT' && mayBeSecret);
      const found = isContent ? 'its content' : JSON.stringify(path);
      problems.push(`${settings[flag].label} must be ${rule}, not ${found} (${reason})`);
      return undefined;
    });
  };
  const read = async (path: string): Promise<Buffer> => {
    // The data of a pipe can be read once, so only one of the workers would get it.
    if (config.workers > 1 && (await stat(path)).isFIFO()) throw new Error('workers cannot share a pipe');
    const input = await openStream(path);
    if (input === undefined) return await readFile(path);
    // A reload that waits for the writer of a pipe must not delay a stop.
    if (input instanceof Socket && isReload) input.unref();
    return Buffer.concat(await input.toArray());
  };
  const readPem = (flag: 'tls-cert' | 'tls-key', what: string, part: 'cert' | 'key') =>
    attempt(flag, `${what} in PEM that can be read`, async (path) => {
      const pem = await read(path);
      // Loaded only for a certificate, because loading takes a tenth of a start.
      (await import('node:tls')).createSecureContext({ [part]: pem });
      return pem;
    });

  // With `/.`, this also fails for a folder whose files can be listed, but not opened.
  if (!isReload) await attempt('public', 'a folder that can be read', (path) => readdir(`${path}/.`));
  const cert = await readPem('tls-cert', 'a certificate chain', 'cert');
  const key = await readPem('tls-key', 'a private key', 'key');
  const tls = cert && key && { cert, key };
  const checkPair = async () => tls && (await import('../service/service.ts')).checkPair(tls);
  await attempt('tls-key', 'the key of the certificate', checkPair);
  const fileKeys = await attempt(
    'api-keys-file',
    'a file of API keys that other users may not read',
    async (path) => readKeys(path, String(await read(path)), config['api-key']),
  );
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  const apiKeys = [...config['api-key'], ...(fileKeys ?? [])];
  return tls ? { apiKeys, tls } : { apiKeys };
}

/** Opens a pipe or device, which can be read only once; `undefined` for a regular file. */
export async function openStream(path: string): Promise<Socket | ReadStream | undefined> {
  const stats = await stat(path);
  if (stats.isFile()) return undefined;
  // The error of a read, such as that of a folder, has no path.
  if (!stats.isFIFO()) return createReadStream(path).on('error', (error) => Object.assign(error, { path }));
  // The process could not exit while a thread waits for a writer or for data, so nothing here may block.
  return new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK) });
}

/**
 * The keys in the text of a file, one on each line. Ignores empty lines and lines that begin with `#`. Rejects a secret
 * that is given twice, in the file or among the `others`.
 */
async function readKeys(path: string, text: string, others: readonly string[]): Promise<string[]> {
  const { mode, uid } = await stat(path);
  // The group may read a file of root, because Kubernetes and systemd pass secrets this way.
  const forbidden = uid === 0 ? 0o037 : 0o077;
  // Windows has no such modes.
  if (platform() !== 'win32' && (mode & forbidden) !== 0)
    throw new Error('others have access: chmod 600, or defaultMode: 0440 in Kubernetes');
  const lines = text.split('\n').map((line) => line.trim());
  const digests = new Set<string>();
  parseKeys(others, digests);
  return lines.filter((line, index) => {
    if (line === '' || line.startsWith('#')) return false;
    try {
      parseKey(line, digests);
      return true;
    } catch (error) {
      throw new Error(`line ${index + 1}: ${messageOf(error)}`);
    }
  });
}
