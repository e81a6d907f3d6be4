import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { syncBuiltinESMExports } from 'node:module';
import { createServer } from 'node:net';
import { platform } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { PassThrough, Writable } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import timers from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Signal } from '../../src/commands/command-line.ts';
import { run } from '../../src/commands/commands.ts';
import { reportProblems } from '../../src/commands/examine.ts';
import { parseConfig } from '../../src/commands/settings.ts';
import { messageOf } from '../../src/domain/errors.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { environment, lostLines, printed, startProcess, withoutGrpc } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { head, post, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { quietProcess, runCommand } from '../support/command.ts';
import { fetch } from '../support/fetch.ts';
import { listen } from '../support/listen.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

function portOf(url: string): number {
  return Number(new URL(url).port);
}

function fileIn(folder: string): string[] {
  return ['--database', `sqlite:${folder}/x.db`];
}

/** Starts the service in this process, which is much faster than a new one, and resolves at its first output. */
async function startHere(t: TestContext, args: string[], env: Readonly<Record<string, string>> = {}) {
  const stdout = new PassThrough();
  const lines: Record<string, unknown>[] = [];
  createInterface(stdout).on('line', (line) =>
    lines.push(line.startsWith('{') ? JSON.parse(line) : { line }),
  );
  const signals = new EventEmitter();
  const ended = run({
    ...quietProcess(),
    args: ['--port', '0', '--database', 'memory:', ...args],
    env: { GRPC_PORT: '0', ...env },
    stdout,
    stderr: new PassThrough().resume(),
    onSignal: (signal, handle) => signals.on(signal, handle),
    exit: (code) => lines.push({ event: 'exit', code }),
  });
  const send = (signal: Signal) => signals.emit(signal);
  t.after(async () => {
    send('SIGTERM');
    await ended;
  });
  const failed = ended.then((code) => assert.fail(`exited with ${code}`));
  const [first] = await Promise.race([once(stdout, 'data'), failed]);
  return { first: String(first), http: String(lines[0]?.['http']), lines, send, ended };
}

describe('a failed start prints one line with the name of the option, and exits with 1', () => {
  const rows: [name: string, argv: (taken: string, folder: string) => string[], expected: RegExp][] = [
    [
      'an HTTP port in use',
      (taken, folder) => ['--port', taken, ...fileIn(folder)],
      /^--port: 127.0.0.1:\d+ is in use$/,
    ],
    [
      'a gRPC port in use',
      (taken, folder) => ['--grpc-port', taken, ...fileIn(folder)],
      /^--grpc-port: 127.0.0.1:\d+ is in use$/,
    ],
    [
      'a port in use with several workers',
      (taken, folder) => ['--port', taken, '--workers', '3', ...fileIn(folder)],
      /^--port: 127.0.0.1:\d+ is in use$/,
    ],
    [
      'an unknown host',
      (_, folder) => ['--host', 'nobody.invalid', ...fileIn(folder)],
      /^--host: the host name nobody.invalid is not known$/,
    ],
    [
      "another machine's address",
      (_, folder) => ['--host', '192.0.2.1', ...fileIn(folder)],
      /^--host: 192.0.2.1 is not an address of this machine$/,
    ],
    ['a database below a file', () => ['--database', 'sqlite:/dev/null/x.db'], /^--database: .*\/dev\/null/],
    [
      'a database that does not respond',
      () => ['--database', 'postgres://u:hunter2@127.0.0.1:1/x'],
      /^--database: .*127.0.0.1:1/,
    ],
  ];
  for (const [name, argv, expected] of rows) {
    it(name, async (t) => {
      const { port } = await listen(t, createServer());
      const folder = temporaryFolder();
      const env = { PORT: '0', GRPC_PORT: '0', DATABASE_URL: 'memory:' };
      const { code, stdout, stderr } = await runCommand(argv(String(port), folder), { env });
      assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
      assert.deepEqual(await readdir(folder), [], 'no database was created');
      const [line = '', ...rest] = stderr.split('\n');
      assert.deepEqual(rest, [''], 'there must be only one line');
      assert.ok(line.startsWith('users-service: '));
      assert.match(line.slice('users-service: '.length), expected);
      assert.doesNotMatch(line, /hunter2/);
    });
  }
});

