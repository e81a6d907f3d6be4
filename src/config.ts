import { isInRange, maxTimerMs, type Range, rangeText } from './check-range.ts';
import { parseKey, scopes } from './domain/access.ts';
import { maxChangesKept } from './domain/change.ts';
import { schemeOf, storeUrlMustBe } from './storage/open.ts';

/** A row of the table of options. */
export interface Option {
  readonly kind: keyof Values;
  readonly default?: Values[keyof Values];
  /** For numbers. */
  readonly range?: Range;
  /** For choices. */
  readonly values?: readonly string[];
  /** Its path in `ServiceOptions`; absent for options of the command line only. */
  readonly path?: string;
  /** Its environment variable, unless that is the flag in capitals. */
  readonly variable?: string;
  readonly meaning: string;
}

interface Values {
  readonly count: number;
  readonly bytes: number;
  readonly milliseconds: number;
  readonly port: number;
  readonly 'optional port': number | false;
  readonly 'optional count': number | false;
  readonly host: string;
  readonly database: string;
  readonly standbys: string;
  readonly path: string;
  readonly choice: string;
  readonly toggle: boolean;
  readonly keys: readonly string[];
  readonly origins: readonly string[];
  readonly 'host names': readonly string[];
}

const ports: Range = [0, 65_535];
const timers: Range = [0, maxTimerMs];
const someMs: Range = [1, maxTimerMs];
const million = 1_000_000;
const megabyte = 1_048_576;
// RFC 3986, 3.2.2: a name, an IPv4 address, or an IPv6 address in brackets.
const hostNamePattern = /^(?:[\w-]+(?:\.[\w-]+)*|\[[0-9a-f:.]+\])$/i;

/**
 * Every option by its flag. The flags, the environment, `--help`, `--print-config`, the documentation, and the
 * library's own defaults and checks come from here.
 */
