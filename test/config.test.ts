import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readArguments } from '../src/commands/command-line.ts';
import { UsageError } from '../src/commands/errors.ts';
import {
  defaultText,
  optionsHelp,
  type ParsedConfig,
  parseConfig as parseArguments,
  printConfig,
  variableOf,
} from '../src/commands/settings.ts';
import { type Config, optionRows, readOptions } from '../src/config.ts';
import { createFetchHandler } from '../src/service/fetch-handler.ts';
import { createRequestListener, type RequestListenerOptions } from '../src/service/request-listener.ts';
import { createService, type ServiceOptions } from '../src/service/service.ts';
import { createMemoryStore } from '../src/storage/memory/store.ts';
import { urlForms } from '../src/storage/open.ts';

type Environment = Readonly<Record<string, string | undefined>>;

function parseConfig(argv: readonly string[], env: Environment): ParsedConfig {
  const flags = optionRows.map(([flag]) => flag);
  return parseArguments(readArguments(argv, { flags }).flags, env);
}

function problems(argv: readonly string[], env: Environment = {}): readonly string[] {
  try {
    parseConfig(argv, env);
  } catch (error) {
    assert.ok(error instanceof UsageError);
    return error.message.split('\n');
  }
  return [];
}

describe('a value of an option is read', () => {
  const rows: [name: string, argv: string[], env: Environment, expected: Partial<Config>][] = [
    [
      'from its default',
      [],
      {},
      { port: 3000, 'grpc-port': 50_051, auth: 'none', 'api-key': [], public: undefined },
    ],
    ['from --name VALUE', ['--port', '8080'], {}, { port: 8080 }],
    ['from --name=VALUE', ['--port=8080'], {}, { port: 8080 }],
    ['from variables', [], { PORT: '8080', DATABASE_URL: 'memory:' }, { port: 8080, database: 'memory:' }],
    ['from the flag before the environment', ['--port', '1'], { PORT: '2' }, { port: 1 }],
    [
      'from its default if the variable is empty',
      [],
      { PORT: '', API_KEY: '', LOG: '' },
      { port: 3000, 'api-key': [], log: 'json' },
    ],
    ['as empty from an empty flag of a list', ['--api-key='], { API_KEY: 'k' }, { 'api-key': [] }],
    ['with = in it', ['--api-key=a=b'], {}, { 'api-key': ['a=b'] }],
    ['with two leading dashes after =', ['--public=--x'], {}, { public: '--x' }],
    ['with one leading dash after =', ['--api-key=-k'], {}, { 'api-key': ['-k'] }],
    ['as a list without the spaces', ['--api-key', 'a, b'], {}, { 'api-key': ['a', 'b'] }],
    ['as off', ['--grpc-port', 'off'], {}, { 'grpc-port': false }],
    ['as false', ['--grpc-port', 'false'], {}, { 'grpc-port': false }],
    ['as a toggle without a value', ['--require-preconditions'], {}, { 'require-preconditions': true }],
    [
      'as a toggle before another flag',
      ['--require-preconditions', '--port', '1'],
      {},
      { 'require-preconditions': true, port: 1 },
    ],
    ['as an empty path', ['--public='], { PUBLIC_DIR: 'x' }, { public: undefined }],
    ['as a toggle after an =', ['--require-preconditions=off'], {}, { 'require-preconditions': false }],
    ['as a toggle with a value', ['--require-preconditions', 'No'], {}, { 'require-preconditions': false }],
    ['as an address in brackets', ['--host', '[::1]'], {}, { host: '::1' }],
    ['at the ends of its range', ['--port=0', '--grpc-port=65535'], {}, { port: 0, 'grpc-port': 65_535 }],
    [
      'as origins',
      ['--cors', 'https://a.example, http://localhost:1'],
      {},
      { cors: ['https://a.example', 'http://localhost:1'] },
    ],
    ...[
      'capacitor://localhost',
      'tauri://localhost',
      'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
      'safari-web-extension://7F4A3C62-0D1B-4E58-9C21-5B6E8A907D13',
      'app://-',
      'x-app.2+a://local_host:8080',
    ].map((origin): [string, string[], Environment, object] => [
      `as the origin ${origin}`,
      ['--cors', origin],
      {},
      { cors: [origin] },
    ]),
    ['as an unusual path', ['--database', 'sqlite:a b?c#d.db'], {}, { database: 'sqlite:a b?c#d.db' }],
    ['as a URL with an encoded password', ['--database', 'postgres://u:p%40%2F@h/x'], {}, {}],
    ['as a URL with a bare @ in the password', ['--database', 'postgres://u:p@ss@h/x'], {}, {}],
    ['as a URL of a socket', ['--database', 'postgres://user@/db?host=/var/run/postgresql'], {}, {}],
    ['as a URL with several hosts', ['--database', 'postgres://u:a,b@h1:5432,h2:5432/x'], {}, {}],
    ['as a URL with a socket', ['--database', 'postgresql:///x?host=/run'], {}, {}],
  ];
  for (const [name, argv, env, expected] of rows) {
    it(name, () => {
      const { config } = parseConfig(argv, env);
      for (const [option, value] of Object.entries(expected)) {
        assert.deepEqual(config[option as keyof Config], value, option);
      }
      assert.ok(Object.isFrozen(config));
    });
  }
});

