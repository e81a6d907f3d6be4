import { constants, createReadStream, openSync, type ReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import { platform } from 'node:os';
import { type Config, type Flag, type Option, optionRows, options, unmetRequirement } from '../config.ts';
import { parseKey, parseKeys } from '../domain/access.ts';
import { messageOf } from '../domain/errors.ts';
import type { ServiceOptions } from '../service.ts';
import { schemeOf, urlForms } from '../storage/open.ts';
import { type Arguments, type CommandContext, UsageError, withoutPasswords } from './command-line.ts';

interface Setting {
  readonly source: 'flag' | 'environment' | 'default';
  readonly text: string;
  /** The flag, or the variable if its value comes from the environment. */
  readonly label: string;
}

export interface ParsedConfig {
  readonly config: Config;
  readonly settings: Readonly<Record<Flag, Setting>>;
}

type Environment = CommandContext['env'];

/** Reads all options. A flag overrides the environment, and that the default. A `UsageError` lists all problems. */
export function parseConfig(flags: Arguments['flags'], env: Environment): ParsedConfig {
  const problems: string[] = [];
  const settings = perFlag((flag) => findSetting(flag, flags, env));
  const values = perFlag((flag) => readValue(options[flag], settings[flag], problems));
  const config = Object.freeze(values) as Config;
  if (problems.length === 0) problems.push(...contradictions(config));
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  return { config, settings };
}

function perFlag<T>(read: (flag: Flag) => T): Record<Flag, T> {
  return Object.fromEntries(optionRows.map(([flag]) => [flag, read(flag)])) as Record<Flag, T>;
}

/** The URL of `--database`, `DATABASE_URL`, or the default store. */
export function databaseUrl(flags: Arguments['flags'], env: Environment): string {
  const setting = findSetting('database', flags, env);
  checkDatabaseUrl(setting);
  return setting.text;
}

/** Throws a `UsageError` that names the option unless its text is the URL of a store. */
export function checkDatabaseUrl(setting: Omit<Setting, 'source'>): void {
  const problems: string[] = [];
  readValue(options.database, setting, problems);
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
}

/** Whether two URLs are equal or lead to the same file. */
export async function areSameStore(one: string, other: string): Promise<boolean> {
  const [first, second] = await Promise.all(
    [one, other].map(async (url) => {
      const file = schemeOf(url)?.lasting?.file?.(url);
      return file === undefined ? undefined : await stat(file, { bigint: true }).catch(() => undefined);
    }),
  );
  return one === other || (first !== undefined && first.ino === second?.ino && first.dev === second.dev);
}

function findSetting(flag: Flag, flags: Arguments['flags'], env: Environment): Setting {
  const label = `--${flag}`;
  const [given, variable] = [flags[flag], env[variableOf(flag)]];
  if (given !== undefined) return { source: 'flag', text: given, label };
  // Shells and container files often set a variable to the empty text to unset it.
  if (variable) return { source: 'environment', text: variable, label: variableOf(flag) };
  return { source: 'default', text: defaultText(options[flag]), label };
}

function readValue(row: Option, { text, label }: Omit<Setting, 'source'>, problems: string[]): unknown {
  const value = fromText(row, text);
  const requirement = value === undefined ? undefined : unmetRequirement(row, value);
  const shown = withoutPasswords(text);
  // The password of a URL may be where no URL has one, for example if the scheme is missing.
  const safe =
    row.kind === 'URL' && !shown.includes('(hidden)@') ? shown.replace(/^.*@/s, '(hidden)@') : shown;
  const found = row.kind === 'KEYS' ? '' : `, not ${JSON.stringify(safe)}`;
  if (requirement !== undefined) problems.push(`${label} must be ${requirement}${found}`);
  return value;
}

const words = new Map(
  Object.entries({ true: true, yes: true, on: true, 1: true, false: false, no: false, off: false, 0: false }),
);

/** Returns the value of a text; a text that cannot be read is returned unchanged. */
function fromText({ kind, range, orOff, default: preset }: Option, text: string): unknown {
  // An option without a default may be unset.
  if (text === '' && preset === undefined) return undefined;
  if (orOff === true && (text === 'off' || text === 'false')) return false;
  if (range !== undefined) return /^[0-9]+$/.test(text) ? Number(text) : text;
  if (typeof preset === 'boolean') return words.get(text.toLowerCase()) ?? text;
  if (Array.isArray(preset)) return text === '' ? [] : text.split(',').map((item) => item.trim());
  return kind === 'HOST' ? text.replace(/^\[(.*)\]$/, '$1') : text;
}

/** The default of an option as its user would write it; empty for none. */
export function defaultText({ default: value = '' }: Option): string {
  return typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
}

export function variableOf(flag: Flag): string {
  const row: Option = options[flag];
  return row.variable ?? flag.toUpperCase().replaceAll('-', '_');
}

/** Problems between values that are valid separately. */
function contradictions(config: Config): string[] {
  const { auth, database, port, workers, 'api-key': keys } = config;
  const isSet = (flag: Flag) => config[flag] !== undefined;
  const { lasting, hasStandbys } = schemeOf(database) ?? {};
  const found = {
    '--tls-cert and --tls-key must be given together': isSet('tls-cert') !== isSet('tls-key'),
    [`--auth "${auth}" needs --api-key or --api-keys-file`]:
      auth !== 'none' && keys.length === 0 && !isSet('api-keys-file'),
    [`--port and --grpc-port must differ, not both be ${port}`]: port !== 0 && port === config['grpc-port'],
    [`--workers must be 1 with --database ${database}, which processes cannot share`]:
      workers > 1 && !lasting,
    '--read-database needs a postgres: database': isSet('read-database') && !hasStandbys,
  };
  return Object.entries(found).flatMap(([problem, isWrong]) => (isWrong ? [problem] : []));
}

/** What applies to all options, and two parts for each: its flag and its variable in a line, and its meaning below. */
export function optionsHelp(): string {
  const parts = optionRows
    .map(([flag, row]) => {
      const text = defaultText(row);
      const meaning = `${row.meaning}${text && ` [${text}]`}`;
      // Lines of at most 80 columns, the width of many terminals.
      const lines = meaning.replaceAll(/(.{1,74})(?: |$)/g, '      $1\n');
      return `  --${flag} ${row.values?.join('|') ?? row.kind}, $${variableOf(flag)}\n${lines}`;
    })
    .join('');
  return `\
Flags override variables ($NAME), which override defaults [in brackets].
The URL of a store is ${urlForms}.

${parts}`;
}

/** The text of `--print-config`: each value as given or by default, and its source, without secrets. */
export function printConfig({ settings }: ParsedConfig): string {
  return optionRows
    .map(([flag, { kind }]) => {
      const { source, text } = settings[flag];
      const shown = kind === 'KEYS' ? text && '(hidden)' : withoutPasswords(text);
      return `${flag} = ${JSON.stringify(shown)}  # ${source}\n`;
    })
    .join('');
}

export type Files = Pick<ServiceOptions, 'tls'> & { readonly apiKeys: readonly string[] };

/**
 * Reads the certificate, its key and the API keys. Checks the public folder, except for a reload, which does not read
 * it. A `UsageError` lists all problems. Calls `onPipe` before it waits for the writer of a named pipe.
 */
export async function readFiles(
  { config, settings }: ParsedConfig,
  isReload = false,
  onPipe: (path: string) => void = () => undefined,
): Promise<Files> {
  const problems: string[] = [];
  const attempt = async <T>(
    flag: 'public' | 'tls-cert' | 'tls-key' | 'api-keys-file',
    must: string,
    work: (path: string) => Promise<T>,
  ): Promise<T | undefined> => {
    const path = config[flag];
    if (path === undefined) return undefined;
    return await work(path).catch((error) => {
      const reason = Error.isError(error) ? ('code' in error ? error.code : error.message) : error;
      problems.push(`${settings[flag].label} must be ${must}, not ${JSON.stringify(path)} (${reason})`);
      return undefined;
    });
  };

  const read = async (path: string): Promise<Buffer> => {
    // One of several readers would get all of it, and the others nothing.
    if (config.workers > 1 && (await stat(path)).isFIFO()) throw new Error('workers cannot share a pipe');
    const input = await openStream(path);
    if (input === undefined) return await readFile(path);
    if (input instanceof Socket) onPipe(path);
    // A reload that waits for the writer of a pipe must not delay a stop.
    if (input instanceof Socket && isReload) input.unref();
    return Buffer.concat(await input.toArray());
  };
  // With `/.`, this also fails for a folder whose files can be listed, but not opened.
  if (!isReload) await attempt('public', 'a folder that can be read', (path) => readdir(`${path}/.`));
  const readPem = (flag: 'tls-cert' | 'tls-key', what: string, part: 'cert' | 'key') =>
    attempt(flag, `${what} in PEM that can be read`, async (path) => {
      const pem = await read(path);
      // Loaded only for a certificate, because loading takes a tenth of a start.
      (await import('node:tls')).createSecureContext({ [part]: pem });
      return pem;
    });
  const cert = await readPem('tls-cert', 'a certificate chain', 'cert');
  const key = await readPem('tls-key', 'a private key', 'key');
  const tls = cert && key && { cert, key };
  const checkPair = async () => tls && (await import('../service.ts')).checkPair(tls);
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

/** Reads the text of a file with one key on each line. Ignores empty lines and lines that begin with `#`. */
async function readKeys(path: string, text: string, earlier: readonly string[]): Promise<string[]> {
  const { mode, uid } = await stat(path);
  // The group may read a file of root, because Kubernetes and systemd pass secrets this way.
  const others = uid === 0 ? 0o037 : 0o077;
  // Windows has no such modes.
  if (platform() !== 'win32' && (mode & others) !== 0)
    throw new Error('others have access: chmod 600, or defaultMode: 0440 in Kubernetes');
  const lines = text.split('\n').map((line) => line.trim());
  const parsed = [...parseKeys(earlier)];
  return lines.filter((line, index) => {
    if (line === '' || line.startsWith('#')) return false;
    try {
      parsed.push(parseKey(line, parsed));
      return true;
    } catch (error) {
      throw new Error(`line ${index + 1}: ${messageOf(error)}`);
    }
  });
}