describe('the output of a service that is ready', () => {
  const rows: [name: string, args: string[], expected: RegExp][] = [
    [
      'is a JSON line with both addresses',
      [],
      /^\{"time":"[^"]+","event":"listening","http":"http:\/\/127.0.0.1:\d+","grpc":"127.0.0.1:\d+","files":\d+,"version":"\d+\.\d+\.\d+"\}\n$/,
    ],
    [
      'is a JSON line with one address without gRPC',
      ['--grpc-port', 'off'],
      /"http":"http:\/\/127.0.0.1:\d+","files":\d+,"version":"\d+\.\d+\.\d+"\}\n$/,
    ],
    [
      'is a readable line with the log format pretty',
      ['--log', 'pretty'],
      /^[\d:.]+ listening on http:\S+ and gRPC on \S+, \d+ static files, version [\d.]+\n$/,
    ],
    ['is a plain line without a log', ['--log', 'off'], /^listening on http:\S+ and 127.0.0.1:\d+\n$/],
  ];
  for (const [name, args, expected] of rows) {
    it(name, async (t) => assert.match((await startHere(t, args)).first, expected));
  }
});

describe('a signal to the service', () => {
  it('waits for a slow request, aborts an incomplete one at the deadline, and exits with 0', async (t) => {
    // The deadline is long, so that a slow machine answers before it. No other limit must end the incomplete request.
    const unlimited = ['--headers-timeout-ms', '0', '--request-timeout-ms', '0'];
    const options = ['--database', 'memory:', '--drain-timeout-ms', '5000', ...unlimited];
    const running = await startProcess(t, options);
    const port = portOf(running.http);
    const idle = await Wire.open(t, port);
    idle.write(head('GET /health'));
    await idle.next();
    const whole = post('/users', '{"name":"Ada"}');
    const half = await Wire.open(t, port);
    half.write(whole.slice(0, -1));
    const slow = await Wire.open(t, port);
    slow.write(whole.slice(0, -1));
    await (await fetch(`${running.http}/health`)).text();

    const startedAt = performance.now();
    const ended = running.end();
    await printed(running, 'draining');
    slow.write(whole.slice(-1));
    const answer = await slow.next();
    assert.deepEqual([answer.status, answer.headers['connection']], [201, 'close']);
    const halfEnded = half.end();
    const first = await Promise.race([idle.end().then(() => 'idle'), halfEnded.then(() => 'half')]);
    assert.equal(first, 'idle', 'the idle connection must close before the incomplete one');
    assert.deepEqual(await halfEnded, []);
    assert.equal(await ended, 0);
    const took = performance.now() - startedAt;
    assert.ok(took >= 4_950, `${took} ms`);
    assert.equal(running.lines.at(-1)?.['event'], 'closed');
  });

  it('keeps serving for --drain-delay-ms after readiness fails', async (t) => {
    const delayMs = 123_456;
    const [delayed, { setTimeout: sleep }] = [Promise.withResolvers<void>(), timers];
    const mock = t.mock.method(timers, 'setTimeout', (ms: number, ...rest: unknown[]) =>
      ms === delayMs ? delayed.promise : Reflect.apply(sleep, undefined, [ms, ...rest]),
    );
    syncBuiltinESMExports();
    t.after(() => {
      delayed.resolve();
      mock.mock.restore();
      syncBuiltinESMExports();
    });
    const running = await startHere(t, ['--drain-delay-ms', `${delayMs}`]);
    running.send('SIGTERM');
    await printed(running, 'draining');
    assert.equal((await fetch(`${running.http}/health`)).status, 200);
    assert.equal((await fetch(`${running.http}/health/ready`)).status, 503);
    delayed.resolve();
    assert.equal(await running.ended, 0);
  });

  it('counts once when it arrives twice at once, as npm on a terminal sends it', async (t) => {
    const running = await startHere(t, []);
    running.send('SIGINT');
    running.send('SIGINT');
    assert.equal(await running.ended, 0);
    const shown = running.lines.map(({ event }) => event);
    assert.deepEqual(shown, ['listening', 'draining', 'closed']);
  });

  it('SIGINT more than a second after another signal ends the process at once with 130', async (t) => {
    // The clock of the process is so fast that the second passes before the process has printed the event.
    const source = 'const now = performance.now.bind(performance); performance.now = () => now() * 1e6';
    const preload = `--import=data:text/javascript,${encodeURIComponent(source)}`;
    const options = [...withoutGrpc, '--database', 'memory:', '--drain-delay-ms', '20000'];
    const running = await startProcess(t, options, { NODE_OPTIONS: preload });
    running.child.kill('SIGTERM');
    await printed(running, 'draining');
    assert.equal(await running.end('SIGINT'), 130);
  });

  it('SIGHUP without TLS or workers has no effect but a warning', async (t) => {
    const running = await startHere(t, []);
    running.send('SIGHUP');
    await printed(running, 'warning');
    assert.match(JSON.stringify(running.lines), /SIGHUP: there is no certificate and no file of keys/);
    assert.equal((await fetch(`${running.http}/health`)).status, 200);
    running.send('SIGTERM');
    assert.equal(await running.ended, 0);
  });

  it('several SIGHUP at once read the files once', async (t) => {
    const file = join(temporaryFolder(), 'keys');
    await writeFile(file, 'key\n', { mode: 0o600 });
    const running = await startHere(t, ['--api-keys-file', file]);
    for (let n = 0; n < 3; n += 1) running.send('SIGHUP');
    await printed(running, 'reloaded');
    // Another signal has its own turn.
    running.send('SIGHUP');
    await printed(running, 'reloaded', 2);
    running.send('SIGTERM');
    assert.equal(await running.ended, 0);
    assert.equal(running.lines.filter(({ event }) => event === 'reloaded').length, 2);
  });

  it('SIGHUP while the modules are loaded ends other commands, but not the service', async (t) => {
    const source = `
      import { registerHooks } from 'node:module';
      registerHooks({
        load(url, context, next) {
          if (url.endsWith('/commands.ts')) process.kill(process.pid, 'SIGHUP');
          return next(url, context);
        },
      })`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
    const running = await startProcess(t, [...withoutGrpc, '--database', 'memory:'], env);
    assert.equal((await fetch(`${running.http}/health`)).status, 200);
    assert.equal(await running.end(), 0);
    const child = spawn(process.execPath, [main, 'export'], { env: { ...environment(), ...env } });
    assert.deepEqual(await once(child, 'exit'), [null, 'SIGHUP']);
  });

  it('a certificate without a subject gets its warnings by its alternative names, also at SIGHUP', async (t) => {
    const folder = temporaryFolder();
    const { cert, key } = createCertificate('', 5.5, 80);
    await writeFile(join(folder, 'cert.pem'), cert);
    await writeFile(join(folder, 'key.pem'), key);
    const tls = ['--tls-cert', join(folder, 'cert.pem'), '--tls-key', join(folder, 'key.pem')];
    const running = await startHere(t, tls);
    await printed(running, 'warning');
    running.send('SIGHUP');
    await printed(running, 'warning', 2);
    const warnings = running.lines.filter(({ event }) => event === 'warning');
    for (const { message } of warnings)
      assert.match(String(message), /of DNS:localhost, IP Address:127.0.0.1 is valid for 5 more/);
  });

  it('an examination that fails is a failure event, and does not end the service', async (t) => {
    const cause = new Error('SQLite is broken');
    t.mock.method(DatabaseSync.prototype, 'prepare', () => {
      throw cause;
    });
    const found: unknown[] = [];
    const settings = { WORKERS: '2', MAX_CONNECTIONS: '1' };
    const observe = (event: ServiceEvent) => found.push(event);
    await reportProblems('start', parseConfig({}, settings), { apiKeys: [] }, observe);
    assert.deepEqual(found, [{ type: 'failure', where: 'process', cause }]);
  });

  it('standbys that cannot be examined are a failure event, and do not end the service', async () => {
    const url = 'postgres://users@127.0.0.1/users?sslmode=verify-full&sslrootcert=/missing/ca.pem';
    const settings = { DATABASE_URL: 'postgres://users@db/users', READ_DATABASE: url, MAX_CONNECTIONS: '1' };
    const found: ServiceEvent[] = [];
    const observe = (event: ServiceEvent) => found.push(event);
    await reportProblems('start', parseConfig({}, settings), { apiKeys: [] }, observe);
    assert.deepEqual(
      found.map((event) => (event.type === 'failure' ? messageOf(event.cause) : event.type)),
      ["the database URL cannot be used: ENOENT: no such file or directory, open '/missing/ca.pem'"],
    );
  });

  for (const [workers, database, warnings] of [
    ['2', 'sqlite:users.db', 1],
    ['1', 'sqlite:users.db', 0],
    ['2', 'postgres://users@db/users', 0],
  ] as const) {
    it(`${warnings} warnings of an old SQLite with ${workers} processes on ${database}`, async (t) => {
      t.mock.method(DatabaseSync.prototype, 'prepare', () => ({ get: () => ({ version: '3.51.2' }) }));
      const found: unknown[] = [];
      const settings = { WORKERS: workers, DATABASE_URL: database, MAX_CONNECTIONS: '1' };
      const observe = (event: ServiceEvent) => found.push(event);
      await reportProblems('start', parseConfig({}, settings), { apiKeys: [] }, observe);
      const what = 'SQLite 3.51.2 may damage a file to which several processes write';
      const message = `${what}; use Node.js 24.15 or 26, or one process`;
      assert.deepEqual(found, Array(warnings).fill({ type: 'warning', message }));
    });
  }

  it('SIGHUP reloads the certificate, and keeps the old one when the new one is invalid', async (t) => {
    const folder = temporaryFolder();
    const [first, second] = [createCertificate('first'), createCertificate('second', 2)];
    const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const write = async ({ cert, key }: { cert: string; key: string }) => {
      await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)]);
    };
    const nameOf = async (url: string) => {
      const [response] = await once(
        get(`${url}/health`, { rejectUnauthorized: false, agent: false }),
        'response',
      );
      const { subject } = response.socket.getPeerCertificate();
      await response.resume().toArray();
      return subject.CN;
    };
    const metricsOf = async (url: string) => {
      const [response] = await once(
        get(`${url}/metrics`, { rejectUnauthorized: false, agent: false }),
        'response',
      );
      return Buffer.concat(await response.toArray()).toString();
    };
    const endIn = ({ cert }: { cert: string }) => {
      const end = new X509Certificate(cert).validToDate.getTime() / 1000;
      return new RegExp(`^users_service_certificate_expiry_time_seconds ${end}$`, 'm');
    };
    await write(first);
    const running = await startProcess(t, [
      '--database=memory:',
      '--tls-cert',
      certFile,
      '--tls-key',
      keyFile,
    ]);
    assert.equal(await nameOf(running.http), 'first');
    assert.match(await metricsOf(running.http), endIn(first));
    await write(second);
    running.child.kill('SIGHUP');
    await printed(running, 'reloaded');
    assert.equal(await nameOf(running.http), 'second');
    assert.match(await metricsOf(running.http), endIn(second));
    await write({ cert: first.cert, key: second.key });
    running.child.kill('SIGHUP');
    await printed(running, 'failure');
    assert.equal(await nameOf(running.http), 'second');
    assert.equal(await running.end(), 0);
  });
});

