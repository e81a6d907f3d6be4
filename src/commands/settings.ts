import { type Config, type Flag, type Option, optionRows, options, unmetRequirement } from '../config.ts';
import { schemeOf, urlForms } from '../storage/open.ts';
import { type Arguments, type CommandContext, wrap } from './command-line.ts';
import { UsageError, withoutPasswords } from './errors.ts';

interface Written {
  readonly text: string;
  /** The flag, or the variable if its value comes from the environment. */
  readonly label: string;
}

type Setting = Written & { readonly source: 'flag' | 'environment' | 'default' };

export interface ParsedConfig {
  readonly config: Config;
  readonly settings: Readonly<Record<Flag, Setting>>;
}

type Environment = CommandContext['env'];

/** Reads all options. A flag overrides the environment, and that the default. A `UsageError` lists all problems. */
export function parseConfig(flags: Arguments['flags'], env: Environment): ParsedConfig {
  const settings = perFlag((flag) => findSetting(flag, flags, env));
  const config = Object.freeze(perFlag((flag) => fromText(options[flag], settings[flag].text))) as Config;
  const problems = optionRows.flatMap(([flag, row]) => problemOf(row, settings[flag], config[flag]) ?? []);
  if (problems.length === 0) problems.push(...contradictions(config));
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  return { config, settings };
}

function perFlag<T>(read: (flag: Flag) => T): Record<Flag, T> {
  return Object.fromEntries(optionRows.map(([flag]) => [flag, read(flag)])) as Record<Flag, T>;
}

/** The URL of `--database`, `DATABASE_URL`, or the default store. */
export function databaseUrl(flags: Arguments['flags'], env: Environment): string {
  return checkedUrl(findSetting('database', flags, env));
}

/** The text of a setting. Throws a `UsageError` that names the option unless it is the URL of a store. */
export function checkedUrl(setting: Written): string {
  const problem = problemOf(options.database, setting, setting.text);
  if (problem !== undefined) throw new UsageError(problem);
  return setting.text;
}

function findSetting(flag: Flag, flags: Arguments['flags'], env: Environment): Setting {
  const label = `--${flag}`;
  const [given, variable] = [flags[flag], env[variableOf(flag)]];
  if (given !== undefined) return { source: 'flag', text: given, label };
  // Shells and container files often set a variable to the empty text to unset it.
  if (variable) return { source: 'environment', text: variable, label: variableOf(flag) };
  return { source: 'default', text: defaultText(options[flag]), label };
}

/** What is wrong with the value of a setting, without secrets; `undefined` if it is valid. */
function problemOf(row: Option, { text, label }: Written, value: unknown): string | undefined {
  const requirement = unmetRequirement(row, value);
  if (requirement === undefined) return undefined;
  const shown = withoutPasswords(text);
  // The password of a URL may be where no URL has one, for example if the scheme is missing.
  const safe =
    row.kind === 'URL' && !shown.includes('(hidden)@') ? shown.replace(/^.*@/s, '(hidden)@') : shown;
  // A text longer than each choice may be a key, as in `--auth KEY`.
  const mayBeKey = row.kind === 'KEYS' || row.values?.every(({ length }) => length < text.length);
  return `${label} must be ${requirement}${mayBeKey ? '' : `, not ${JSON.stringify(safe)}`}`;
}

/** Returns the value of a text; a text that cannot be read is returned unchanged. */
function fromText({ kind, range, orOff, default: preset }: Option, text: string): unknown {
  // An option without a default may be unset.
  if (text === '' && preset === undefined) return undefined;
  if (orOff === true && (text === 'off' || text === 'false')) return false;
  if (range !== undefined) return /^[0-9]+$/.test(text) ? Number(text) : text;
  if (kind === 'on|off' && /^(on|true|yes|1)$/i.test(text)) return true;
  if (kind === 'on|off' && /^(off|false|no|0)$/i.test(text)) return false;
  if (Array.isArray(preset)) return text === '' ? [] : text.split(',').map((item) => item.trim());
  // In a URL an IPv6 address has brackets, but a server cannot listen on it in this form.
  return kind === 'HOST' ? text.replace(/^\[(.*)\]$/, '$1') : text;
}

/** The default of an option as its user would write it; empty for none. */
export function defaultText({ default: value = '' }: Option): string {
  return value === false ? 'off' : String(value);
}

export function variableOf(flag: Flag): string {
  const row: Option = options[flag];
  return row.variable ?? flag.toUpperCase().replaceAll('-', '_');
}

/** Problems between values that are valid separately. */
function contradictions(config: Config): string[] {
  const { auth, database, port, workers, 'api-key': keys } = config;
  const isSet = (flag: Flag) => config[flag] !== undefined;
  const { persistent, hasStandbys } = schemeOf(database) ?? {};
  const found = {
    '--tls-cert and --tls-key must be given together': isSet('tls-cert') !== isSet('tls-key'),
    [`--auth "${auth}" needs --api-key or --api-keys-file`]:
      auth !== 'none' && keys.length === 0 && !isSet('api-keys-file'),
    [`--port and --grpc-port must differ, not both be ${port}`]: port !== 0 && port === config['grpc-port'],
    [`--workers must be 1 with --database ${database}, which processes cannot share`]:
      workers > 1 && persistent === undefined,
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
      return `  --${flag} ${row.values?.join('|') ?? row.kind}, $${variableOf(flag)}\n      ${wrap(meaning, '      ')}\n`;
    })
    .join('');
  return `\
Flags override variables ($NAME), which override defaults [in brackets].
${wrap(`The URL of a store is ${urlForms}.`, '')}

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
