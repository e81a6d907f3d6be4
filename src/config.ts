import { parseArgs } from 'node:util';

/** One option: how it is written, what it means, what it may be. */
interface Option<T> {
  /** What stands for the value in the help. */
  readonly value: string;
  readonly help: string;
  /** As text, so that help and `--print-config` say what a user would write. */
  readonly fallback: string;
  /** Fails with what the value must be. */
  readonly parse: (text: string) => T;
  readonly env?: string;
  readonly secret?: boolean;
}

// Node's timers overflow beyond this.
const maxTimeoutMs = 2 ** 31 - 1;

const flagMeanings = { true: true, 1: true, yes: true, false: false, 0: false, no: false } as const;

const options = {
  host: text('HOST', '127.0.0.1', 'address both faces listen on'),
  port: { ...integer(0, 65_535, '3000', 'HTTP port; 0: any free one'), env: 'PORT' },
  'grpc-port': {
    value: 'PORT',
    help: 'gRPC port; 0: any free one; off: none',
    fallback: '50051',
    parse: (value: string) => (value === 'off' ? false : integer(0, 65_535, '', '').parse(value)),
  },
  database: { ...database(), env: 'DATABASE_URL' },
  'api-key': { ...list('KEYS', 'keys that x-api-key may hold, separated by commas'), secret: true },
  auth: choice(['none', 'writes', 'all'], 'none', 'which calls on users and posts need a key'),
  public: {
    ...text('DIR', '', "folder of static files (default: the package's public/)"),
    env: 'PUBLIC_DIR',
  },
  workers: integer(1, 1_024, '1', 'processes on the same ports'),
  'tls-cert': text('FILE', '', 'certificate chain in PEM, for both faces'),
  'tls-key': text('FILE', '', 'private key in PEM'),
  cors: {
    ...list('ORIGINS', 'origins whose pages may call, separated by commas; * for all'),
    env: 'CORS_ORIGINS',
  },
  log: choice(['json', 'pretty', 'off'], 'json', 'what is printed; pretty is the default on a terminal'),
  'require-preconditions': toggle('false', 'whether PUT, PATCH and DELETE must carry If-Match'),
  'max-body-bytes': integer(1, 64 * 1024 * 1024, '1048576', 'longest request body'),
  'max-headers': integer(1, 1_000, '100', 'header lines in a request'),
  'max-in-flight': integer(1, 1_000_000, '1000', 'requests under way at once, on each face'),
  'headers-timeout-ms': milliseconds('10000', 'for the head of a request'),
  'request-timeout-ms': milliseconds('30000', 'for a whole request'),
  'keep-alive-timeout-ms': milliseconds('72000', 'for the next request on a connection'),
  'write-timeout-ms': milliseconds('60000', 'for a client that takes nothing of its reply'),
  'drain-delay-ms': milliseconds('0', 'normal service between the signal to stop and the stop'),
  'drain-timeout-ms': milliseconds('10000', 'for requests under way when stopping'),
  'grpc-max-streams': integer(1, 1_000_000, '250', 'gRPC calls at once on a connection'),
  'grpc-max-message-bytes': integer(16, 64 * 1024 * 1024, '65536', 'longest gRPC message'),
  'grpc-max-age-ms': milliseconds('1800000', 'age at which a gRPC connection is asked to end'),
  'grpc-max-age-grace-ms': milliseconds('30000', 'what its calls have left from then on'),
  'grpc-keepalive-ms': milliseconds('60000', 'how often a quiet gRPC peer is pinged'),
  'grpc-keepalive-timeout-ms': milliseconds('20000', 'how long it may take to answer'),
} satisfies Record<string, Option<unknown>>;

type OptionName = keyof typeof options;

/** What is in force, by the names of the flags. */
export type Config = { readonly [Name in OptionName]: ReturnType<(typeof options)[Name]['parse']> };

/** Every mistake in the flags and the environment, each naming its option. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

export interface ParsedConfig {
  readonly config: Config;
  /** `flag`, `environment` or `default`, by option. */
  readonly sources: Readonly<Record<string, string>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads flags over environment over defaults. Fails with a `ConfigError` that holds every problem. */