// biome-ignore format: two lines for each option are easier to compare than seven.
export const options = {
  host: { kind: 'host', default: '127.0.0.1', path: 'host',
    meaning: 'Address that both ports listen on.' },
  port: { kind: 'port', default: 3_000, range: ports, path: 'port',
    meaning: 'HTTP port; 0: any free port.' },
  'grpc-port': { kind: 'optional port', default: 50_051, range: ports, path: 'grpcPort',
    meaning: 'gRPC port; 0: any free port; off: no gRPC.' },
  database: { kind: 'database', default: 'sqlite:./data/users.db', path: 'database', variable: 'DATABASE_URL',
    meaning: 'The store: memory:, sqlite:PATH or postgres://USER@HOST/NAME.' },
  'read-database': { kind: 'standbys', path: 'readDatabase',
    meaning: 'Standbys of a postgres: database that answer reads, never with stale data: postgres://USER@HOST,HOST/NAME.' },
  'api-key': { kind: 'keys', default: [], path: 'apiKeys',
    meaning: 'Keys that x-api-key may hold, separated by commas: KEY, or NAME:SCOPES=KEY with scopes like read+write.' },
  'api-keys-file': { kind: 'path',
    meaning: 'File of such keys, one on each line, for its owner alone; SIGHUP reads it again.' },
  auth: { kind: 'choice', default: 'none', values: ['none', 'writes', 'all'], path: 'auth',
    meaning: 'Which requests for users and posts need a key: none, writes or all.' },
  public: { kind: 'path', path: 'publicDir', variable: 'PUBLIC_DIR',
    meaning: 'Folder of static files to serve; without it the console of the package.' },
  workers: { kind: 'count', default: 1, range: [1, 1_024],
    meaning: 'Number of processes that share the ports.' },
  'tls-cert': { kind: 'path',
    meaning: 'File with the certificate chain in PEM, for both ports; needs --tls-key.' },
  'tls-key': { kind: 'path',
    meaning: 'File with the private key in PEM; needs --tls-cert.' },
  cors: { kind: 'origins', default: [], path: 'cors', variable: 'CORS_ORIGINS',
    meaning: 'Origins whose pages may send requests, separated by commas; *: all.' },
  'allowed-hosts': { kind: 'host names', default: [], path: 'allowedHosts',
    meaning: 'Further host names of the service, separated by commas; *: all. On a loopback host only these and localhost are served.' },
  'utility-routes': { kind: 'choice', default: 'on', values: ['on', 'off'], path: 'utilityRoutes',
    meaning: 'Whether /info, /echo, /private and /boom exist.' },
  log: { kind: 'choice', default: 'json', values: ['json', 'pretty', 'off'],
    meaning: 'Format of the log: json, pretty or off; on a terminal the default is pretty.' },
  'require-preconditions': { kind: 'toggle', default: false, path: 'requirePreconditions',
    meaning: 'Whether PUT, PATCH and DELETE must have If-Match.' },
  'max-body-bytes': { kind: 'bytes', default: megabyte, range: [1, 64 * megabyte], path: 'limits.maxBodyBytes',
    meaning: 'Longest request body, in bytes.' },
  'max-headers': { kind: 'count', default: 100, range: [1, 1_000], path: 'limits.maxHeaders',
    meaning: 'Most header lines in a request.' },
  'max-in-flight': { kind: 'count', default: 10_000, range: [0, million], path: 'limits.maxInFlight',
    meaning: 'Most requests at once, for each API and process, as a brake for emergencies; 0: no limit.' },
  'changes-kept': { kind: 'optional count', default: 100_000, range: [0, maxChangesKept], path: 'changesKept',
    meaning: 'How many of the last changes GET /changes keeps; off: no /changes.' },
  'max-followers': { kind: 'count', default: 1_000, range: [0, million], path: 'maxFollowers',
    meaning: 'Most clients that follow /changes as a stream, for each process; 0: no limit.' },
  'max-connections': { kind: 'count', default: 10_000, range: [0, million], path: 'maxConnections',
    meaning: 'Most open connections, for each port and process; 0: no limit.' },
  'headers-timeout-ms': { kind: 'milliseconds', default: 10_000, range: timers, path: 'timeouts.headersTimeoutMs',
    meaning: 'Longest time for the headers of a request to arrive, in ms; 0: no limit.' },
  'request-timeout-ms': { kind: 'milliseconds', default: 30_000, range: timers, path: 'timeouts.requestTimeoutMs',
    meaning: 'Longest time for a whole request to arrive, in ms; 0: no limit.' },
  // Longer than the idle time of common balancers (AWS 60 s, nginx 75 s less its margin): the client must
  // close first, or its next request meets a closing connection.
  'keep-alive-timeout-ms': { kind: 'milliseconds', default: 72_000, range: timers, path: 'timeouts.keepAliveTimeoutMs',
    meaning: 'How long a connection may wait for its next request, in ms; 0: no limit.' },
  'write-timeout-ms': { kind: 'milliseconds', default: 60_000, range: timers, path: 'limits.writeTimeoutMs',
    meaning: 'How long a client may read nothing of its response, in ms; 0: no limit.' },
  'drain-delay-ms': { kind: 'milliseconds', default: 0, range: timers, path: 'drainDelayMs',
    meaning: 'How long to keep serving after readiness starts to fail, in ms.' },
  'drain-idle-ms': { kind: 'milliseconds', default: 250, range: timers, path: 'drainIdleMs',
    meaning: 'When stopping, how long an idle connection may still send a request, in ms.' },
  'drain-timeout-ms': { kind: 'milliseconds', default: 10_000, range: timers,
    meaning: 'When stopping, how long running requests may take, in ms.' },
  'grpc-max-streams': { kind: 'count', default: 250, range: [1, million], path: 'grpcLimits.maxConcurrentStreams',
    meaning: 'Most gRPC calls at once on a connection.' },
  'grpc-max-message-bytes': { kind: 'bytes', default: 65_536, range: [16, 64 * megabyte], path: 'grpcLimits.maxMessageBytes',
    meaning: 'Longest gRPC message, in bytes.' },
  'grpc-max-age-ms': { kind: 'milliseconds', default: 1_800_000, range: someMs, path: 'grpcLimits.maxConnectionAgeMs',
    meaning: 'Age at which a gRPC connection is asked to close, in ms, so that load spreads over new copies.' },
  'grpc-max-age-grace-ms': { kind: 'milliseconds', default: 30_000, range: someMs, path: 'grpcLimits.maxConnectionAgeGraceMs',
    meaning: 'How long the calls of such a connection may still take, in ms.' },
  'grpc-keepalive-ms': { kind: 'milliseconds', default: 60_000, range: someMs, path: 'grpcLimits.keepaliveTimeMs',
    meaning: 'How often a quiet gRPC connection is pinged, in ms.' },
  'grpc-keepalive-timeout-ms': { kind: 'milliseconds', default: 20_000, range: someMs, path: 'grpcLimits.keepaliveTimeoutMs',
    meaning: 'How long a gRPC client may take to answer a ping, in ms.' },
} as const satisfies Readonly<Record<string, Option>>;

type Rows = typeof options;
export type Flag = keyof Rows;

type ValueOf<Row extends Option> = Row extends { readonly values: readonly (infer Choice)[] }
  ? Choice
  : Values[Row['kind']];

/** A value for each option, by flag. */
export type Config = {
  readonly [F in Flag]:
    | ValueOf<Rows[F]>
    | (Rows[F] extends { readonly default: unknown } ? never : undefined);
};