const needsValue = (flag: string) =>
  `${flag} must have a value; one that begins with a dash is written ${flag}=VALUE`;

describe('a mistake is named with its option and what it must be', () => {
  type Row = [argv: string[], expected: string, env?: Environment];
  const rows: Row[] = [
    ...['\n', '\r', '\t', '\0', '\x7f'].map(
      (end): Row => [
        [],
        `DATABASE_URL must be a path without control characters, such as a line break, not ${JSON.stringify(`sqlite:users.db${end}`)}`,
        { DATABASE_URL: `sqlite:users.db${end}` },
      ],
    ),
    [['--port', '65536'], '--port must be a whole number from 0 to 65535, not "65536"'],
    [['--port=-1'], '--port must be a whole number from 0 to 65535, not "-1"'],
    [['--port', '-1'], needsValue('--port')],
    [['--port', '1e3'], '--port must be a whole number from 0 to 65535, not "1e3"'],
    [['--port', '0x10'], '--port must be a whole number from 0 to 65535, not "0x10"'],
    [['--port', ' 80'], '--port must be a whole number from 0 to 65535, not " 80"'],
    [['--port='], '--port must be a whole number from 0 to 65535, not ""'],
    [[], 'PORT must be a whole number from 0 to 65535, not "x"', { PORT: 'x' }],
    [[], 'MAX_BODY_BYTES must be a whole number from 1 to 67108864, not "0"', { MAX_BODY_BYTES: '0' }],
    [['--grpc-port', 'on'], '--grpc-port must be off (false) or a whole number from 0 to 65535, not "on"'],
    [['--auth', 'some'], '--auth must be one of none, writes, all, not "some"'],
    [['--auth', 'nobody'], '--auth must be one of none, writes, all, not "nobody"'],
    [['--host='], '--host must be an address or a host name, not ""'],
    [['--host', 'http://x'], '--host must be an address or a host name, not "http://x"'],
    [
      ['--require-preconditions=maybe'],
      '--require-preconditions must be on or off (true or false), not "maybe"',
    ],
    ...[
      'a.example',
      'https://a.example/',
      'https://a.example/path',
      'https://*.a.example',
      'ws://a.example',
      'https://A.example',
      'https://a.example:443',
      'null',
      'https://a.example,file:///x',
      'file://x',
      'file://',
      'ftp://a.example',
      'capacitor://',
      'capacitor://*',
      'capacitor://localhost/',
      'capacitor://localhost:',
      'Capacitor://localhost',
      'capacitor:localhost',
      'htt ps://a.example',
      'tauri://user@localhost',
    ].map(
      (written): Row => [
        ['--cors', written],
        '--cors must be a list of * or origins such as https://app.example, without wildcards and paths, ' +
          `not "${written}"`,
      ],
    ),
    ...['ä', 'a,b c', 'a,\u{7f}'].map(
      (written): Row => [
        [],
        'API_KEY must be a list of keys as KEY or NAME:SCOPES=KEY (an API key must consist of visible ASCII characters)',
        { API_KEY: written },
      ],
    ),
    ...['writes', 'all'].map(
      (mode): Row => [[], `--auth "${mode}" needs --api-key or --api-keys-file`, { AUTH: mode }],
    ),
    [['--database', 'sqlite:'], `--database must be ${urlForms}, not "sqlite:"`],
    [['--database', 'sqlite::memory:'], `--database must be ${urlForms}, not "sqlite::memory:"`],
    ...['sqlite:~/x.db', 'sqlite:~'].map(
      (url): Row => [
        ['--database', url],
        `--database must be a path without ~, which only a shell replaces by your home folder, not "${url}"`,
      ],
    ),
    [['--database', 'sqlite://x.db'], `--database must be ${urlForms}, not "sqlite://x.db"`],
    [['--port'], needsValue('--port')],
    [['--host', '--port', '1'], needsValue('--host')],
    [['--port', '1', '--port=1'], '--port must be given once'],
    [['--prot', '1'], '--prot is not an option; --help lists all options'],
    [['--database:postgres://u:s3cret@h/db'], '--database is not an option; --help lists all options'],
    [['--api-key s3cret'], '--api-key is not an option; --help lists all options'],
    [['--api-key of two\nlines'], '--api-key is not an option; --help lists all options'],
    [['--tls-keys', 'x'], '--tls-keys is not an option; --help lists all options'],
    [['--api-keys3cret'], '--api-key… is not an option; --help lists all options'],
    [['--API-KEY-s3cret=x'], '--API-KEY… is not an option; --help lists all options'],
    [['--Public=x'], '--Public is not an option; --help lists all options'],
    [['--__proto__', 'x'], '--__proto__ is not an option; --help lists all options'],
    [['--constructor=x'], '--constructor is not an option; --help lists all options'],
    [['-p', '8080'], '-p is not an option; --help lists all options'],
    [['--port', '1', 'stray'], 'argument 3 is not expected; --help lists all options'],
    [['--', 'stray'], 'argument 2 is not expected; --help lists all options'],
    [['--tls-cert', 'x'], '--tls-cert and --tls-key must be given together'],
    [[], '--tls-cert and --tls-key must be given together', { TLS_KEY: 'x' }],
    [['--port', '1', '--grpc-port', '1'], '--port and --grpc-port must differ, not both be 1'],
    [
      ['--workers', '2', '--database', 'memory:'],
      '--workers must be 1 with --database memory:, which processes cannot share',
    ],
    [['--read-database', 'postgres://h/x'], '--read-database needs a postgres: database'],
    [
      ['--read-database', 'sqlite:x'],
      '--read-database must be a URL as postgres://USER@HOST,HOST/NAME, not "sqlite:x"',
    ],
  ];
  for (const [argv, expected, env = {}] of rows) {
    it(`${argv.join(' ')} ${Object.entries(env).join(' ')}`.trim(), () => {
      assert.deepEqual(problems(argv, env), [expected]);
    });
  }

  it('all wrong values are reported together', () => {
    assert.equal(problems(['--port', 'x', '--host', '', '--auth', 'z'], { WORKERS: '0' }).length, 4);
  });
});

