import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { printed, startProcess, withoutGrpc } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { runCommand } from '../support/command.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

const isRoot = process.getuid?.() === 0;

/** Creates a file. With a mode for others, it belongs to a user who is not root. */
async function keysFile(text: string, mode = 0o600): Promise<string> {
  const folder = temporaryFolder();
  const file = join(folder, 'keys');
  await writeFile(file, text, { mode });
  await chmod(file, mode);
  if (isRoot && mode !== 0o600) await chown(file, 65_534, 65_534);
  return file;
}

/** Creates a named pipe. */
async function keysPipe(): Promise<string> {
  const file = await keysFile('');
  await rm(file);
  assert.equal((await runTool('mkfifo', ['-m', '600', file])).code, 0);
  return file;
}

const withPipes = {
  skip: process.platform === 'win32' && 'Windows has no such files',
  timeout: 30_000,
};

const secured = [...withoutGrpc, '--database', 'memory:', '--auth', 'all'];
const hash = createHash('sha256').update('hashed').digest('hex');
const statusOf = async (http: string, key: string, method = 'GET') =>
  (await fetch(`${http}/users`, { method, headers: { 'x-api-key': key } })).status;

test('a file of API keys is read at the start, and again at SIGHUP', async (t) => {
  const file = await keysFile(`# the keys\n\nfirst\r\nreader:read=sha256:${hash}\n`);
  const args = [...secured, '--api-keys-file', file, '--api-key', 'always'];
  const running = await startProcess(t, args);
  const { child, http } = running;
  for (const key of ['first', 'hashed', 'always']) assert.equal(await statusOf(http, key), 200, key);
  assert.equal(await statusOf(http, 'hashed', 'DELETE'), 405);
  assert.equal(await statusOf(http, hash), 401);

  await writeFile(file, 'second\n');
  child.kill('SIGHUP');
  await printed(running, 'reloaded');
  assert.equal(await statusOf(http, 'second'), 200);
  assert.equal(await statusOf(http, 'always'), 200);
  assert.equal(await statusOf(http, 'first'), 401);
});

test('a SIGHUP replaces the keys although the public folder, which it does not read, is missing', async (t) => {
  const file = await keysFile('first\n');
  const folder = join(dirname(file), 'public');
  await mkdir(folder);
  const args = [...secured, '--api-keys-file', file, '--public', folder];
  const running = await startProcess(t, args);
  await rm(folder, { recursive: true });
  await writeFile(file, 'second\n');
  running.child.kill('SIGHUP');
  await printed(running, 'reloaded');
  assert.equal(await statusOf(running.http, 'first'), 401);
});

test(
  'a named pipe of API keys is read once at the start and at SIGHUP, so that it does not delay a stop',
  withPipes,
  async (t) => {
    const file = await keysPipe();
    const args = [...secured, '--api-keys-file', file];
    const [running] = await Promise.all([startProcess(t, args), writeFile(file, 'first\n')]);
    assert.equal(await statusOf(running.http, 'first'), 200);
    running.child.kill('SIGHUP');
    await writeFile(file, 'second\n');
    await printed(running, 'reloaded');
    assert.equal(await statusOf(running.http, 'second'), 200);
    // This reading has no writer.
    running.child.kill('SIGHUP');
    assert.equal(await running.end(), 0);
  },
);

test(
  'a named pipe of API keys is rejected with several workers, of which some would read no key',
  withPipes,
  async () => {
    const file = await keysPipe();
    const { code, stderr } = await runCommand(['--workers', '2', '--api-keys-file', file]);
    assert.equal(code, 2);
    assert.match(stderr, /--api-keys-file must be .* \(workers cannot share a pipe\)\n/);
  },
);

test('a SIGHUP during the start reads the file of API keys again once the service listens', async (t) => {
  const file = await keysFile('first\n');
  // The file changes, and the signal arrives, when the process begins to handle the signal: it has read the file.
  const source = `
    import { writeFileSync } from 'node:fs';
    process.on('newListener', (name) => {
      if (name !== 'SIGHUP') return;
      writeFileSync(${JSON.stringify(file)}, 'second');
      queueMicrotask(() => process.emit(name));
    })`;
  const preload = `--import=data:text/javascript,${encodeURIComponent(source)}`;
  const args = [...secured, '--api-keys-file', file];
  const running = await startProcess(t, args, { NODE_OPTIONS: preload });
  await printed(running, 'reloaded');
  assert.equal(await statusOf(running.http, 'second'), 200);
  assert.equal(await statusOf(running.http, 'first'), 401);
});

