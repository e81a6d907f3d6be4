import { parseArgs } from 'node:util';
import { type Config, type Flag, mustBe, type Option, optionRows, options } from '../config.ts';
import { schemeOf } from '../storage/open.ts';
import { type CommandContext, UsageError, withoutPasswords } from './command.ts';

/** How the help writes a value. */
const placeholders: Readonly<Record<Option['kind'], string>> = {
  count: 'N',
  bytes: 'BYTES',
  milliseconds: 'MS',
  port: 'PORT',
  'optional port': 'PORT',
  'optional count': 'N',
  host: 'HOST',
  database: 'URL',
  standbys: 'URL',
  path: 'PATH',
  choice: '',
  toggle: 'on|off',
  keys: 'KEYS',
  origins: 'ORIGINS',
  'host names': 'NAMES',
};

export interface Arguments {
  /** The text of each flag that was given; empty for a switch. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
}

/** Reads `--flag VALUE`, `--flag=VALUE`, switches without a value, and up to `most` positional arguments. */
export function readArguments(
  args: readonly string[],
  flags: readonly string[],
  { switches = [], positionals: most = 0 }: { switches?: readonly string[]; positionals?: number } = {},
): Arguments {
  const kinds = Object.fromEntries([
    ...flags.map((flag) => [flag, { type: 'string' as const, multiple: true as const }] as const),
    ...switches.map((flag) => [flag, { type: 'boolean' as const }] as const),
  ]);
  const { values, positionals, tokens } = parse(args.map(withToggleValue), kinds);
  const extra = tokens.filter(({ kind }) => kind === 'positional')[most];
  // Not the argument itself: it may be the rest of a key that was written with a blank in it.
  if (extra !== undefined) {
    throw new UsageError(`argument ${extra.index + 1} belongs to no option; --help lists all options`);
  }
  const texts = Object.entries(values).map(([flag, given]) => {
    if (!Array.isArray(given)) return [flag, ''];
    if (given.length > 1) throw new UsageError(`--${flag} must be given once`);
    return [flag, given[0]];
  });
  return { flags: Object.fromEntries(texts), positionals };
}

function parse(args: readonly string[], kinds: Record<string, { type: 'string' | 'boolean' }>) {
  try {
    return parseArgs({ args: [...args], options: kinds, allowPositionals: true, tokens: true });
  } catch (error) {
    const [, flag] = /'([^' ]+)/.exec(error instanceof Error ? error.message : '') ?? [];
    if (!(error instanceof TypeError && 'code' in error) || flag === undefined) throw error;
    throw new UsageError(
      error.code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION'
        ? `${flag} is not an option; --help lists all options`
        : `${flag} must have a value; one that begins with a dash is written ${flag}=VALUE`,
    );
  }
}

/** A toggle may be given without its value, which then is true. */
function withToggleValue(arg: string, at: number, args: readonly string[]): string {
  const next = args[at + 1];
  const isBare = next === undefined || next.startsWith('-');
  return isBare && optionRows.some(([flag, { kind }]) => kind === 'toggle' && arg === `--${flag}`)
    ? `${arg}=true`
    : arg;
}

interface Setting {
  readonly source: 'flag' | 'environment' | 'default';
  readonly text: string;
  /** The option as its user wrote it. */
  readonly label: string;
}

export interface ParsedConfig {
  readonly config: Config;
  readonly settings: Readonly<Record<Flag, Setting>>;
}

type Environment = CommandContext['env'];

/** The values of all options: flags over environment over defaults. A `UsageError` has every problem. */
export function parseConfig({ flags }: Arguments, env: Environment): ParsedConfig {
  const problems: string[] = [];
  const settings: Partial<Record<Flag, Setting>> = {};
  const values: Partial<Record<Flag, unknown>> = {};
  for (const [flag, row] of optionRows) {
    const setting = findSetting(flag, flags, env);
    settings[flag] = setting;
    values[flag] = readValue(row, setting, problems);
  }
  const config = Object.freeze(values) as Config;
  if (problems.length === 0) problems.push(...contradictions(config));
  if (problems.length > 0) throw new UsageError(...problems);
  return { config, settings: settings as ParsedConfig['settings'] };
}

/** The URL of `--database`, `DATABASE_URL`, or the default store. */
export function databaseUrl({ flags }: Arguments, env: Environment): string {
  const setting = findSetting('database', flags, env);
  checkDatabaseUrl(setting);
  return setting.text;
}

