import { authModes, parseKeys } from './domain/access.ts';
import { defaultChangesKept, maxChangesKept } from './domain/change.ts';
import { messageOf } from './domain/errors.ts';
import { isInRange, maxTimerMs, type Range, rangeText, shown } from './domain/range.ts';
import { unmetStandbysRequirement, unmetUrlRequirement } from './storage/open.ts';

/** The type of the values of each kind, by its name in the help. */
type Kinds = Record<'N' | 'BYTES' | 'MS' | 'PORT', number> &
  Record<'URL' | 'HOST' | 'PATH', string> &
  Record<'KEYS' | 'ORIGINS' | 'NAMES', readonly string[]> &
  Record<'on|off', boolean>;

export interface Option {
  /** Absent for choices. */
  readonly kind?: keyof Kinds;
  readonly default?: number | string | boolean | readonly string[];
  /** For numbers. */
  readonly range?: Range;
  /** Whether a number may also be `off`, which is `false`. */
  readonly orOff?: true;
  /** For choices. */
  readonly values?: readonly string[];
  /** For URLs: what the URL must be; `undefined` if it is valid. */
  readonly unmetRequirement?: (url: string) => string | undefined;
  /** Its path in `ServiceOptions`; absent for options of the command line only. */
  readonly path?: string;
  /** Its environment variable, unless that is the flag in capitals. */
  readonly variable?: string;
  readonly meaning: string;
}

/** The requirement and its check for each kind of value without a range, a list of choices or a check of its own. */
const requirements = {
  // An empty host would be all interfaces, and an empty path the working folder.
  HOST: ['an address or a host name', (value) => isText(value) && /^[^\s/]+$/.test(value)],
  PATH: ['a path', (value) => value === false || (isText(value) && value !== '')],
  'on|off': ['on or off (true or false)', (value) => typeof value === 'boolean'],
  ORIGINS: [
    'a list of * or origins such as https://app.example, without wildcards and paths',
    (value) => isList(value, (item) => item === '*' || isOrigin(item)),
  ],
  NAMES: [
    'a list of * or host names such as users.example, without ports and wildcards',
    (value) => isList(value, (item) => item === '*' || hostNamePattern.test(item)),
  ],
} as const satisfies Readonly<Record<string, readonly [text: string, isValid: (value: unknown) => boolean]>>;

const basePathPattern = /^(?:\/[\w.~-]+)*$/;
// RFC 3986, 3.2.2: a name, an IPv4 address, or an IPv6 address in brackets.
const hostNamePattern = /^(?:[\w-]+(?:\.[\w-]+)*|\[[0-9a-f:.]+\])$/i;

const ports: Range = [0, 65_535];
const timers: Range = [0, maxTimerMs];
const someMs: Range = [1, maxTimerMs];
const million = 1_000_000;
const megabyte = 1_048_576;

