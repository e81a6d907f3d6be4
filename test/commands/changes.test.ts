import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import nodeFs from 'node:fs';
import fs, { open, readFile, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { run } from '../../src/commands/commands.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { environment, withoutCoverage } from '../kit/process.ts';
import { createCertificate } from '../support/certificate.ts';
import { quietProcess, runCommand } from '../support/command.ts';
import { listen } from '../support/listen.ts';
import { recordPauses } from '../support/pauses.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

interface Printed {
  readonly child: ChildProcess;
  /** Resolves to the id and type of the next line. */
  next(): Promise<string>;
  /** Resolves to the exit code and the text on standard error. */
  readonly ended: Promise<readonly [code: number | null, stderr: string]>;
}

function startCommand(t: TestContext, args: readonly string[], env: Record<string, string> = {}): Printed {
  const child = spawn(process.execPath, [main, 'changes', ...args], {
    env: { ...environment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return {
    child,
    ended: once(child, 'close').then(([code]) => [code, stderr]),
    async next() {
      const { value, done } = await lines.next();
      if (done === true) assert.fail(`ended: ${stderr}`);
      const { id, type }: { id: string; type: string } = JSON.parse(value);
      return `${id} ${type}`;
    },
  };
}

const temporaryFile = () => join(temporaryFolder(), 'position');

/** Starts an HTTP server that is not the service, and resolves to its address. */
async function serve(t: TestContext, handle: RequestListener): Promise<string> {
  return (await listen(t, createServer(handle))).http;
}

describe('users-service changes', () => {
  it('prints each change, exits with 0 on SIGTERM, and continues at the saved position', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    const state = temporaryFile();
    const args = ['--url', `${http}/`, '--state', state];
    await repository.users.create({ name: 'Ada' });
    const first = startCommand(t, args);
    assert.equal(await first.next(), '1 user.created');
    await repository.users.update(1, { name: 'Ada King' });
    assert.equal(await first.next(), '2 user.updated');
    await t.waitFor(async () => assert.equal(await readFile(state, 'utf8'), '2\n'), { timeout: 10_000 });
    first.child.kill('SIGTERM');
    assert.deepEqual(await first.ended, [0, '']);
    await repository.users.delete(1);
    // The position in the file takes precedence over the one of the first start.
    const second = startCommand(t, [...args, '--after', '0']);
    assert.equal(await second.next(), '3 user.deleted');
  });

  it('exits with 0 on SIGTERM while its output is not read, and saves no position of unwritten lines', async (t) => {
    // More than a pipe holds.
    const text = `id: 1\ndata: ${'x'.repeat(1_000_000)}\n\n`;
    const url = await serve(t, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text);
    });
    const state = temporaryFile();
    const child = spawn(process.execPath, [main, 'changes', '--url', url, '--state', state], {
      env: environment(),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    // Node.js reads one chunk, and the rest fills the pipe.
    await once(child.stdout, 'readable');
    child.kill('SIGTERM');
    assert.deepEqual(await exited, [0, null]);
    await assert.rejects(readFile(state), { code: 'ENOENT' });
  });

  it('names the file that it cannot write its position to, for example on a full disk', async (t) => {
    const url = await serve(t, (_, response) => {
      // As some proxies write it.
      const headers = { 'content-type': 'Text/Event-Stream;charset=utf-8' };
      response.writeHead(200, headers).write('id: 1\ndata: {}\n\n');
    });
    const state = temporaryFile();
    const args = [process.execPath, main, 'changes', '--url', url, '--state', state];
    const script = 'ulimit -f 0; exec "$0" "$@"';
    const ended = await runTool('sh', ['-c', script, ...args], { env: withoutCoverage() });
    const stderr = `users-service: ${state}.new: file too large\n`;
    assert.deepEqual(ended, { code: 1, stdout: '{}\n', stderr });
  });

  it('fails if its output has room for only a part of the lines, and saves no position', async (t) => {
    const statuses = [200, 410];
    const url = await serve(t, (_, response) => {
      response.writeHead(statuses.shift() ?? 410, { 'content-type': 'text/event-stream' });
      response.end(`id: 1\ndata: ${'x'.repeat(100_000)}\n\n`);
    });
    const state = temporaryFile();
    const args = [process.execPath, main, 'changes', '--url', url, '--state', state];
    // 8 blocks of 512 or 1,024 bytes.
    const script = 'ulimit -f 8; exec "$0" "$@" >"$OUTPUT"';
    const { code, stderr } = await runTool('sh', ['-c', script, ...args], {
      env: { ...withoutCoverage(), OUTPUT: `${state}.lines` },
    });
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: .*file too large/);
    await assert.rejects(readFile(state), { code: 'ENOENT' });
  });

  it('syncs a file of lines to disk before it saves their position', async (t) => {
    recordPauses(t);
    const url = await listenWith(t, 200);
    const state = temporaryFile();
    await using output = await open(`${state}.lines`, 'w');
    const synced: [fd: number, text: string, hasPosition: boolean][] = [];
    t.mock.method(nodeFs, 'fsyncSync', (fd: number) =>
      synced.push([fd, nodeFs.readFileSync(`${state}.lines`, 'utf8'), nodeFs.existsSync(state)]),
    );
    const stream = () => new Writable({ write: (_chunk, _encoding, done) => done() });
    const code = await run({
      ...quietProcess(),
      args: ['changes', '--url', url, '--state', state],
      stdout: Object.assign(stream(), { fd: output.fd }),
      stderr: stream(),
    });
    assert.equal(code, 4);
    assert.deepEqual(synced, [[output.fd, '{}\n', false]]);
    assert.ok(nodeFs.existsSync(state));
  });

  it('connects again after 45 s without an event or a comment', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const statuses = [200];
    const url = await serve(t, (_, response) => {
      response.writeHead(statuses.shift() ?? 410, { 'content-type': 'text/event-stream' });
      response.write('data: {}\n\n');
      if (response.statusCode === 410) response.end();
    });
    const writes = new EventEmitter();
    const stream = () => new Writable({ write: (text, _, done) => writes.emit('write', String(text), done) });
    const first = once(writes, 'write');
    const args = ['changes', '--url', url];
    const ended = run({ ...quietProcess(), args, stdout: stream(), stderr: stream() });
    const [, done] = await first;
    const second = once(writes, 'write');
    done();
    await nextTurn();
    t.mock.timers.tick(45_000);
    const [text] = await second;
    assert.equal(text, 'users-service: nothing came for 45 s; connecting again\n');
    t.mock.timers.tick(1_000);
    assert.equal(await ended, 4);
  });

  it('filters changes, starts after a position, and sends the key from the environment', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository, auth: 'all', apiKeys: ['secret'] });
    for (const name of ['Ada', 'Grace', 'Mary']) await repository.users.create({ name });
    await repository.posts(2).create({ title: 'Notes', body: '' });
    await repository.users.delete(2);
    const args = ['--url', http, '--after', '1', '--user', '2', '--type', 'user.created,user.deleted'];
    const command = startCommand(t, args, { API_KEY: 'secret' });
    assert.equal(await command.next(), '2 user.created');
    assert.equal(await command.next(), '6 user.deleted');
  });

  it('reconnects after a restart of the service, and misses no change', async (t) => {
    const repository = createMemoryStore();
    const first = await startService(t, { repository });
    const command = startCommand(t, ['--url', first.http]);
    await repository.users.create({ name: 'Ada' });
    assert.equal(await command.next(), '1 user.created');
    await first.service.close();
    await repository.users.create({ name: 'Grace' });
    await startService(t, { repository, port: first.port });
    assert.equal(await command.next(), '2 user.created');
  });

  it('exits with 4 when its position is no longer kept', async (t) => {
    const repository = createMemoryStore();
    const { http } = await startService(t, { repository });
    const { code, stdout, stderr } = await runCommand(['changes', '--url', http, '--after', '7']);
    assert.deepEqual([code, stdout], [4, '']);
    assert.match(stderr, /^users-service: http\S+ answers 410: the position 7 was never assigned/);
    const command = startCommand(t, ['--url', http]);
    await repository.users.create({ name: 'Ada' });
    await command.next();
    await repository.importRows('users', [{ id: 9, name: 'Imported', version: 1 }]);
    const [exit, message] = await command.ended;
    assert.equal(exit, 4);
    assert.match(message, /^users-service: the position is no longer kept: [^{]+: read the list again/);
    await assert.rejects(command.next(), /ended/, 'only changes are printed');
  });

  it('saves the position of the last change that it prints before its position is no longer kept', async (t) => {
    const url = await serve(t, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end('id: 5\ndata: {}\n\nevent: gone\ndata: {}\n\n');
    });
    const state = temporaryFile();
    const { code, stdout } = await runCommand(['changes', '--url', url, '--state', state]);
    assert.deepEqual([code, stdout, await readFile(state, 'utf8')], [4, '{}\n', '5\n']);
  });

  it('connects again after the status 408, 429 or 500', async (t) => {
    const connect = async (status: number) => {
      const statuses = [status, 410];
      // Only a redirect has a location to follow.
      const url = await serve(t, (_, response) =>
        response.writeHead(statuses.shift() ?? 200, { location: '/' }).end(),
      );
      const { code, stderr } = await runCommand(['changes', '--url', url]);
      assert.equal(code, 4);
      assert.match(stderr, new RegExp(`answers ${status}: .*; connecting again\n.*answers 410: (?!.*again)`));
    };
    await Promise.all([408, 429, 500].map(connect));
  });

  /** Starts a server that responds with these statuses, one after another, and at 200 with one event. */
  const listenWith = (t: TestContext, ...statuses: number[]) =>
    serve(t, (_, response) => {
      const status = statuses.shift() ?? 410;
      response.writeHead(status, { 'content-type': 'text/event-stream' });
      response.end(status === 200 ? 'id: 1\ndata: {}\n\n' : '');
    });

  it('doubles its pauses up to 30 s while it cannot connect, and begins again after an event', async (t) => {
    const pauses = recordPauses(t);
    t.mock.method(Math, 'random', () => 0.5);
    const url = await listenWith(t, 503, 503, 503, 503, 503, 503, 200, 503);
    assert.equal((await runCommand(['changes', '--url', url])).code, 4);
    // Between the shortest and the longest: half of each pause is random.
    assert.deepEqual(pauses, [1_500, 3_000, 6_000, 12_000, 22_500, 22_500, 750, 1_500]);
  });

  it('continues after its last event, although only a comment came on the last connection', async (t) => {
    recordPauses(t);
    const texts = ['id: 5\ndata: {}\n\n', ': comment\n\n'];
    const positions: unknown[] = [];
    const url = await serve(t, ({ url: path, headers }, response) => {
      positions.push(headers['last-event-id'] ?? path);
      const text = texts.shift();
      response.writeHead(text === undefined ? 410 : 200, { 'content-type': 'text/event-stream' }).end(text);
    });
    assert.equal((await runCommand(['changes', '--url', url, '--after', '1'])).code, 4);
    assert.deepEqual(positions, ['/changes?after=1', '5', '5']);
  });

  it('syncs the file of its position to disk', async (t) => {
    recordPauses(t);
    const { mock } = t.mock.method(fs, 'writeFile');
    syncBuiltinESMExports();
    const state = temporaryFile();
    await runCommand(['changes', '--url', await listenWith(t, 200), '--state', state]);
    const written = mock.calls.map(({ arguments: given }) => given);
    assert.deepEqual(written, [[`${state}.new`, '1\n', { flush: true }]]);
  });

  it('exits with 1 at a response that a retry would not change', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: ['secret'] });
    const refused = await runCommand(['changes', '--url', http]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /answers 401: x-api-key is required$/m);
    const other = await serve(t, (_, response) => response.end('<!doctype html>'));
    const wrong = await runCommand(['changes', '--url', other]);
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /answers 200: not a stream of changes$/m);
  });

  it('exits with 1 at an error that does not come from the connection', async (t) => {
    recordPauses(t);
    const errors = [new TypeError('unexpected')];
    t.mock.method(globalThis, 'fetch', async () => {
      throw errors.shift() ?? new Error('sent again');
    });
    const { code, stderr } = await runCommand(['changes', '--url', 'http://127.0.0.1:3000']);
    assert.deepEqual([code, stderr], [1, 'users-service: unexpected\n']);
  });

  const lasting = [
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'SELF_SIGNED_CERT_IN_CHAIN',
    'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'ERR_TLS_CERT_ALTNAME_INVALID',
  ];
  for (const code of [...lasting, 'CERT_HAS_EXPIRED', 'ECONNREFUSED', 'ENOTFOUND']) {
    const isLasting = lasting.includes(code);
    it(`${isLasting ? 'exits with 1' : 'connects again'} after ${code}`, async (t) => {
      recordPauses(t);
      const failed = new TypeError('fetch failed', { cause: Object.assign(new Error('no'), { code }) });
      const errors = [failed, new TypeError('unexpected')];
      t.mock.method(globalThis, 'fetch', async () => Promise.reject(errors.shift()));
      const { code: exit, stderr } = await runCommand(['changes', '--url', 'https://127.0.0.1:3000']);
      const lines = isLasting ? ['fetch failed: no'] : ['fetch failed: no; connecting again', 'unexpected'];
      assert.deepEqual([exit, stderr], [1, lines.map((line) => `users-service: ${line}\n`).join('')]);
    });
  }

  it('exits with 1 at a certificate that no authority has signed', async (t) => {
    const { http } = await startService(t, { tls: createCertificate() });
    const { code, stderr } = await runCommand(['changes', '--url', http]);
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: fetch failed: self-signed certificate.*\n$/);
    assert.doesNotMatch(stderr, /again/);
  });

  it('exits with 2 if its URL begins with https: and the port does not use TLS', async (t) => {
    const { http } = await startService(t);
    const { code, stderr } = await runCommand(['changes', '--url', http.replace('http:', 'https:')]);
    const message = 'users-service: --url must begin with http:, because its port does not use TLS\n';
    assert.deepEqual([code, stderr], [2, message]);
  });

  it('asks whether the port uses TLS if it closes connections without a response', async (t) => {
    const { http } = await startService(t, { tls: createCertificate() });
    const { child } = startCommand(t, ['--url', http.replace('https:', 'http:')]);
    assert.ok(child.stderr);
    const [text] = await once(child.stderr, 'data');
    const reason = 'fetch failed: other side closed; if its port uses TLS, use https:';
    assert.equal(text, `users-service: ${reason}; connecting again\n`);
  });

  for (const [scheme, message] of [
    ['https', 'fetch failed'],
    ['http', 'terminated'],
  ] as const) {
    it(`does not ask whether an ${scheme}: port uses TLS after "${message}"`, async (t) => {
      recordPauses(t);
      const closed = new TypeError(message, { cause: new Error('other side closed') });
      const errors = [closed, new TypeError('unexpected')];
      t.mock.method(globalThis, 'fetch', async () => Promise.reject(errors.shift()));
      const { stderr } = await runCommand(['changes', '--url', `${scheme}://127.0.0.1:3000`]);
      assert.match(
        stderr,
        new RegExp(`^users-service: ${message}: other side closed; connecting again$`, 'm'),
      );
    });
  }

  it('exits with 1 at a redirect, and does not send the key to another server', async (t) => {
    const keys: unknown[] = [];
    const other = await serve(t, ({ headers }, response) => {
      keys.push(headers['x-api-key']);
      response.end();
    });
    const url = await serve(t, (_, response) => {
      response.writeHead(307, { location: `${other}/changes?token=hunter2` }).end();
    });
    const { code, stderr } = await runCommand(['changes', '--url', url], { env: { API_KEY: 'secret' } });
    const message = `users-service: ${url}/changes answers 307: not a stream of changes\n`;
    assert.deepEqual([code, stderr, keys], [1, message, []]);
  });

  const url = ['--url', 'http://127.0.0.1:9'];
  const wrong: readonly [args: string[], message: RegExp, env?: Record<string, string>][] = [
    [[], /^users-service: usage: users-service changes --url URL/],
    [['--url', 'ftp://x'], /--url must be the address of a service/],
    [['--url', 'http://ada:hunter2@127.0.0.1:9'], /--url must have no user, password, query or fragment/],
    [['--url', 'http://ada@127.0.0.1:9'], /--url must have no user, password, query or fragment/],
    [['--url', 'http://:hunter2@127.0.0.1:9'], /--url must have no user, password, query or fragment/],
    [['--url', 'http://127.0.0.1:9/?x=1'], /--url must have no user, password, query or fragment/],
    [url, /--url must have another port: the Fetch standard blocks port 9$/m],
    [[...url, '--after', 'x'], /--after must be a whole number/],
    [[...url, '--type', 'user'], /--type must be a comma list of user\.created/],
    [[...url, '--user', '0'], /--user must be a whole number/],
    [[...url, '--state', ''], /--state must be a path/],
    [url, /API_KEY must be a key of visible ASCII characters/, { API_KEY: 'hunter2\nhunter2' }],
  ];
  for (const [args, message, env = {}] of wrong) {
    const given = [...Object.keys(env), JSON.stringify(args)].join(' with ');
    it(`rejects ${given} with exit code 2, without secrets`, { timeout: 20_000 }, async () => {
      const { code, stderr } = await runCommand(['changes', ...args], { env });
      assert.equal(code, 2);
      assert.match(stderr, message);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
      assert.doesNotMatch(stderr, /hunter2/);
    });
  }

  it('describes in its help and its documentation after which failures it connects again', async () => {
    const { stdout } = await runCommand(['changes', '--help']);
    const page = await readFile(new URL('../../src/commands/README.md', import.meta.url), 'utf8');
    for (const text of [stdout, page]) {
      assert.match(
        text.replaceAll('\n', ' '),
        /After a lost connection, a 5xx status, 408 or 429 it connects again, .*Any other status ends it/,
      );
    }
  });

  it('rejects a file without a saved position, and a folder', async () => {
    const state = temporaryFile();
    await writeFile(state, 'my diary');
    for (const [path, reason] of [
      [state, ''],
      [dirname(state), ' (EISDIR)'],
    ] as const) {
      const { code, stderr } = await runCommand(['changes', ...url, '--state', path]);
      assert.deepEqual(
        [code, stderr],
        [2, `users-service: --state must be a file that this command has written, not ${path}${reason}\n`],
      );
    }
  });
});