test('a file without API keys is a warning at the start, at SIGHUP and of doctor, because no key is valid', async (t) => {
  const file = await keysFile('# none\n');
  const args = [...secured, '--api-keys-file', file];
  const problem = `${file} has no API key, so requests that need one are 401; add one, then send SIGHUP`;
  const examined = await runCommand(['doctor', '--port', '0', ...args]);
  assert.equal(examined.code, 3);
  assert.ok(examined.stdout.includes(`\nwarn  ${problem}\n`), examined.stdout);

  const running = await startProcess(t, args);
  const warnings = (count: number) => {
    const isPrinted = () => running.lines.filter(({ message }) => message === problem).length === count;
    return until(isPrinted, `${count} warnings`, 100_000);
  };
  await warnings(1);
  running.child.kill('SIGHUP');
  await warnings(2);
  await writeFile(file, 'first\n');
  running.child.kill('SIGHUP');
  await printed(running, 'reloaded', 2);
  assert.equal(await statusOf(running.http, 'first'), 200);
});

test('a SIGHUP with a malformed file keeps the keys and reports the line', async (t) => {
  const file = await keysFile('first\n');
  const args = [...secured, '--api-keys-file', file];
  const running = await startProcess(t, args);
  const { child, http, lines } = running;
  await writeFile(file, 'second\na:raed=third\n');
  child.kill('SIGHUP');
  await printed(running, 'failure');
  assert.match(JSON.stringify(lines), /line 2: an API key with a name must have scopes of read/);
  assert.doesNotMatch(JSON.stringify(lines), /third/);
  assert.equal(await statusOf(http, 'first'), 200);
  assert.equal(await statusOf(http, 'second'), 401);
  const metrics = await fetch(`${http}/metrics`, { headers: { 'x-api-key': 'first' } });
  assert.match(await metrics.text(), /^users_service_failures_total 1$/m);
});

for (const [text, problem] of [
  ['a:read=hidden\n\na:write=hidden\n', 'line 3'],
  ['hidden\nhidden\nhidden\n', 'line 2'],
  ['first\na:read=hidden-flag\n', 'line 2'],
] as const) {
  test(`a secret that ${problem} of the file gives again is rejected: ${JSON.stringify(text)}`, async () => {
    const args = ['--print-config', '--api-key', 'hidden-flag', '--api-keys-file'];
    const { code, stderr } = await runCommand([...args, await keysFile(text)]);
    assert.equal(code, 2);
    assert.ok(stderr.includes(`${problem}: each API key must have a different secret`), stderr);
    assert.doesNotMatch(stderr, /hidden/);
  });
}

const accessible = /others have access: chmod 600, or defaultMode: 0440 in Kubernetes/;
for (const [what, text, mode, problem] of [
  ['that its group can read', 'key\n', 0o640, accessible],
  ['that all others can read', 'key\n', 0o604, accessible],
  [
    'with a misspelt scope',
    'app:wirte=secret\n',
    0o600,
    /line 1: an API key with a name must have scopes of (?!.*apiKeys)/,
  ],
] as const) {
  test(`a file of API keys ${what} is rejected before the service starts`, async () => {
    const file = await keysFile(text, mode);
    const { code, stderr } = await runCommand(['--print-config', '--api-keys-file', file]);
    assert.equal(code, 2);
    assert.match(
      stderr,
      /^users-service: --api-keys-file must be a file of API keys that other users may not read, not /,
    );
    assert.match(stderr, problem);
    assert.doesNotMatch(stderr, /secret/);
  });
}

test('a folder in place of a file of API keys is rejected as a folder, also if others have access to it', async () => {
  const folder = dirname(await keysFile('key\n'));
  await chmod(folder, 0o755);
  const { code, stderr } = await runCommand(['--print-config', '--api-keys-file', folder]);
  assert.equal(code, 2);
  assert.ok(stderr.endsWith(`, not ${JSON.stringify(folder)} (EISDIR)\n`), stderr);
});

for (const [mode, accepted] of [
  [0o440, true],
  [0o640, true],
  [0o660, false],
  [0o644, false],
] as const) {
  const name = `a file of API keys of root with the mode ${mode.toString(8)} is ${accepted ? 'accepted' : 'rejected'}`;
  test(name, { skip: !isRoot && 'only root can give a file to root' }, async () => {
    const file = await keysFile('key\n', mode);
    await chown(file, 0, 65_534);
    const { code } = await runCommand(['--print-config', '--api-keys-file', file]);
    assert.equal(code, accepted ? 0 : 2);
  });
}