/** Every option by its flag. The command line, the documentation, and the checks of the library come from here. */
// biome-ignore format: two lines for each option are easier to compare than seven.
export const options = {
  host: { kind: 'HOST', default: '127.0.0.1', path: 'host',
    meaning: 'Address that both ports listen on.' },
  port: { kind: 'PORT', default: 3_000, range: ports, path: 'port',
    meaning: 'HTTP port; 0: any free port.' },
  'grpc-port': { kind: 'PORT', default: 50_051, range: ports, orOff: true, path: 'grpcPort',
    meaning: 'gRPC port; 0: any free port; off: no gRPC.' },
  database: { kind: 'URL', unmetRequirement: unmetUrlRequirement, default: 'sqlite:./data/users.db', path: 'database', variable: 'DATABASE_URL',
    meaning: 'URL of the store.' },
  'read-database': { kind: 'URL', unmetRequirement: unmetStandbysRequirement, path: 'readDatabase',
    meaning: 'PostgreSQL standbys that serve reads, as postgres://USER@HOST,HOST/NAME. A read never returns stale data.' },
  'api-key': { kind: 'KEYS', default: [], path: 'apiKeys',
    meaning: 'Keys that clients may send in x-api-key, separated by commas: KEY, or NAME:SCOPES=KEY with scopes like read+write.' },
  'api-keys-file': { kind: 'PATH',
    meaning: 'File of such keys, one on each line, that other users may not read; SIGHUP reads it again.' },
  auth: { default: 'none', values: authModes, path: 'auth',
    meaning: 'Which requests for users and posts need a key: none, writes or all.' },
  public: { kind: 'PATH', path: 'publicDir', variable: 'PUBLIC_DIR',
    meaning: 'Folder of static files to serve; by default the console of the package.' },
  workers: { kind: 'N', default: 1, range: [1, 1_024],
    meaning: 'Number of processes that share the ports.' },
  'tls-cert': { kind: 'PATH',
    meaning: 'File with the certificate chain in PEM, for both ports; needs --tls-key.' },
  'tls-key': { kind: 'PATH',
    meaning: 'File with the private key in PEM; needs --tls-cert.' },
  cors: { kind: 'ORIGINS', default: [], path: 'cors', variable: 'CORS_ORIGINS',
    meaning: 'Origins whose pages may send requests, such as https://app.example or capacitor://localhost, separated by commas; *: all.' },
  'allowed-hosts': { kind: 'NAMES', default: [], path: 'allowedHosts',
    meaning: 'Host names that clients may use, separated by commas; *: all. localhost, 127.0.0.1, [::1] and the host itself are always allowed. If the host is not loopback, so are all IP addresses, and by default all names.' },
  'utility-routes': { default: 'on', values: ['on', 'off'], path: 'utilityRoutes',
    meaning: 'Whether /info, /echo, /private and /boom exist.' },
  log: { default: 'json', values: ['json', 'pretty', 'off'],
    meaning: 'Format of the log: json, pretty or off; on a terminal the default is pretty.' },
  'require-preconditions': { kind: 'on|off', default: false, path: 'requirePreconditions',
    meaning: 'Whether PUT, PATCH and DELETE must have If-Match.' },
  'max-body-bytes': { kind: 'BYTES', default: megabyte, range: [1, 64 * megabyte], path: 'limits.maxBodyBytes',
    meaning: 'Longest request body, in bytes. Users and posts have at most 131072.' },
  'max-headers': { kind: 'N', default: 100, range: [1, 1_000], path: 'limits.maxHeaders',
    meaning: 'Most header lines in a request.' },
  'max-in-flight': { kind: 'N', default: 10_000, range: [0, million], path: 'limits.maxInFlight',
    meaning: 'Most concurrent requests, for each API and process, as a protection against overload; 0: no limit.' },
  'changes-kept': { kind: 'N', default: defaultChangesKept, range: [0, maxChangesKept], orOff: true, path: 'changesKept',
    meaning: 'How many of the last changes GET /changes keeps; off: no /changes.' },
  'max-followers': { kind: 'N', default: 1_000, range: [0, million], path: 'maxFollowers',
    meaning: 'Most clients that follow /changes as a stream, for each process; 0: no limit.' },
  'max-connections': { kind: 'N', default: 10_000, range: [0, million], path: 'maxConnections',
    meaning: 'Most open connections, for each port and process; fewer with a small heap. 0: no limit.' },
  'headers-timeout-ms': { kind: 'MS', default: 10_000, range: timers, path: 'timeouts.headersTimeoutMs',
    meaning: 'Longest time for the headers of a request to arrive, in ms; 0: no limit.' },
  'request-timeout-ms': { kind: 'MS', default: 30_000, range: timers, path: 'timeouts.requestTimeoutMs',
    meaning: 'Longest time for a whole request to arrive, in ms; 0: no limit.' },
  // Longer than the 60 s of nginx and AWS: a balancer must close first, or its next request meets a closing connection.
  'keep-alive-timeout-ms': { kind: 'MS', default: 72_000, range: timers, path: 'timeouts.keepAliveTimeoutMs',
    meaning: 'How long a connection may wait for its next request, in ms; it closes a second later. 0: no limit.' },
  'write-timeout-ms': { kind: 'MS', default: 60_000, range: timers, path: 'limits.writeTimeoutMs',
    meaning: 'How long a client may take to read about 1.5 MB that wait for it, in ms; 0: no limit.' },
  'drain-delay-ms': { kind: 'MS', default: 0, range: timers, path: 'drainDelayMs',
    meaning: 'How long to keep serving after readiness starts to fail, in ms.' },
  'drain-idle-ms': { kind: 'MS', default: 250, range: timers, path: 'drainIdleMs',
    meaning: 'When stopping, how long an idle connection may still send a request, in ms.' },
  'drain-timeout-ms': { kind: 'MS', default: 10_000, range: timers,
    meaning: 'When stopping, how long running requests may take, in ms.' },
  'grpc-max-streams': { kind: 'N', default: 250, range: [1, million], path: 'grpcLimits.maxConcurrentStreams',
    meaning: 'Most concurrent gRPC calls on a connection.' },
  'grpc-max-message-bytes': { kind: 'BYTES', default: 65_536, range: [16, 64 * megabyte], path: 'grpcLimits.maxMessageBytes',
    meaning: 'Longest gRPC message, in bytes.' },
  'grpc-max-age-ms': { kind: 'MS', default: 1_800_000, range: someMs, path: 'grpcLimits.maxConnectionAgeMs',
    meaning: 'Age at which a gRPC connection is asked to close, in ms, so that load spreads over new copies.' },
  'grpc-max-age-grace-ms': { kind: 'MS', default: 30_000, range: someMs, path: 'grpcLimits.maxConnectionAgeGraceMs',
    meaning: 'How long the calls of such a connection may still take, in ms.' },
  'grpc-keepalive-ms': { kind: 'MS', default: 60_000, range: someMs, path: 'grpcLimits.keepaliveTimeMs',
    meaning: 'How often a gRPC connection is pinged, in ms.' },
  'grpc-keepalive-timeout-ms': { kind: 'MS', default: 20_000, range: someMs, path: 'grpcLimits.keepaliveTimeoutMs',
    meaning: 'How long a gRPC client may take to answer a ping, in ms.' },
} as const satisfies Readonly<Record<string, Option>>;

