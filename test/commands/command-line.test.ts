import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import fs, { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { adopt } from '../../src/commands/command-line.ts';
import { describeError } from '../../src/commands/errors.ts';
import { variableOf } from '../../src/commands/settings.ts';
import { optionRows } from '../../src/config.ts';
import { urlForms } from '../../src/storage/open.ts';
import { runMain, withoutCoverage } from '../kit/process.ts';
import { createCertificate } from '../support/certificate.ts';
import { runCommand } from '../support/command.ts';
import { mockBuiltin } from '../support/mock-builtin.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

describe('help and version', () => {
  for (const name of ['export', 'copy']) {
    it(`${name} --help says that a store with an older schema is migrated`, async () => {
      assert.match((await runCommand([name, '--help'])).stdout, /with an older schema is migrated/);
    });
  }

  for (const argv of [['--help'], ['-h'], ['help'], ['serve', '--help'], ['--port', 'x', '--help']]) {
    it(`${argv.join(' ')} lists every option and every command`, async () => {
      const { code, stdout, stderr } = await runCommand(argv);
      assert.deepEqual([code, stderr], [0, '']);
      assert.match(stdout, /^users-service: .*\n\nusage: users-service \[serve\] \[options\]\n/);
      for (const [flag] of optionRows) {
        assert.match(stdout, new RegExp(`--${flag} .*, \\$${variableOf(flag)}\n`));
      }
      for (const name of commands) assert.match(stdout, new RegExp(`users-service ${name} `));
      assert.ok(stdout.replaceAll('\n', ' ').includes(` The URL of a store is ${urlForms}. `));
    });
  }

  const commands = ['copy', 'export', 'import', 'backup', 'verify', 'doctor'];
  for (const name of commands) {
    it(`${name} --help lists its options without running the command`, async () => {
      for (const argv of [
        [name, '--help'],
        [name, '--nope', '-h'],
        ['help', name],
      ]) {
        const { code, stdout, stderr } = await runCommand(argv, {
          env: { DATABASE_URL: 'sqlite:/nowhere/x.db' },
        });
        assert.deepEqual([code, stderr], [0, '']);
        assert.ok(stdout.startsWith(`usage: users-service ${name} `), stdout);
        assert.match(stdout, /\bsqlite:PATH\b/, 'the help must name the URLs of stores');
        assert.match(
          stdout,
          name === 'copy' ? /^ {2}--from URL .*(?:\n {14}.*)*\n {2}--to URL /m : /^ {2}--database URL\b/m,
        );
      }
    });
  }

  for (const name of ['serve', 'changes', ...commands]) {
    it(`${name} --help has lines of at most 80 columns`, async () => {
      const { stdout } = await runCommand([name, '--help']);
      for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
    });
  }

  for (const argv of [['--version'], ['-v'], ['version'], ['export', '--version']]) {
    it(`${argv.join(' ')} prints the version of the package`, async () => {
      const manifest = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
      const printed = await runCommand(argv);
      assert.partialDeepStrictEqual(printed, { code: 0, stdout: `${manifest.version}\n`, stderr: '' });
    });
  }

  const verifyMemory = ['verify', '--database', 'memory:'];
  for (const argv of [['--help'], ['version'], ['--print-config'], ['doctor'], verifyMemory]) {
    it(`${argv.join(' ')} fails if its output cannot be written, for example to a full disk`, async () => {
      const writeError = new Error('ENOSPC: no space left on device, write');
      const { code, stderr } = await runCommand(argv, { writeError });
      assert.deepEqual([code, stderr], [1, `users-service: ${writeError.message}\n`]);
    });
  }

  for (const argv of [['--help'], ['version'], ['--print-config'], verifyMemory]) {
    it(`${argv.join(' ')} succeeds if its reader closes the pipe early`, async () => {
      const writeError = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
      const { code, stderr } = await runCommand(argv, { writeError });
      assert.deepEqual([code, stderr], [0, '']);
    });
  }

  it('--print-config does not start the service and prints no secret', async () => {
    const env = { API_KEY: 'hunter2', DATABASE_URL: 'postgres://u:hunt\nhunter2@h/x' };
    const { code, stdout, stderr } = await runCommand(['--print-config', '--port', '1'], { env });
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^port = "1" {2}# flag$/m);
    assert.match(stdout, /^database = "postgres:\/\/u:\(hidden\)@h\/x" {2}# environment$/m);
    assert.doesNotMatch(stdout, /hunter2/);
  });
});

describe('an invalid command line', () => {
  it('prints a line for each wrong value and exits with 2', async () => {
    const { code, stdout, stderr } = await runMain(['--port', 'x'], { env: { AUTH: 'y' } });
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
    assert.deepEqual(stderr.split('\n'), [
      'users-service: --port must be a whole number from 0 to 65535, not "x"',
      'users-service: AUTH must be one of none, writes, all, not "y"',
      '',
    ]);
  });

  for (const name of ['server', 'constructor', 'toString', '__proto__', 'hasOwnProperty']) {
    it(`with ${name} reports that it is not a command`, async () => {
      const { code, stderr } = await runCommand([name]);
      const names = 'serve, copy, export, import, backup, changes, verify, doctor, help and version';
      const expected = `users-service: "${name}" is not a command; the commands are ${names}\n`;
      assert.deepEqual([code, stderr], [2, expected]);
    });
  }

  const calls: [argv: string[], problem: string][] = [
    [['-p', '8080'], '-p is not an option; --help lists all options'],
    [['export', '-p', 'x'], '-p is not an option; --help lists all options'],
    [['export', '--databse=x'], '--databse is not an option; --help lists all options'],
    [['import', 'a', 'b'], 'argument 2 is not expected; --help lists all options'],
    [
      ['copy', '--from', '--to'],
      '--from must have a value; one that begins with a dash is written --from=VALUE',
    ],
    [['import', '--partial=yes'], '--partial takes no value'],
    [
      ['export', '/nowhere/all.ndjson', '--database', 'memory:'],
      'memory: loses its records when its process ends',
    ],
    [['export', '--database='], `--database must be ${urlForms}, not ""`],
    [['export', '--database', '-'], `--database must be ${urlForms}, not "-"`],
    [
      ['--port', '0', '--grpc-port', 'off', '--database', 'postgres://h/d?target_session_attrs=x'],
      '--database: target_session_attrs must be read-write, primary or any',
    ],
    [
      [
        '--port',
        '0',
        '--grpc-port',
        'off',
        '--database',
        'postgres://h/d',
        '--read-database',
        'postgres://h,h:x/d',
      ],
      '--read-database: cannot be used: Invalid URL',
    ],
    [
      ['export', '--database', 'postgres://h/d?target_session_attrs=x'],
      'target_session_attrs must be read-write, primary or any',
    ],
    ...['123#s3cret', '#s3cret', '12?s3cret'].map((password): [argv: string[], problem: string] => [
      ['export', '--database', `postgres://bob:${password}@db/app`],
      '--database must be a URL with a port up to 65535 and a password with %, @, /, ? and # as %25, %40, %2F, %3F and %23, not "postgres://bob:(hidden)@db/app"',
    ]),
    [
      ['--database', 'postgres://h:65536/d'],
      '--database must be a URL with a port up to 65535 and a password with %, @, /, ? and # as %25, %40, %2F, %3F and %23, not "postgres://h:65536/d"',
    ],
    [
      ['export', '--database', 'postgres://h/d?port=65536'],
      'the database URL cannot be used: port must be a whole number from 0 to 65535, not 65536',
    ],
    // As libpq and ADO.NET write the address of a database.
    [
      ['export', '--database', 'password=s3cret host=db'],
      `--database must be ${urlForms}, not "password=(hidden) host=db"`,
    ],
    [
      ['export', '--database', "host = db password = 's3 cret' user = bob"],
      `--database must be ${urlForms}, not "host = db password = (hidden) user = bob"`,
    ],
    [
      ['export', '--database', 'Host=db; Pwd="s3 cret"; Username=bob'],
      `--database must be ${urlForms}, not "Host=db; Pwd=(hidden); Username=bob"`,
    ],
    [
      ['export', '--database', 'Host=db;Username=bob;Password=s3cret'],
      `--database must be ${urlForms}, not "Host=(hidden)"`,
    ],
    [['backup'], 'usage: users-service backup FILE [--database URL]'],
    // As a variable of a script that is not set.
    ...['backup', 'export', 'import', 'serve'].map((name): [argv: string[], problem: string] => [
      [name, ''],
      'argument 1 is empty; --help lists all options',
    ]),
    [
      ['postgres://bob:s3cret@db/app'],
      '"postgres://bob:(hidden)@db/app" is not a command; the commands are serve, copy, export, import, backup, changes, verify, doctor, help and version',
    ],
    [
      ['API_KEY=s3cret', 'serve'],
      '"API_KEY…" is not a command; the commands are serve, copy, export, import, backup, changes, verify, doctor, help and version',
    ],
  ];
  for (const [argv, problem] of calls) {
    it(`${argv.join(' ')} prints the problem and exits with 2`, async () => {
      const stderr = `users-service: ${problem}\n`;
      assert.partialDeepStrictEqual(await runCommand(argv), { code: 2, stdout: '', stderr });
    });
  }
});

describe('the text of an error', async () => {
  const missing: Error = await stat('/nowhere').catch((error) => error);
  const rows: [name: string, error: unknown, expected: string][] = [
    ['is its message', new Error('broken'), 'broken'],
    [
      'ends with those of its causes',
      chain('not available', 'no answer', 'ECONNREFUSED'),
      'not available: no answer: ECONNREFUSED',
    ],
    ['does not repeat a cause', chain('cannot open x: disk full', 'disk full'), 'cannot open x: disk full'],
    ['has each of several causes', new AggregateError([new Error('a'), new Error('b')], ''), 'a, b'],
    ['is one line', new Error('one\n  two'), 'one two'],
    [
      'has no password',
      chain('no', 'postgres://u:hun@ter2@h/x?password=hunter2'),
      'no: postgres://u:(hidden)@h/x?password=(hidden)',
    ],
    [
      'has no password whose name is encoded',
      new Error('postgres://h/x?sslcert=/run/secrets/a&passw%6Frd=hunter2&sslp%61ssword=%zz=hunter2'),
      'postgres://h/x?sslcert=/run/secrets/a&passw%6Frd=(hidden)&sslp%61ssword=(hidden)',
    ],
    [
      'has no password whose name has a space',
      new Error('no such host: postgres://h/x?sslmode=require&password =hunter2 or &old password 1=hunter2'),
      'no such host: postgres://h/x?sslmode=require&password =(hidden) or &old password 1=(hidden)',
    ],
    [
      'has no password inside the value of another parameter',
      new Error(
        'postgres://h/x?options=-c%20a.token%3Dhunter2&sslmode=require or ?options=-c a.secret=hunter2',
      ),
      'postgres://h/x?options=(hidden)&sslmode=require or ?options=-c a.secret=(hidden)',
    ],
    [
      'has no password whose name has capitals or continues',
      new Error('postgres://h/x?PASSWORD=hunter2&secret_key=hunter2'),
      'postgres://h/x?PASSWORD=(hidden)&secret_key=(hidden)',
    ],
    [
      'has a value after the word password',
      new Error('no password was given for user=ada'),
      'no password was given for user=ada',
    ],
    [
      'has no escape sequences for a terminal',
      new Error('line 1: "\u009b31m" \u001b[31m'),
      'line 1: "\uFFFD31m" \uFFFD[31m',
    ],
    ['is a thrown value that is not an Error', 'text', 'text'],
    ['has the path of a file before the reason', missing, '/nowhere: no such file or directory'],
    [
      'does not repeat the path of a file',
      new Error('cannot write to /nowhere', { cause: missing }),
      'cannot write to /nowhere: no such file or directory',
    ],
    [
      'does not repeat the failure of a file',
      new Error(`cannot copy: ${missing.message}`, { cause: missing }),
      "cannot copy: ENOENT: no such file or directory, stat '/nowhere'",
    ],
  ];
  for (const [name, error, expected] of rows) {
    it(name, () => assert.equal(describeError(error), expected));
  }

  it('ends when causes form a cycle', () => {
    const error = new Error('a');
    error.cause = error;
    assert.equal(describeError(error), 'a');
    assert.equal(describeError(new Error('a b', { cause: error })), 'a b');
  });

  it('of a failed command contains the reason but not the password', async () => {
    const database = 'postgres://u:hunter2@127.0.0.1:1/x';
    const { code, stderr } = await runCommand(['export', '--database', database]);
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: .*: connect ECONNREFUSED 127\.0\.0\.1:1\n$/);
    assert.doesNotMatch(stderr, /hunter2/);
  });

  it('of a failed command is the original one although cleaning up fails too', async (t) => {
    const { rm } = fs;
    mockBuiltin(t, fs, 'rm', async (...given: Parameters<typeof rm>) => {
      await rm(...given);
      throw new Error('busy');
    });
    const args = ['import', '--database', 'sqlite:never-created.db'];
    const { code, stderr } = await runCommand(args, { input: 'no JSON' });
    assert.deepEqual([code, stderr], [1, 'users-service: line 1 is not JSON: "no JSON"\n']);
  });

  function chain(message: string, ...causes: string[]): Error {
    const [next, ...rest] = causes;
    return new Error(message, next === undefined ? {} : { cause: chain(next, ...rest) });
  }
});

describe('files and folders of options are checked before the database is created', () => {
  const [good, other] = [createCertificate('good'), createCertificate('other')];
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const lock = { cipher: 'aes-128-cbc', passphrase: 'a passphrase' };
  const pem = {
    'good.crt': good.cert,
    'good.key': good.key,
    'other.key': other.key,
    'rsa.key': privateKey.export({ type: 'pkcs8', format: 'pem' }),
    'locked.key': privateKey.export({ type: 'pkcs8', format: 'pem', ...lock }),
    'a.txt': 'no PEM',
  };
  const tls = (cert: string, key: string): string[] => ['--tls-cert', cert, '--tls-key', key];
  const noFile = '(ENOENT)';
  const rows: [name: string, argv: string[], env: Record<string, string>, expected: string[]][] = [
    [
      'a missing public folder',
      ['--public', 'none'],
      {},
      [`--public must be a folder that can be read, not "none" ${noFile}`],
    ],
    [
      'a file instead of the public folder',
      [],
      { PUBLIC_DIR: 'a.txt' },
      ['PUBLIC_DIR must be a folder that can be read, not "a.txt" (ENOTDIR)'],
    ],
    [
      'a missing certificate and key',
      tls('none', 'none'),
      {},
      [
        `--tls-cert must be a certificate chain in PEM that can be read, not "none" ${noFile}`,
        `--tls-key must be a private key in PEM that can be read, not "none" ${noFile}`,
      ],
    ],
    [
      'an invalid certificate',
      tls('a.txt', 'good.key'),
      {},
      ['--tls-cert must be a certificate chain in PEM that can be read, not "a.txt" (ERR_OSSL)'],
    ],
    [
      'an invalid key',
      [],
      { TLS_CERT: 'good.crt', TLS_KEY: 'a.txt' },
      ['TLS_KEY must be a private key in PEM that can be read, not "a.txt" (ERR_OSSL)'],
    ],
    [
      'the key of another certificate',
      tls('good.crt', 'other.key'),
      {},
      ['--tls-key must be the key of the certificate, not "other.key" (ERR_OSSL)'],
    ],
    [
      'a key of another algorithm than the certificate',
      tls('good.crt', 'rsa.key'),
      {},
      [
        '--tls-key must be the key of the certificate, not "rsa.key" ' +
          '(the key has another algorithm than the certificate)',
      ],
    ],
    [
      'an encrypted key',
      tls('good.crt', 'locked.key'),
      {},
      ['--tls-key must be a private key in PEM that can be read, not "locked.key" (ERR_OSSL)'],
    ],
    [
      'the content of a certificate and its key instead of their paths',
      [],
      // Some tools write line breaks of a variable as \\n.
      {
        TLS_CERT: 's3cret'.repeat(50),
        TLS_KEY: '-----BEGIN PRIVATE KEY-----\\ns3cret',
      },
      [
        'TLS_CERT must be a certificate chain in PEM that can be read, not its content (ENAMETOOLONG)',
        'TLS_KEY must be a private key in PEM that can be read, not its content (ENOENT)',
      ],
    ],
    [
      'the content of a file of keys instead of its path',
      [],
      { API_KEYS_FILE: 'app:read=s3cret' },
      ['API_KEYS_FILE must be a file of API keys that other users may not read, not its content (ENOENT)'],
    ],
    [
      'an API key instead of the path of a file of keys',
      [],
      { API_KEYS_FILE: '0123'.repeat(8) },
      ['API_KEYS_FILE must be a file of API keys that other users may not read, not its content (ENOENT)'],
    ],
    [
      'a missing public folder with --print-config',
      ['--print-config', '--public', 'none'],
      {},
      [`--public must be a folder that can be read, not "none" ${noFile}`],
    ],
    [
      'a missing file with several workers, reported once',
      ['--public', 'none', '--workers', '2'],
      {},
      [`--public must be a folder that can be read, not "none" ${noFile}`],
    ],
  ];
  for (const [name, argv, env, expected] of rows) {
    it(name, async () => {
      const folder = temporaryFolder();
      await Promise.all(Object.entries(pem).map(([file, text]) => writeFile(join(folder, file), text)));
      const inFolder = (text: string) => (text === 'none' || text in pem ? join(folder, text) : text);
      const files = Object.entries(env).map(([variable, text]) => [variable, inFolder(text)]);
      const { code, stdout, stderr } = await runCommand(argv.map(inFolder), {
        env: {
          PORT: '0',
          GRPC_PORT: '0',
          DATABASE_URL: `sqlite:${folder}/x.db`,
          ...Object.fromEntries(files),
        },
      });
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
      // The reason depends on the version of OpenSSL.
      const lines = stderr.replaceAll(/ERR_OSSL_\w+/g, 'ERR_OSSL').replaceAll(`${folder}/`, '');
      assert.deepEqual(lines.split('\n'), [...expected.map((line) => `users-service: ${line}`), '']);
      assert.deepEqual((await readdir(folder)).sort(), Object.keys(pem).sort(), 'no database was created');
    });
  }

  it('a public folder whose files can be listed but not opened, by the service and by doctor', {
    skip: process.platform === 'win32' && 'Windows has no such file modes',
  }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'files-'));
    const site = join(folder, 'site');
    t.after(async () => {
      // Another user than root cannot remove the file otherwise.
      await chmod(site, 0o755);
      await rm(folder, { recursive: true });
    });
    await mkdir(site);
    await writeFile(join(site, 'index.html'), '');
    await chmod(site, 0o444);
    await chmod(folder, 0o755);
    const moduleOf = (name: string) =>
      JSON.stringify(new URL(`../../src/commands/${name}.ts`, import.meta.url).href);
    const args = ['--public', site, '--database', 'memory:', '--port', '0', '--grpc-port', 'off'];
    // Change the user after the imports, because the other user may have no access to the checkout. `run` would import.
    const source = `
      import { readArguments } from ${moduleOf('command-line')};
      import { doctor } from ${moduleOf('doctor')};
      import { serve } from ${moduleOf('serve')};
      if (process.getuid() === 0) process.setuid(65_534);
      const { stdin, stdout, stderr, version: nodeVersion, exit } = process;
      const ignore = () => undefined;
      const context = { args: [], env: {}, nodeVersion, stdin, stdout, stderr, onSignal: ignore, onCrash: ignore, exit };
      for (const command of [serve, doctor]) {
        const given = readArguments(${JSON.stringify(args)}, command);
        await command.run(context, given).catch(({ message }) => stderr.write(message));
      }`;
    const { stdout, stderr } = await runTool(process.execPath, ['--input-type=module', '--eval', source], {
      env: withoutCoverage(),
    });
    const problem = `--public must be a folder that can be read, not "${site}" (EACCES)`;
    assert.equal(stderr, problem);
    assert.ok(stdout.includes(`\nfail  ${problem}; `), stdout);
  });
});

describe('the clean-up of a value that is still being made', () => {
  it('ends the value once it is made', async () => {
    const making = Promise.withResolvers<string>();
    const ended: string[] = [];
    const stack = new AsyncDisposableStack();
    const adopted = adopt(stack, making.promise, async (made) => void ended.push(made));
    const cleaned = stack.disposeAsync();
    making.resolve('a store');
    assert.equal(await adopted, 'a store');
    await cleaned;
    assert.deepEqual(ended, ['a store']);
  });

  it('succeeds if the value cannot be made', async () => {
    const stack = new AsyncDisposableStack();
    const adopted = adopt(stack, Promise.reject(new Error('no store')), async () => assert.fail());
    await assert.rejects(adopted, { message: 'no store' });
    await stack.disposeAsync();
  });
});