/** The options whose path begins with `Group`, by the rest of their path, as `ServiceOptions` has them. */
type OptionsIn<Group extends string> = {
  readonly [F in Flag as Rows[F] extends { readonly path: `${Group}${infer Key}` }
    ? Exclude<Key, `${string}.${string}`>
    : never]: Config[F];
};

export const optionRows = Object.entries(options) as readonly (readonly [Flag, Option])[];

export const defaults = Object.freeze(
  Object.fromEntries(optionRows.map(([flag, row]) => [flag, row.default])),
) as Config;

/** A group of `ServiceOptions`, such as `limits.`, from values by flag; the empty group is its top level. */
export function optionsIn<const Group extends string>(group: Group, config: Config): OptionsIn<Group> {
  const found: Record<string, unknown> = {};
  for (const [flag, { path }] of optionRows) {
    if (path?.startsWith(group) !== true || config[flag] === undefined) continue;
    const key = path.slice(group.length);
    // A key with a dot belongs to another group.
    if (!key.includes('.')) found[key] = config[flag];
  }
  return found as OptionsIn<Group>;
}

/** The defaults of a group of `ServiceOptions`, overridden by what is given unless it is `undefined`. */
export function withDefaults<const Group extends string, Given extends object>(
  group: Group,
  given: Given | undefined,
): OptionsIn<Group> & Given {
  const set = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...optionsIn(group, defaults), ...Object.fromEntries(set) }) as OptionsIn<Group> &
    Given;
}

const secretKinds: readonly Option['kind'][] = ['keys', 'database', 'standbys'];

/** Throws a `RangeError` or `TypeError` that names the first wrong value of a library call's options. */
export function checkOptions(given: object): void {
  for (const [, row] of optionRows) {
    if (row.path === undefined) continue;
    let value: unknown = given;
    for (const key of row.path.split('.')) value = Reflect.get(Object(value), key);
    const must = value === undefined ? undefined : mustBe(row, value);
    if (must === undefined) continue;
    const Kind = row.range === undefined ? TypeError : RangeError;
    // A key or a database URL may hold a secret.
    const not = secretKinds.includes(row.kind) ? '' : `, not ${String(value)}`;
    throw new Kind(`${row.path} must be ${must}${not}`);
  }
}

/** What the value of an option must be; `undefined` when it is right. */
export function mustBe({ kind, range = [0, 0], values = [] }: Option, value: unknown): string | undefined {
  switch (kind) {
    case 'count':
    case 'bytes':
    case 'milliseconds':
    case 'port':
      return isInRange(value, range) ? undefined : rangeText(range);
    case 'optional port':
    case 'optional count':
      return value === false || isInRange(value, range) ? undefined : `off or ${rangeText(range)}`;
    case 'host':
      // For an empty host, Node would listen on all interfaces.
      return isText(value, /^[^\s/]+$/) ? undefined : 'an address or a host name';
    case 'database':
      return storeUrlMustBe(typeof value === 'string' ? value : '');
    case 'standbys':
      return isText(value) && schemeOf(value)?.hasStandbys && schemeOf(value)?.mustBe?.(value) === undefined
        ? undefined
        : 'a URL as postgres://USER@HOST,HOST/NAME';
    case 'path':
      return typeof value === 'string' || value === false ? undefined : 'a path';
    case 'choice':
      return isText(value) && values.includes(value) ? undefined : `one of ${values.join(', ')}`;
    case 'toggle':
      return typeof value === 'boolean' ? undefined : 'on or off (true or false)';
    case 'keys':
      return isList(value, isKey)
        ? undefined
        : `a list of keys of visible ASCII characters, each as KEY or NAME:SCOPES=KEY with scopes of ${scopes.join(', ')} joined by +`;
    case 'origins':
      return isList(value, isOrigin)
        ? undefined
        : '* or a list of origins such as https://app.example, without wildcards and paths';
    case 'host names':
      return isList(value, (item) => item === '*' || hostNamePattern.test(item))
        ? undefined
        : '* or a list of host names such as users.example, without ports and wildcards';
  }
}

function isKey(text: string): boolean {
  try {
    parseKey(text);
    return true;
  } catch {
    return false;
  }
}

function isText(value: unknown, pattern = /^/): value is string {
  return typeof value === 'string' && pattern.test(value);
}

function isList(value: unknown, holds: (item: string) => boolean): boolean {
  return Array.isArray(value) && value.every((item) => isText(item) && holds(item));
}

/** An origin as browsers send it. `URL` alone would accept a wildcard as a part of the name. */
function isOrigin(item: string): boolean {
  return item === '*' || (/^https?:[^*]+$/.test(item) && URL.parse(item)?.origin === item);
}