type Rows = typeof options;
export type Flag = keyof Rows;

type ValueOf<Row extends Option> =
  | (Row extends { readonly kind: infer Kind extends keyof Kinds } ? Kinds[Kind] : never)
  | (Row extends { readonly values: readonly (infer Choice)[] } ? Choice : never)
  | (Row extends { readonly orOff: true } ? false : never)
  | (Row extends { readonly default: unknown } ? never : undefined);

export type Config = { readonly [F in Flag]: ValueOf<Rows[F]> };

/** The options whose path begins with `Group`, by the rest of their path; the empty group is the top level. */
type OptionsIn<Group extends string> = {
  readonly [F in Flag as Rows[F] extends { readonly path: `${Group}${infer Key}` }
    ? Exclude<Key, `${string}.${string}`>
    : never]: Config[F];
};

/** A value for each option that has a path, arranged as in `ServiceOptions`. */
export type CheckedOptions = Omit<OptionsIn<''>, 'publicDir'> & {
  readonly publicDir: string | false | undefined;
  readonly limits: OptionsIn<'limits.'>;
  readonly timeouts: OptionsIn<'timeouts.'>;
  readonly grpcLimits: OptionsIn<'grpcLimits.'>;
};

export const optionRows = Object.entries(options) as readonly (readonly [Flag, Option])[];
const groupNames = ['limits', 'timeouts', 'grpcLimits'];
// These options have no row.
const others = 'repository observe tls basePath renderMetrics timeouts.checkingIntervalMs'.split(' ');
const paths = new Set([...optionRows.map(([, { path }]) => path), ...groupNames, ...others]);

/** The options of a service from the values of all flags. */
export function optionsOf(config: Config): CheckedOptions {
  return arrange({}, (flag) => config[flag]) as CheckedOptions;
}

