import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createService } from '../../src/service/service.ts';
import { freePorts } from '../kit/free-ports.ts';
import { runMain } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { createCertificate } from '../support/certificate.ts';
import { runCommand } from '../support/command.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

const free = ['--port', '0', '--grpc-port', '0'];

/** Runs the command and splits its lines into level, text and remedy. */
async function doctor(args: readonly string[], nodeVersion?: string) {
  const { code, stdout, stderr } = await runCommand(['doctor', ...args], { nodeVersion });
  assert.equal(stderr, '');
  const lines = stdout.trimEnd().split('\n');
  for (const line of lines) assert.match(line, /^(?:ok {4}[^;]+|(?:warn {2}|fail {2})[^;]+; .+)$/);
  return { code, lines, problems: lines.filter((line) => !line.startsWith('ok')) };
}

async function temporary(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = temporaryFolder();
  for (const [name, text] of Object.entries(files))
    await writeFile(join(folder, name), text, { mode: 0o600 });
  return folder;
}

describe('users-service doctor', () => {
  it('prints a line for each check, changes no data, and exits with 0 without problems', async () => {
    const folder = await temporary();
    const args = [...free, '--database', `sqlite:${folder}/data/users.db`];
    const { code, stdout } = await runMain(['doctor', ...args]);
    assert.equal(code, 0, stdout);
    assert.match(
      stdout,
      /^ok {4}Node\.js v\d+\S+\n(?:ok {4}the process may open \d+ files\n)?ok {4}\S+ does not exist yet.*\nok {4}the disk of \S+ has .*\n/,
    );
    assert.match(stdout, /\nok {4}HTTP port: any free one\nok {4}gRPC port: any free one\n$/);
    assert.deepEqual(await readdir(folder), []);
  });

  it('has the same exit code if its reader closes the pipe early', async () => {
    const child = spawn(process.execPath, [main, 'doctor', ...free, '--database', 'memory:']);
    child.stdout.destroy();
    const [errors, [code]] = await Promise.all([child.stderr.toArray(), once(child, 'close')]);
    assert.deepEqual([code, errors], [0, []]);
  });

  it('exits with 3 for a warning, and with 1 for a failure', async () => {
    const memory = [...free, '--database', 'memory:'];
    const warned = await doctor(memory, 'v25.1.0');
    assert.deepEqual(warned.problems, [
      'warn  Node.js v25.1.0; use 24 or 26, with which the service is tested',
    ]);
    assert.equal(warned.code, 3);
    const folder = await temporary({ 'users.db': 'no database '.repeat(100) });
    const failed = await doctor([...free, '--database', `sqlite:${folder}/users.db`], 'v25.1.0');
    assert.equal(failed.code, 1);
    const [, damage = ''] = failed.problems;
    assert.match(damage, /^fail .*users\.db cannot be read: file is not a database; restore/);
  });

  const onLinux = { skip: process.platform !== 'linux' && 'only Linux shows the limit in a file' };
  it('warns of a limit on open files below that on connections, as the service does', onLinux, async (t) => {
    const script = 'ulimit -n 300; exec "$0" "$@" --port 0 --database memory: --grpc-port off';
    const limited = ['-c', script, process.execPath, main];
    const run = (...args: string[]) => runTool('sh', [...limited, ...args]);
    const problem = 'the process may open 300 files, but its connections need 301; raise LimitNOFILE';
    const { code, stdout } = await run('doctor', '--max-connections', '301');
    assert.deepEqual([code, stdout.includes(`warn  ${problem}`)], [3, true], stdout);
    assert.equal((await run('doctor', '--max-connections', '300')).code, 0);
    const unlimited = await run('doctor', '--max-connections', '0');
    assert.match(unlimited.stdout, /^warn {2}.* open 300 files, but its connections need \d+; raise/m);
    const service = spawn('sh', [...limited, '--max-connections', '301']);
    t.after(() => service.kill('SIGKILL'));
    let log = '';
    service.stdout.on('data', (chunk) => {
      log += chunk;
    });
    await until(() => log.includes(problem), 'the service warns');
  });

  it('counts only the connections that fit into the heap for the limit on open files', onLinux, async () => {
    const script = 'ulimit -n 5000; exec "$0" --max-old-space-size=100 "$@"';
    const args = ['doctor', '--port', '0', '--grpc-port', '0', '--database', 'memory:'];
    const { code, stdout } = await runTool('sh', ['-c', script, process.execPath, main, ...args]);
    assert.equal(code, 0, stdout);
  });

  it('shows how many connections the heap allows, and warns if a limit above was chosen', async () => {
    const args = ['doctor', '--port', '0', '--grpc-port', 'off', '--database', 'memory:'];
    const run = (...more: string[]) =>
      runTool(process.execPath, ['--max-old-space-size=100', main, ...args, ...more]);
    const { code, stdout } = await run();
    const [, most] =
      /^ok {4}the heap allows (\d+) connections for each port and process, not 10000$/m.exec(stdout) ?? [];
    assert.deepEqual([code, most !== undefined], [0, true], stdout);
    const chosen = await run('--max-connections', String(Number(most) + 1));
    const problem = `the heap allows ${most} connections for each port and process, not ${Number(most) + 1}`;
    const warning = `warn  ${problem}; lower --max-connections, or enlarge the heap\n`;
    assert.ok(chosen.stdout.includes(warning), chosen.stdout);
    assert.equal(chosen.code, 3);
    assert.doesNotMatch((await run('--max-connections', String(most))).stdout, /the heap/);
  });

  it('warns of an old SQLite only with several processes', async (t) => {
    t.mock.method(DatabaseSync.prototype, 'prepare', () => ({ get: () => ({ version: '3.51.2' }) }));
    const database = ['--database', `sqlite:${await temporary()}/users.db`];
    const run = (workers: string) => runCommand(['doctor', ...free, ...database, '--workers', workers]);
    assert.equal((await run('1')).code, 0);
    const { code, stdout } = await run('2');
    assert.equal(code, 3);
    assert.match(
      stdout,
      /^warn {2}SQLite 3\.51\.2 may damage .*; use Node\.js 24\.15 or 26, or one process$/m,
    );
  });

  it('exits with 2 for a wrong option, as the service does', async () => {
    const { code, stdout, stderr } = await runCommand(['doctor', '--port', 'x']);
    assert.deepEqual([code, stdout], [2, '']);
    assert.equal(stderr, 'users-service: --port must be a whole number from 0 to 65535, not "x"\n');
  });

  it('reads a named pipe of API keys once', async (t) => {
    const pipe = join(await temporary(), 'keys');
    if ((await runTool('mkfifo', ['-m', '600', pipe])).code !== 0)
      return t.skip('this system has no named pipes');
    const args = [...free, '--database', 'memory:', '--api-keys-file', pipe];
    const [{ lines }] = await Promise.all([doctor(args), runTool('sh', ['-c', 'echo key > "$0"', pipe])]);
    assert.ok(lines.includes(`ok    ${pipe} can be read`));
  });

  it('never prints a password', async () => {
    const { code, problems } = await doctor([...free, '--database', 'postgres://u:hunter2@127.0.0.1:1/x']);
    assert.deepEqual([code, problems.length], [1, 1]);
    assert.match(problems.join(), /^fail {2}127\.0\.0\.1:\d+ cannot be used: connect ECONNREFUSED/);
    assert.doesNotMatch(problems.join(), /hunter2/);
  });

  it('examines the database although the URL of its standbys cannot be used', async () => {
    const args = ['--database', 'postgres://u@127.0.0.1:1/x'];
    const standbys = 'postgres://u@127.0.0.1:1/x?sslrootcert=/nowhere.pem';
    const { code, lines, problems } = await doctor([...free, ...args, '--read-database', standbys]);
    assert.deepEqual([code, problems.length], [1, 2]);
    assert.match(problems[0] ?? '', /^fail {2}127\.0\.0\.1:1 cannot be used: connect ECONNREFUSED/);
    assert.match(problems[1] ?? '', /^fail {2}--read-database: .*ENOENT.*nowhere\.pem.*; correct the URL$/);
    assert.match(lines.at(-1) ?? '', /^ok {4}gRPC port/);
  });

  it('does not blame the URL if the driver of PostgreSQL is missing', async () => {
    const hook = `import { registerHooks } from 'node:module';
      const resolve = (name, context, next) => next(name === 'pg' ? 'a-package-that-is-not-there' : name, context);
      registerHooks({ resolve });`;
    const { code, stdout } = await runMain(['doctor', ...free, '--database', 'postgres://u@127.0.0.1:1/x'], {
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` },
    });
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^fail {2}a postgres: database needs the package "pg": .*; remove this cause, and run doctor again$/m,
    );
  });

  describe('users-service doctor for certificates', () => {
    const rows: [what: string, days: number, daysOld: number, problem: RegExp | undefined][] = [
      ['that is valid for a long time', 90.5, 1, undefined],
      ['that was just renewed for a week', 6.5, 0.5, undefined],
      [
        'that expires soon',
        5.5,
        80,
        /^warn .*cert\.pem: the certificate of CN=x is valid for 5 more days; renew it/,
      ],
      [
        'that ended today',
        -0.1,
        80,
        /^fail .*cert\.pem: the certificate of CN=x ended at \d{4}-\S+Z; renew it/,
      ],
    ];
    for (const [what, days, daysOld, problem] of rows) {
      it(`reports a certificate ${what}`, async () => {
        const { cert, key } = createCertificate('x', days, daysOld);
        const { cert: other } = createCertificate('ca', 900);
        const folder = await temporary({ 'cert.pem': `${cert}${other}`, 'key.pem': key });
        const tls = ['--tls-cert', join(folder, 'cert.pem'), '--tls-key', join(folder, 'key.pem')];
        const { lines, problems } = await doctor([...free, '--database', 'memory:', ...tls]);
        assert.match(lines.join('\n'), /ok {4}\S+: the certificate of CN=ca is valid for \d{3} more days\n/);
        assert.equal(problems.length, problem === undefined ? 0 : 1, problems.join());
        if (problem !== undefined) assert.match(problems.join(), problem);
      });
    }

    it('reports a certificate that is not valid yet, and a key that every user may read', async (t) => {
      const { cert, key } = createCertificate('x', 90);
      const folder = await temporary({ 'cert.pem': cert });
      await writeFile(join(folder, 'key.pem'), key, { mode: 0o644 });
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 5 * 24 * 60 * 60 * 1_000 });
      const tls = ['--tls-cert', join(folder, 'cert.pem'), '--tls-key', join(folder, 'key.pem')];
      const { problems } = await doctor([...free, '--database', 'memory:', ...tls]);
      assert.match(problems[0] ?? '', /^fail .* of CN=x is not valid before \S+Z; set the clock, or wait$/);
      const [, open = ''] = problems;
      assert.match(open, /^warn {2}\S+key\.pem is open to every user of this machine; run chmod 600 /);
    });

    it('reports a missing certificate in addition to all other checks', async () => {
      const folder = await temporary();
      const none = `${folder}/none`;
      const tls = ['--tls-cert', none, '--tls-key', none, '--public', none];
      const { code, lines, problems } = await doctor([...free, '--database', 'memory:', ...tls]);
      assert.deepEqual([code, problems.length], [1, 3]);
      const [, missing = ''] = problems;
      assert.match(missing, /^fail {2}--tls-cert must be a certificate chain in PEM .* \(ENOENT\); /);
      assert.match(lines.at(-1) ?? '', /^ok {4}gRPC port/);
    });
  });

  describe('users-service doctor for ports', () => {
    it('reports free ports', async () => {
      const [http, grpc] = await freePorts(2);
      const { lines } = await doctor(['--database=memory:', `--port=${http}`, `--grpc-port=${grpc}`]);
      assert.deepEqual(lines.slice(-2), [
        `ok    HTTP port: 127.0.0.1:${http} is free`,
        `ok    gRPC port: 127.0.0.1:${grpc} is free`,
      ]);
    });

    it('reports no problem while the service runs, and a warning if only one of its ports is in use', async (t) => {
      const service = createService({ database: 'memory:', port: 0, grpcPort: 0 });
      t.after(() => service.close());
      const { http, grpc = '' } = await service.listen();
      const [port, grpcPort] = [new URL(http).port, grpc.split(':')[1] ?? ''];
      const examine = (...args: string[]) => doctor(['--database', 'memory:', '--port', port, ...args]);
      const httpLine = `ok    HTTP port: 127.0.0.1:${port} is in use, which is right only while this service runs`;
      const grpcLine = `ok    gRPC port: 127.0.0.1:${grpcPort} is in use, which is right only while this service runs`;
      for (const [given, line] of [
        [grpcPort, grpcLine],
        ['0', 'ok    gRPC port: any free one'],
      ] as const) {
        const { code, lines } = await examine('--grpc-port', given);
        assert.deepEqual([code, ...lines.slice(-2)], [0, httpLine, line]);
      }
      // Then the HTTP port of the running service is not known.
      const { lines: withAnyPort } = await doctor([
        '--database=memory:',
        '--port=0',
        '--grpc-port',
        grpcPort,
      ]);
      assert.deepEqual(withAnyPort.slice(-2), ['ok    HTTP port: any free one', grpcLine]);
      const alone = await examine('--grpc-port', 'off');
      assert.deepEqual([alone.code, alone.lines.at(-1)], [0, httpLine]);
      const [free] = await freePorts(1);
      const { code, problems } = await examine('--grpc-port', `${free}`);
      const remedy = 'choose another port, or stop the program there';
      assert.deepEqual([code, problems], [3, [`warn  HTTP port: 127.0.0.1:${port} is in use; ${remedy}`]]);
    });

    it('reports an address of another machine', async () => {
      const { problems } = await doctor(['--database', 'memory:', '--host', '192.0.2.1']);
      assert.deepEqual(problems, [
        'fail  HTTP port: 192.0.2.1 is not an address of this machine; choose another address or port',
        'fail  gRPC port: 192.0.2.1 is not an address of this machine; choose another address or port',
      ]);
    });
  });
});