describe('the process of the service', () => {
  it('prints no key and no password when errors occur', async (t) => {
    const running = await startHere(t, ['--auth', 'all'], { API_KEY: 'hunter2' });
    for (const path of ['/users', '/private', '/boom', '/info', '/nowhere']) {
      await (await fetch(running.http + path, { headers: { 'x-api-key': 'hunter2' } })).text();
    }
    running.send('SIGTERM');
    assert.equal(await running.ended, 0);
    assert.doesNotMatch(JSON.stringify(running.lines), /hunter2/);
    assert.ok(running.lines.length > 5);
  });

  it('continues to serve when the reader of its output has gone', async (t) => {
    const running = await startProcess(t, [...withoutGrpc, '--database', 'memory:']);
    running.child.stdout?.destroy();
    for (let n = 0; n < 20; n += 1) assert.equal((await fetch(`${running.http}/health`)).status, 200);
    assert.equal(await running.end(), 0);
  });

  for (const workers of ['1', '2']) {
    it(`has what its processes use of the machine in the metrics with --workers ${workers}`, async (t) => {
      const args = [...withoutGrpc, ...fileIn(temporaryFolder()), '--workers', workers];
      const { http } = await startProcess(t, args);
      const text = await (await fetch(`${http}/metrics`)).text();
      for (const [series, least] of [
        ['users_service_event_loop_seconds_total{state="active"}', 0.001],
        // It has not waited before its first request.
        ['users_service_event_loop_seconds_total{state="idle"}', 0],
        ['process_cpu_seconds_total', 0.01],
        ['process_resident_memory_bytes', 20e6],
      ] as const) {
        const line = text.split('\n').find((one) => one.startsWith(`${series} `));
        assert.ok(Number(line?.split(' ')[1]) >= least, line ?? text);
      }
    });

    it(`has metrics although its memory cannot be read, with --workers ${workers}`, async (t) => {
      // As without a free file descriptor.
      const source = 'process.memoryUsage.rss = () => { throw new Error("EMFILE") }';
      const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
      const args = [...withoutGrpc, ...fileIn(temporaryFolder()), '--workers', workers];
      const { http, lines } = await startProcess(t, args, env);
      assert.match(await (await fetch(`${http}/metrics`)).text(), /^process_cpu_seconds_total [\d.]+$/m);
      assert.ok(lines.every(({ event }) => event !== 'failure'));
    });
  }

  it('counts lost lines of its log in the metrics', async (t) => {
    const { http, child } = await startProcess(t, [...withoutGrpc, '--database', 'memory:']);
    assert.equal(await lostLines(http), 0);
    child.stdout?.destroy();
    await until(async () => (await lostLines(http)) > 0, 'a line is lost', 30_000);
  });

  it('waits at its end for a slow reader of its output', async () => {
    const lines: string[] = [];
    const signals = new EventEmitter();
    const stdout = new Writable({
      write(chunk, _encoding, done) {
        lines.push(...String(chunk).trim().split('\n'));
        setImmediate(done);
      },
    });
    const ended = run({
      ...quietProcess(),
      args: ['--port', '0', '--grpc-port', 'off', '--database', 'memory:'],
      stdout,
      stderr: new PassThrough().resume(),
      onSignal: (signal, handle) => signals.on(signal, handle),
      exit: () => lines.push('ended before the reader has read all lines'),
    });
    await until(() => lines.length > 0, 'the service listens');
    signals.emit('SIGTERM');
    assert.equal(await ended, 0);
    assert.equal(JSON.parse(lines.at(-1) ?? '').event, 'closed');
  });

  it('stops when its output is not read', async (t) => {
    const running = await startProcess(t, [...withoutGrpc, '--database', 'memory:']);
    running.child.stdout?.removeAllListeners('data').pause();
    const wires = await Promise.all(Array.from({ length: 4 }, () => Wire.open(t, portOf(running.http))));
    // More lines than the pipe and the buffers of this process hold.
    for (let i = 0; i < 100; i += 1) {
      for (const wire of wires) wire.write(head(`GET /${'x'.repeat(2_000)}`));
      for (const wire of wires) await wire.next();
    }
    const startedAt = performance.now();
    assert.equal(await running.end(), 0);
    assert.ok(performance.now() - startedAt < 20_000);
  });

  it('logs an uncaught error before it ends with 1', async (t) => {
    const source = 'process.on("SIGUSR2", () => { throw new Error("not caught") })';
    const preload = `--import=data:text/javascript,${encodeURIComponent(source)}`;
    const running = await startProcess(t, [...withoutGrpc, '--database', 'memory:'], {
      NODE_OPTIONS: preload,
    });
    assert.equal(await running.end('SIGUSR2'), 1);
    const last = running.lines.at(-1);
    assert.deepEqual([last?.['event'], last?.['where']], ['failure', 'process']);
    assert.match(String(last?.['cause']), /not caught/);
  });

  it('prints one clear line on an unsupported version of Node.js', async () => {
    const source = 'Object.defineProperty(process.versions, "node", { value: "20.20.2" })';
    const preload = `--import=data:text/javascript,${encodeURIComponent(source)}`;
    const { code, stdout, stderr } = await runTool(process.execPath, [preload, main]);
    assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
    assert.match(stderr, /^users-service: needs Node\.js 24\.7 or newer, this is v[\d.]+\n$/);
  });

  it('parses requests strictly in a Node.js that is started with --insecure-http-parser', async (t) => {
    const env = { NODE_OPTIONS: '--insecure-http-parser' };
    const { http } = await startProcess(t, [...withoutGrpc, '--database', 'memory:'], env);
    const wire = await Wire.open(t, portOf(http));
    assert.equal((await wire.write(head('GET /users', 'A: \u0001')).next()).status, 400);
  });

  it('keeps its compiled modules in the home directory, unless that is missing or accepts no folder', async () => {
    const [home, profile] = [temporaryFolder(), temporaryFolder()];
    const missing = join(home, 'missing');
    // Most users have this folder already, and others may read it.
    await mkdir(join(profile, '.cache'), { mode: 0o755 });
    // Windows sets only the other variable.
    for (const env of [{ HOME: home }, { USERPROFILE: profile }, { HOME: missing }, { HOME: '/proc' }]) {
      const { code } = await runTool(process.execPath, [main, '--version'], { env });
      assert.equal(code, 0, JSON.stringify(env));
    }
    for (const folder of [home, profile]) {
      assert.deepEqual(await readdir(folder), ['.cache']);
      assert.notDeepEqual(await readdir(join(folder, '.cache', 'users-service')), []);
    }
    // Windows has no such modes.
    if (platform() === 'win32') return;
    const caches = [home, profile].map((folder) => join(folder, '.cache', 'users-service'));
    for (const path of [join(home, '.cache'), ...caches])
      assert.equal(((await stat(path)).mode & 0o777).toString(8), '700', path);
  });

  it('caches also its first file, so that a second start removes no types', async () => {
    const env = { HOME: temporaryFolder() };
    const removesTypes = async () => {
      const show =
        "process.on('exit', () => console.log(process.moduleLoadList.some((name) => name.includes('amaro'))))";
      const preload = [
        `--require=${join(dirname(main), 'require-node.cjs')}`,
        `--import=data:text/javascript,${encodeURIComponent(show)}`,
      ];
      const { stdout } = await runTool(process.execPath, [...preload, main, '--version'], { env });
      return /(true|false)\n$/.exec(stdout)?.[1];
    };
    assert.deepEqual([await removesTypes(), await removesTypes()], ['true', 'false']);
  });

  it('can print this line because its first file statically imports only the file with this check', async () => {
    const text = await readFile(main, 'utf8');
    assert.deepEqual(text.match(/^\s*(import|export)\b(?!\().*/gm), ["import './require-node.cjs';"]);
  });
});