/** The options of a library call, with defaults. A `RangeError` or `TypeError` names the first wrong value. */
export function readOptions<Given extends object>(given: Given): Given & CheckedOptions {
  const read: { basePath?: unknown } = arrange(given, (_, row, value) => {
    const requirement = unmetRequirement(row, value);
    if (requirement === undefined) return value ?? row.default;
    const Kind = row.range === undefined ? TypeError : RangeError;
    // A key or a database URL may contain a secret.
    const found = row.kind === 'KEYS' || row.kind === 'URL' ? '' : `, not ${shown(value)}`;
    throw new Kind(`${row.path} must be ${requirement}${found}`);
  });
  const { basePath = '' } = read;
  const requirement = 'empty or like "/api", without a slash at its end';
  if (!isText(basePath) || !basePathPattern.test(basePath))
    throw new TypeError(`basePath must be ${requirement}, not ${shown(basePath)}`);
  return read as Given & CheckedOptions;
}

/** Copies the given options, and sets each option to the value that `choose` returns for it. */
function arrange(given: object, choose: (flag: Flag, row: Option, value: unknown) => unknown): object {
  const top = copyOf(given, '');
  const groups: Record<string, Record<string, unknown>> = { '': top };
  for (const group of groupNames) {
    groups[group] = copyOf((top[group] ?? {}) as object, `${group}.`);
    top[group] = groups[group];
  }
  for (const [flag, row] of optionRows) {
    const [key, group = ''] = row.path?.split('.').reverse() ?? [];
    const options = groups[group];
    if (key !== undefined && options !== undefined) options[key] = choose(flag, row, options[key]);
  }
  for (const options of Object.values(groups)) Object.freeze(options);
  return top;
}

/** A copy of an object, with the options that it inherits. Throws a `TypeError` for another value or property. */
function copyOf(given: object, prefix: string): Record<string, unknown> {
  if (given !== Object(given)) throw new TypeError(`${prefix.slice(0, -1) || 'options'} must be an object`);
  const copy: Record<string, unknown> = {};
  for (const key in given) {
    if (key.includes('.') || !paths.has(prefix + key))
      throw new TypeError(`${prefix}${key} is not an option`);
    copy[key] = Reflect.get(given, key);
  }
  return copy;
}

/** What the value of an option must be; `undefined` if it is valid or absent. */
export function unmetRequirement(option: Option, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const { kind, range, orOff, values } = option;
  if (range !== undefined) {
    const isValid = isInRange(value, range) || (orOff === true && value === false);
    return isValid ? undefined : `${orOff ? 'off (false) or ' : ''}${rangeText(range)}`;
  }
  if (values !== undefined) {
    return isText(value) && values.includes(value) ? undefined : `one of ${values.join(', ')}`;
  }
  if (kind === 'KEYS') return unmetKeysRequirement(value);
  if (option.unmetRequirement !== undefined) return option.unmetRequirement(isText(value) ? value : '');
  const [requirement, isValid] = requirements[kind as keyof typeof requirements];
  return isValid(value) ? undefined : requirement;
}

const isText = (value: unknown): value is string => typeof value === 'string';

function isList(value: unknown, holds = (_item: string): boolean => true): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => isText(item) && holds(item));
}

/** The reason contains no key. */
function unmetKeysRequirement(value: unknown): string | undefined {
  const requirement = 'a list of keys as KEY or NAME:SCOPES=KEY';
  if (!isList(value)) return requirement;
  try {
    parseKeys(value);
    return undefined;
  } catch (error) {
    return `${requirement} (${messageOf(error)})`;
  }
}

/** An origin as browsers send it. `URL` alone would accept a wildcard, and has no origins of apps and extensions. */
function isOrigin(item: string): boolean {
  if (/^https?:/.test(item)) return !item.includes('*') && URL.parse(item)?.origin === item;
  return /^(?!(?:file|ftp|wss?):)[a-z][a-z0-9+.-]*:\/\/[\w.-]+(?::\d+)?$/.test(item);
}
