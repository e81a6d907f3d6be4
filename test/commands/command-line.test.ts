import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { variableOf } from '../../src/commands/command-line.ts';
import { optionRows } from '../../src/config.ts';
import { runMain } from '../kit/process.ts';
import { createCertificate } from '../support/certificate.ts';

describe('what is asked for instead of service', () => {
  it('--help tells every option, and that there is nothing wrong', async () => {
    for (const argv of [['--help'], ['-h'], ['serve', '--help'], ['--port', 'x', '--help']]) {
      const { code, stdout, stderr } = await runMain(argv);
      assert.deepEqual([code, stderr], [0, '']);
      assert.match(stdout, /^users-service: .*\n\nusage: users-service \[serve\] \[options\]\n/);
      for (const [flag] of optionRows) assert.match(stdout, new RegExp(`--${flag} .* ${variableOf(flag)} `));
    }
  });

  it('--version is the version of the package', async () => {
    const manifest = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'));
    assert.deepEqual(await runMain(['--version']), { code: 0, stdout: `${manifest.version}\n`, stderr: '' });
  });

  it('--print-config starts nothing and shows no secret', async () => {
    const env = { API_KEY: 'hunter2', DATABASE_URL: 'postgres://u:hunter2@h/x' };
    const { code, stdout, stderr } = await runMain(['--print-config', '--port', '1'], { env });
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^port = "1" {2}# flag$/m);
    assert.match(stdout, /^database = "postgres:\/\/u:\(hidden\)@h\/x" {2}# environment$/m);
    assert.doesNotMatch(stdout, /hunter2/);
  });
});

describe('the help of a command', () => {
  for (const name of ['copy', 'export', 'import', 'backup']) {
    it(`${name} --help tells its own options, and does nothing`, async () => {
      for (const argv of [
        [name, '--help'],
        [name, '--nope', '-h'],
      ]) {
        const { code, stdout, stderr } = await runMain(argv, {
          env: { DATABASE_URL: 'sqlite:/nowhere/x.db' },
        });
        assert.deepEqual([code, stderr], [0, '']);
        assert.ok(stdout.startsWith(`usage: users-service ${name} `), stdout);
        assert.match(
          stdout,
          name === 'copy' ? /^ {2}--from URL .*\n {2}--to URL /m : /^ {2}--database URL /m,
        );
      }
    });
  }
});

describe('what is asked for wrongly', () => {
  it('is one line a problem and exit code 2', async () => {
    const { code, stdout, stderr } = await runMain(['--port', 'x'], { env: { AUTH: 'y' } });
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
    assert.deepEqual(stderr.split('\n'), [
      'users-service: --port must be a whole number from 0 to 65535, not "x"',
      'users-service: AUTH must be one of none, writes, all, not "y"',
      '',
    ]);
  });

  it('is a command that there is not', async () => {
    const { code, stderr } = await runMain(['server']);
    assert.equal(code, 2);
    assert.match(stderr, /^users-service: "server" is not a command; the commands are serve, .*\n$/);
  });
});

describe('a file that is not what its option needs is one line, and exit code 2 before anything is opened', () => {
  const [good, other] = [createCertificate('good'), createCertificate('other')];
  const pem = { 'good.crt': good.cert, 'good.key': good.key, 'other.key': other.key, 'a.txt': 'no PEM' };
  const tls = (cert: string, key: string): string[] => ['--tls-cert', cert, '--tls-key', key];
  const noFile = '(ENOENT)';
  const rows: [name: string, argv: string[], env: Record<string, string>, expected: string[]][] = [
    [
      'no public folder',
      ['--public', 'none'],
      {},
      [`--public must be a folder that can be read, not "none" ${noFile}`],
    ],
    [
      'a file for the public folder',
      [],
      { PUBLIC_DIR: 'a.txt' },
      ['PUBLIC_DIR must be a folder that can be read, not "a.txt" (ENOTDIR)'],
    ],
    [
      'neither certificate nor key',
      tls('none', 'none'),
      {},
      [
        `--tls-cert must be a certificate chain in PEM that can be read, not "none" ${noFile}`,
        `--tls-key must be a private key in PEM that can be read, not "none" ${noFile}`,
      ],
    ],
    [
      'a certificate that is none',
      tls('a.txt', 'good.key'),
      {},
      ['--tls-cert must be a certificate chain in PEM that can be read, not "a.txt" (ERR_OSSL)'],
    ],
    [
      'a key that is none',
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
      'for several workers, once',
      ['--public', 'none', '--workers', '2'],
      {},
      [`--public must be a folder that can be read, not "none" ${noFile}`],
    ],
  ];
  for (const [name, argv, env, expected] of rows) {
    it(name, async (t) => {
      const cwd = await mkdtemp(join(tmpdir(), 'files-'));
      t.after(() => rm(cwd, { recursive: true }));
      await Promise.all(Object.entries(pem).map(([file, text]) => writeFile(join(cwd, file), text)));
      const { code, stdout, stderr } = await runMain(argv, {
        cwd,
        env: { PORT: '0', GRPC_PORT: '0', ...env },
      });
      assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
      // Which of OpenSSL's reasons it is, is OpenSSL's.
      const told = stderr.replaceAll(/ERR_OSSL_\w+/g, 'ERR_OSSL');
      assert.deepEqual(told.split('\n'), [...expected.map((line) => `users-service: ${line}`), '']);
      assert.deepEqual((await readdir(cwd)).sort(), Object.keys(pem).sort(), 'no database was made');
    });
  }
});
