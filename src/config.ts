import { readFlags } from './config/flags.ts';
import {
  choice,
  databaseUrl,
  hidden,
  host,
  integer,
  keys,
  milliseconds,
  type Option,
  optionalPort,
  origins,
  port,
  text,
  toggle,
} from './config/option.ts';

/** Shared with the commands that move data. */
export const databaseOption = databaseUrl('sqlite:./data/users.db', 'memory:, sqlite:PATH or postgres://…');

const options = {
  host: host('127.0.0.1', 'address both faces listen on'),
  port: port('3000', 'HTTP port; 0: any free one'),
  'grpc-port': optionalPort('50051', 'gRPC port; 0: any free one; off: none'),
  database: {
    ...databaseOption,
    env: 'DATABASE_URL',
  },
  'api-key': keys('keys that x-api-key may hold, separated by commas'),
  auth: choice(['none', 'writes', 'all'], 'none', 'which calls on users and posts need a key'),
  public: {
    ...text('DIR', "folder of static files (default: the package's public/)"),
    env: 'PUBLIC_DIR',
  },
  workers: integer(1, 1_024, '1', 'processes on the same ports'),
  'tls-cert': text('FILE', 'certificate chain in PEM, for both faces'),
  'tls-key': text('FILE', 'private key in PEM'),
  cors: {
    ...origins('origins whose pages may call, separated by commas; * for all'),
    env: 'CORS_ORIGINS',
  },
  log: choice(['json', 'pretty', 'off'], 'json', 'what is printed; pretty is the default on a terminal'),
  'require-preconditions': toggle('whether PUT, PATCH and DELETE must carry If-Match'),
  'max-body-bytes': integer(1, 64 * 1024 * 1024, '1048576', 'longest request body'),
  'max-headers': integer(1, 1_000, '100', 'header lines in a request'),
  'max-in-flight': integer(1, 1_000_000, '10000', 'requests under way at once, on each face of each process'),
  'max-connections': integer(
    0,
    1_000_000,
    '10000',
    'connections at once on each port of each process; 0: no limit',
  ),
  'headers-timeout-ms': milliseconds(0, '10000', 'for the head of a request'),
  'request-timeout-ms': milliseconds(0, '30000', 'for a whole request'),
  'keep-alive-timeout-ms': milliseconds(0, '72000', 'for the next request on a connection'),
  'write-timeout-ms': milliseconds(0, '60000', 'for a client that takes nothing of its reply'),
  'drain-delay-ms': milliseconds(0, '0', 'normal service between the signal to stop and the stop'),
  'drain-idle-ms': milliseconds(0, '250', 'for one more request on idle connections when stopping'),
  'drain-timeout-ms': milliseconds(0, '10000', 'for requests under way when stopping'),
  'grpc-max-streams': integer(1, 1_000_000, '250', 'gRPC calls at once on a connection'),
  'grpc-max-message-bytes': integer(16, 64 * 1024 * 1024, '65536', 'longest gRPC message'),
  'grpc-max-age-ms': milliseconds(1, '1800000', 'age at which a gRPC connection is asked to end'),
  'grpc-max-age-grace-ms': milliseconds(1, '30000', 'what its calls have left from then on'),
  'grpc-keepalive-ms': milliseconds(1, '60000', 'how often a quiet gRPC peer is pinged'),
  'grpc-keepalive-timeout-ms': milliseconds(1, '20000', 'how long it may take to answer'),
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
  /** What was written and where, by option. */
  readonly origins: Readonly<Record<OptionName, Origin>>;
}

interface Origin {
  readonly source: 'flag' | 'environment' | 'default';
  readonly written: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads flags over environment over defaults. Fails with a `ConfigError` that holds every problem. */
export function parseConfig(argv: readonly string[], env: Environment): ParsedConfig {
  const flags = readFlags(argv, options);
  const problems = [...flags.problems];
  const config: Record<string, unknown> = {};
  const origins: Record<string, Origin> = {};
  for (const [name, option] of entries()) {
    const origin = findOrigin(name, flags.values.get(name), env);
    origins[name] = origin;
    try {
      config[name] = option.parse(origin.written);
    } catch (error) {
      const label = labelOf(name, origin);
      const not = option.redact === hidden ? '' : `, not ${shown(option, origin.written)}`;
      problems.push(`${label} must be ${(error as Error).message}${not}`);
    }
  }
  if (problems.length === 0) problems.push(...contradictions(config as Config));
  if (problems.length > 0) throw new ConfigError(problems);
  return { config: Object.freeze(config) as Config, origins: origins as ParsedConfig['origins'] };
}

/** An option as its user wrote it. */
export function labelOf(name: OptionName, { source }: Origin): string {
  return source === 'environment' ? variableOf(name) : `--${name}`;
}

function findOrigin(name: OptionName, flag: string | undefined, env: Environment): Origin {
  if (flag !== undefined) return { source: 'flag', written: flag };
  const variable = env[variableOf(name)];
  // An empty variable is how a shell or a container file says "not set".
  if (variable !== undefined && variable !== '') return { source: 'environment', written: variable };
  return { source: 'default', written: options[name].fallback };
}

/** What is wrong although each value is right. */
function contradictions(config: Config): string[] {
  const problems: string[] = [];
  if ((config['tls-cert'] === '') !== (config['tls-key'] === '')) {
    problems.push('--tls-cert and --tls-key must be given together');
  }
  if (config.auth !== 'none' && config['api-key'].length === 0) {
    problems.push(`--auth must be none, not "${config.auth}", without an --api-key: nobody could call`);
  }
  if (config.port !== 0 && config.port === config['grpc-port']) {
    problems.push(`--port and --grpc-port must differ, not both be ${config.port}`);
  }
  if (config.workers > 1 && config.database === 'memory:') {
    problems.push('--workers must be 1 with --database memory:, which each would have to itself');
  }
  return problems;
}

/** The text of `--help`, an option a line. */
export function helpText(): string {
  const rows = entries().map(([name, option]) => {
    const fallback = option.fallback === '' ? '' : ` [${option.fallback}]`;
    return [`--${name} ${option.value}`, variableOf(name), `${option.help}${fallback}`] as const;
  });
  const flagWidth = Math.max(...rows.map(([flag]) => flag.length));
  const envWidth = Math.max(...rows.map(([, env]) => env.length));
  return rows
    .map(([flag, env, help]) => `  ${flag.padEnd(flagWidth)}  ${env.padEnd(envWidth)}  ${help}`)
    .join('\n');
}

/** The text of `--print-config`: what is in force and where it came from, without secrets. */
export function printConfig({ origins }: ParsedConfig): string {
  return entries()
    .map(([name, option]) => {
      const { source, written } = origins[name];
      return `${name} = ${shown(option, written)}  # ${source}`;
    })
    .join('\n');
}

function shown(option: Option<unknown>, written: string): string {
  return JSON.stringify(option.redact?.(written) ?? written);
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