/** Throws a `UsageError` that names the option unless its text is the URL of a store. */
export function checkDatabaseUrl(setting: Omit<Setting, 'source'>): void {
  const problems: string[] = [];
  readValue(options.database, setting, problems);
  if (problems.length > 0) throw new UsageError(...problems);
}

function findSetting(flag: Flag, flags: Arguments['flags'], env: Environment): Setting {
  const label = `--${flag}`;
  const [given, variable] = [flags[flag], env[variableOf(flag)]];
  if (given !== undefined) return { source: 'flag', text: given, label };
  // An empty variable is how a shell or a container file says "not set".
  if (variable) return { source: 'environment', text: variable, label: variableOf(flag) };
  return { source: 'default', text: defaultText(options[flag]), label };
}

function readValue(row: Option, { text, label }: Omit<Setting, 'source'>, problems: string[]): unknown {
  const value = fromText(row.kind, text);
  const must = value === undefined ? undefined : mustBe(row, value);
  const not = row.kind === 'keys' ? '' : `, not ${JSON.stringify(withoutSecrets(row.kind, text))}`;
  if (must !== undefined) problems.push(`${label} must be ${must}${not}`);
  return value;
}

const words = new Map(
  Object.entries({ true: true, yes: true, on: true, 1: true, false: false, no: false, off: false, 0: false }),
);

/** The value that a text stands for; a text that cannot be read is returned unchanged. */
function fromText(kind: Option['kind'], text: string): unknown {
  switch (kind) {
    case 'toggle':
      return words.get(text.toLowerCase()) ?? text;
    case 'host':
      return text.replace(/^\[(.*)\]$/, '$1');
    case 'path':
    case 'standbys':
      return text === '' ? undefined : text;
    case 'keys':
    case 'origins':
    case 'host names':
      return text === '' ? [] : text.split(',').map((item) => item.trim());
    case 'database':
    case 'choice':
      return text;
    default:
      if (kind.startsWith('optional') && text === 'off') return false;
      return /^[0-9]{1,15}$/.test(text) ? Number(text) : text;
  }
}

/** The default of an option as its user would write it; empty for none. */
export function defaultText({ default: value = '' }: Option): string {
  return typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
}

export function variableOf(flag: Flag): string {
  const row: Option = options[flag];
  return row.variable ?? flag.toUpperCase().replaceAll('-', '_');
}

/** Problems between values that are right on their own. */
function contradictions(config: Config): string[] {
  const problems: string[] = [];
  if ((config['tls-cert'] === undefined) !== (config['tls-key'] === undefined)) {
    problems.push('--tls-cert and --tls-key must be given together');
  }
  if (config.auth !== 'none' && config['api-key'].length === 0 && config['api-keys-file'] === undefined) {
    problems.push(`--auth "${config.auth}" needs --api-key or --api-keys-file`);
  }
  if (config.port !== 0 && config.port === config['grpc-port']) {
    problems.push(`--port and --grpc-port must differ, not both be ${config.port}`);
  }
  if (config.workers > 1 && schemeOf(config.database)?.isShared === false) {
    problems.push(`--workers must be 1 with --database ${config.database}, which processes cannot share`);
  }
  if (config['read-database'] !== undefined && schemeOf(config.database)?.hasStandbys !== true) {
    problems.push('--read-database needs a postgres: database');
  }
  return problems;
}

export function optionsHelp(): string {
  const rows = optionRows.map(([flag, row]) => {
    const text = defaultText(row);
    const placeholder = row.values?.join('|') ?? placeholders[row.kind];
    return [`--${flag} ${placeholder}`, variableOf(flag), `${row.meaning}${text && ` [${text}]`}`] as const;
  });
  const flagWidth = Math.max(...rows.map(([flag]) => flag.length));
  const variableWidth = Math.max(...rows.map(([, variable]) => variable.length));
  const line = ([flag, variable, text]: (typeof rows)[number]) =>
    `  ${flag.padEnd(flagWidth)}  ${variable.padEnd(variableWidth)}  ${text}\n`;
  return rows.map(line).join('');
}

/** The text of `--print-config`: what is in force and where it came from, without secrets. */
export function printConfig({ settings }: ParsedConfig): string {
  return optionRows
    .map(([flag, { kind }]) => {
      const { source, text } = settings[flag];
      return `${flag} = ${JSON.stringify(withoutSecrets(kind, text))}  # ${source}\n`;
    })
    .join('');
}

function withoutSecrets(kind: Option['kind'], text: string): string {
  if (kind === 'keys') return text && '(hidden)';
  return kind === 'database' || kind === 'standbys' ? withoutPasswords(text) : text;
}