export function parseConfig(argv: readonly string[], env: Environment): ParsedConfig {
  const problems: string[] = [];
  const given = readFlags(argv, problems);
  const config: Record<string, unknown> = {};
  const sources: Record<string, string> = {};
  for (const [name, option] of entries()) {
    const variable = variableOf(name);
    // An empty variable is how a shell or a container file says "not set".
    const fromEnvironment = env[variable] === '' ? undefined : env[variable];
    const [source, written] =
      given[name] !== undefined
        ? ['flag', given[name]]
        : fromEnvironment !== undefined
          ? ['environment', fromEnvironment]
          : ['default', option.fallback];
    sources[name] = source;
    try {
      config[name] = option.parse(written);
    } catch (error) {
      const label = source === 'environment' ? variable : `--${name}`;
      const shown = option.secret === true ? '' : `, not ${JSON.stringify(written)}`;
      problems.push(`${label} must be ${error instanceof Error ? error.message : error}${shown}`);
    }
  }
  if ((config['tls-cert'] === '') !== (config['tls-key'] === '')) {
    problems.push('--tls-cert and --tls-key must be given together');
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return { config: Object.freeze(config) as Config, sources };
}

function readFlags(argv: readonly string[], problems: string[]): Partial<Record<string, string>> {
  const types = Object.fromEntries(entries().map(([name]) => [name, { type: 'string' as const }]));
  const { tokens } = parseArgs({
    args: [...argv],
    options: types,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given: Partial<Record<string, string>> = {};
  for (const token of tokens) {
    if (token.kind === 'positional') problems.push(`${JSON.stringify(token.value)} is not an option`);
    if (token.kind !== 'option') continue;
    const bare = isToggle(token.name) && token.value === undefined;
    if (!Object.hasOwn(options, token.name))
      problems.push(`${token.rawName} is not an option; --help lists them all`);
    else if (given[token.name] !== undefined) problems.push(`${token.rawName} must be given once`);
    else if (token.value === undefined && !bare) problems.push(`${token.rawName} must have a value`);
    else given[token.name] = token.value ?? 'true';
  }
  return given;
}

/** The text of `--help`, an option a line. */
export function helpText(): string {
  const rows = entries().map(([name, option]) => {
    const fallback = option.fallback === '' ? '' : ` [${option.fallback}]`;
    return [`--${name} ${option.value}`, variableOf(name), `${option.help}${fallback}`] as const;
  });
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(([flag, env, help]) => `  ${flag.padEnd(widths[0] ?? 0)}  ${env.padEnd(widths[1] ?? 0)}  ${help}`)
    .join('\n');
}

/** The text of `--print-config`: what is in force and where it came from, without secrets. */
export function printConfig({ config, sources }: ParsedConfig): string {
  return entries()
    .map(([name, option]) => {
      const value: unknown = config[name];
      const shown =
        option.secret === true && String(value) !== '' ? '(hidden)' : withoutPassword(String(value));
      return `${name} = ${shown}  # ${sources[name]}`;
    })
    .join('\n');
}

function withoutPassword(value: string): string {
  return value
    .replace(/^([a-z]+:\/\/[^:@/]*):[^@]*@/, '$1:(hidden)@')
    .replace(/(password=)[^&]*/g, '$1(hidden)');
}

/** Every option with its flag, variable, default and meaning, for documentation. */
export function describeOptions() {
  return entries().map(([name, { fallback, help }]) => ({ name, env: variableOf(name), fallback, help }));
}

function entries(): [OptionName, Option<unknown>][] {
  return Object.entries(options) as [OptionName, Option<unknown>][];
}

function variableOf(name: OptionName): string {
  const option: Option<unknown> = options[name];
  return option.env ?? name.toUpperCase().replaceAll('-', '_');
}

function isToggle(name: string): boolean {
  return name === 'require-preconditions';
}

function text(value: string, fallback: string, help: string): Option<string> {
  return { value, fallback, help, parse: (written) => written };
}

function integer(min: number, max: number, fallback: string, help: string): Option<number> {
  const parse = (written: string): number => {
    const number = /^[0-9]{1,15}$/.test(written) ? Number(written) : -1;
    if (number < min || number > max) throw new Error(`a whole number from ${min} to ${max}`);
    return number;
  };
  return { value: 'N', fallback, help, parse };
}

function milliseconds(fallback: string, help: string): Option<number> {
  return { ...integer(0, maxTimeoutMs, fallback, help), value: 'MS' };
}

function choice<const T extends string>(values: readonly T[], fallback: T, help: string): Option<T> {
  const parse = (written: string): T => {
    const found = values.find((value) => value === written);
    if (found === undefined) throw new Error(`one of ${values.join(', ')}`);
    return found;
  };
  return { value: values.join('|'), fallback, help, parse };
}

function toggle(fallback: string, help: string): Option<boolean> {
  const parse = (written: string): boolean => {
    const found = Object.entries(flagMeanings).find(([name]) => name === written.toLowerCase());
    if (found === undefined) throw new Error('true or false');
    return found[1];
  };
  return { value: 'true|false', fallback, help, parse };
}

function list(value: string, help: string): Option<readonly string[]> {
  const parse = (written: string): readonly string[] => {
    if (written === '') return [];
    const items = written.split(',').map((item) => item.trim());
    if (items.includes('')) throw new Error('a list separated by commas, none of them empty');
    return items;
  };
  return { value, fallback: '', help, parse };
}

function database(): Option<string> {
  const parse = (written: string): string => {
    if (!/^(memory:$|sqlite:.|postgres(ql)?:\/\/)/.test(written)) {
      throw new Error('memory:, sqlite:PATH or postgres://USER@HOST/NAME');
    }
    return written;
  };
  return {
    value: 'URL',
    fallback: 'sqlite:./data/users.db',
    help: 'memory:, sqlite:PATH or postgres://…',
    parse,
  };
}