describe('a secret is never printed', () => {
  const secret = 'hunter2';
  const urls = [
    `postgres://u:${secret}@h/x`,
    `postgres://u:${secret}/${secret}@h/x`,
    `postgres://u:a@${secret}@h/x`,
    `postgres://u:${secret}@h/x?sslpassword=${secret}&password=${secret}&PASSWORD=${secret}`,
    `postgres://:${secret}@h/x`,
    `mysql://root:${secret}@h/x`,
    `mysql://root:a@b:${secret}@h/x`,
    `postgres://u:two words ${secret}@h/x`,
    `postgres://u:${secret}@h:99999/x`,
    // Without a scheme that is known, or without its slashes.
    `u:${secret}@h/x`,
    `u:a@${secret}@h/x?password=a`,
    `postgres:u:${secret}@h/x`,
    `postgres:/u:${secret}@h/x`,
    `postgres:///u:${secret}@h/x`,
    `POSTGRES://u:${secret}@h/x`,
  ];
  for (const url of urls) {
    it(`in ${url}`, () => {
      const shown = [...problems(['--database', url]), ...problems([], { DATABASE_URL: url })];
      if (shown.length === 0) shown.push(printConfig(parseConfig(['--database', url], {})));
      assert.doesNotMatch(shown.join('\n'), new RegExp(secret));
      assert.match(shown.join('\n'), /\(hidden\)@h/);
    });
  }

  const keys: string[][] = [
    ['--api-key', `${secret},`],
    ['--api-key', 'a,', secret],
    ['--apikey', secret],
    ['--api-kye', secret],
    [`--apikey=${secret}`],
    ['--auth', secret],
    ['--log', secret],
    ['--api-key', secret, '--api-key', secret],
    [secret],
  ];
  for (const argv of keys) {
    it(`in ${argv.join(' ')}`, () => {
      const found = problems(argv);
      assert.ok(found.length > 0);
      assert.doesNotMatch(found.join('\n'), new RegExp(secret));
    });
  }

  it('in the output of --print-config', () => {
    const text = printConfig(parseConfig(['--api-key', `${secret},b`], {}));
    assert.match(text, /^api-key = "\(hidden\)" {2}# flag$/m);
    assert.doesNotMatch(text, new RegExp(secret));
  });
});

describe('the texts of options', () => {
  it('--print-config lists the value and the source of each option', () => {
    const argv = [
      '--port',
      '8080',
      '--database',
      'postgres://me:pw@db/users',
      '--read-database',
      'postgres://me:pw@a,b/users',
    ];
    const lines = printConfig(parseConfig(argv, { WORKERS: '2' })).split('\n');
    assert.deepEqual(lines.slice(0, 10), [
      'host = "127.0.0.1"  # default',
      'port = "8080"  # flag',
      'grpc-port = "50051"  # default',
      'database = "postgres://me:(hidden)@db/users"  # flag',
      'read-database = "postgres://me:(hidden)@a,b/users"  # flag',
      'api-key = ""  # default',
      'api-keys-file = ""  # default',
      'auth = "none"  # default',
      'public = ""  # default',
      'workers = "2"  # environment',
    ]);
    assert.equal(lines.length, optionRows.length + 1, 'there must be one line for each option');
  });

  it('--help has the flag, variable, meaning and default of each option, in lines of at most 80 columns', () => {
    const text = optionsHelp();
    const host = '  --host HOST, $HOST\n      Address that both ports listen on. [127.0.0.1]';
    assert.ok(text.includes(`\n\n${host}\n  --port`));
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    const blocks = text.split(/^ {2}(?=--)/m).slice(1);
    assert.equal(blocks.length, optionRows.length);
    for (const [index, [flag, row]] of optionRows.entries()) {
      const [, given, variable, meaning] = /^--(\S+) .+, \$(\w+)\n(.+)$/s.exec(blocks[index] ?? '') ?? [];
      const value = defaultText(row);
      assert.deepEqual(
        [given, variable, meaning?.trim().replaceAll(/\s+/g, ' ')],
        [flag, variableOf(flag), value === '' ? row.meaning : `${row.meaning} [${value}]`],
      );
    }
  });

  it('the meaning of each option is a sentence with its unit, if any', () => {
    for (const [flag, { meaning }] of optionRows) {
      assert.match(meaning, /^[A-Z].*\.$|^gRPC /, flag);
      if (flag.endsWith('-ms')) assert.match(meaning, / in ms[,;.]/, flag);
      if (flag.endsWith('-bytes')) assert.match(meaning, / in bytes\./, flag);
    }
  });
});

describe('the table of options', () => {
  it('has valid defaults', () => {
    const { config } = parseConfig([], {});
    assert.deepEqual(config, Object.fromEntries(optionRows.map(([flag, row]) => [flag, row.default])));
  });

  for (const [name, options] of Object.entries({
    databse: { databse: 'memory:' },
    'api-key': { 'api-key': ['k'] },
    workers: { workers: 2 },
    'limits.maxHeader': { limits: { maxHeader: 1 } },
    'limits.maxHeaders': { 'limits.maxHeaders': 50 },
    'timeouts.port': { timeouts: { port: 0 } },
    'grpcLimits.checkingIntervalMs': { grpcLimits: { checkingIntervalMs: 1 } },
  })) {
    it(`does not contain ${name}, which the library rejects`, () => {
      const error = { name: 'TypeError', message: `${name} is not an option` };
      assert.throws(() => createService(options as ServiceOptions), error);
    });
  }

  for (const [name, options] of Object.entries({
    datbase: { datbase: 'memory:' },
    port: { port: 1 },
    timeouts: { timeouts: {} },
    'limits.maxHeader': { limits: { maxHeader: 1 } },
  })) {
    it(`a listener rejects ${name}, which is not one of its options`, () => {
      const all = { repository: createMemoryStore(), publicDir: false, ...options };
      const given = all as RequestListenerOptions;
      const error = { name: 'TypeError', message: `${name} is not an option` };
      assert.throws(() => createRequestListener(given), error);
      assert.throws(() => createFetchHandler(given), error);
    });
  }

  for (const basePath of ['api', '/api/', '/', '//', '/a//b', '/a?b', '/a#b', null, 5, ['/api']]) {
    it(`has no base path ${JSON.stringify(basePath)}: the library rejects it`, () => {
      const options: object = { repository: createMemoryStore(), basePath };
      const given = typeof basePath === 'string' ? JSON.stringify(basePath) : basePath;
      const requirement = 'empty or like "/api", without a slash at its end';
      const error = { name: 'TypeError', message: `basePath must be ${requirement}, not ${given}` };
      assert.throws(() => createService(options), error);
      assert.throws(() => createRequestListener(options as RequestListenerOptions), error);
    });
  }

  for (const [name, options] of [
    ['timeouts', { timeouts: 5_000 }],
    ['limits', { limits: 'none' }],
    ['options', null],
    ['options', 'memory:'],
  ] as const) {
    it(`is read from objects: the library rejects ${JSON.stringify(options)}`, () => {
      const error = { name: 'TypeError', message: `${name} must be an object` };
      assert.throws(() => createService(options as ServiceOptions), error);
    });
  }

  const wrong: [name: string, options: ServiceOptions, error: object][] = [
    ['port', { port: 65_536 }, { message: 'port must be a whole number from 0 to 65535, not 65536' }],
    [
      'grpcPort',
      { grpcPort: -1 },
      { message: 'grpcPort must be off (false) or a whole number from 0 to 65535, not -1' },
    ],
    ['number', { port: '80' as unknown as 80 }, { message: /^port must be .* 65535, not "80"$/ }],
    ['not a number', { drainDelayMs: Number.NaN }, { message: /^drainDelayMs .* not NaN$/ }],
    ['fraction', { drainIdleMs: 0.5 }, { message: /^drainIdleMs .* not 0.5$/ }],
    ['host', { host: '' }, { message: 'host must be an address or a host name, not ""' }],
    ['database', { database: 'mysql://u:hunter2@h' }, { message: /^database must be memory: or [^0-9]*$/ }],
    ['auth', { auth: 'some' as 'all' }, { message: 'auth must be one of none, writes, all, not "some"' }],
    [
      'secrets',
      { apiKeys: ['s3', 'a:read=s3'] },
      { message: /^apiKeys must be [^3]* \(each API key must have a different secret\)$/ },
    ],
    [
      'digests',
      { apiKeys: ['sha256:e3b0'] },
      { message: /^apiKeys must be .* \(an API key must have 64 hexadecimal digits after sha256:\)$/ },
    ],
    ['empty key', { apiKeys: [''] }, { message: /^apiKeys must be .* of visible ASCII characters\)$/ }],
    ['apiKeys', { apiKeys: ['ä'] }, { message: /^apiKeys must be a list of keys [^ä]*$/ }],
    ['cors', { cors: ['https://a.example', ''] }, { message: /^cors must be a list of \* or origins/ }],
    ['limits', { limits: { maxHeaders: 1_001 } }, { message: /^limits.maxHeaders .* 1 to 1000, not 1001$/ }],
    [
      'checks',
      { timeouts: { checkingIntervalMs: 0 } },
      { message: /^timeouts.checkingIntervalMs .* not 0$/ },
    ],
    ['timeouts', { timeouts: { requestTimeoutMs: 2 ** 31 } }, { message: /^timeouts.requestTimeoutMs / }],
    [
      'grpcLimits',
      { grpcLimits: { maxMessageBytes: 15 } },
      { message: /^grpcLimits.maxMessageBytes .* 16 / },
    ],
  ];
  for (const [name, options, error] of wrong) {
    it(`has the range that the library uses to check ${name}`, () => {
      assert.throws(() => createService(options), error);
    });
  }
});

it('options that an object of the library inherits are read, checked and frozen', () => {
  const inherited = (values: object): object => Object.create(Object.create(values));
  const options = readOptions(inherited({ port: 8080, limits: inherited({ maxHeaders: 5 }) }));
  assert.equal(options.port, 8080);
  assert.equal(options.limits.maxHeaders, 5);
  assert.equal(options.host, '127.0.0.1');
  assert.ok([options, options.limits, options.timeouts, options.grpcLimits].every(Object.isFrozen));
  assert.throws(() => readOptions(inherited({ port: -1 })), /^RangeError: port must be/);
  assert.throws(
    () => createService(inherited({ timeouts: inherited({ requestTimeoutMs: -1 }) })),
    RangeError,
  );
});
