import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../support/temporary.ts';
import { hasTool, runTool } from '../support/tool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
const skip =
  process.platform === 'win32' ? 'Windows has no signals' : hasTool('npm') ? false : 'npm is not installed';

// npm forwards a signal to the shell that runs the script, but not to the child process of the shell.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} to npm start stops the service cleanly`, { skip }, async (t) => {
    const args = ['--port', '0', '--grpc-port', '0', '--database', 'memory:', '--log', 'json'];
    const npm = spawn('npm', ['start', '--', ...args], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    const { pid } = npm;
    assert.ok(pid);
    const closed = once(npm, 'close');
    t.after(() => {
      // A service that missed the signal would outlive npm and keep the pipe open.
      if (!npm.stdout.closed) process.kill(-pid, 'SIGKILL');
      return closed;
    });
    const events: string[] = [];
    for await (const line of createInterface({ input: npm.stdout })) {
      const event = line.startsWith('{') ? JSON.parse(line).event : 'npm';
      events.push(event);
      if (event === 'listening') npm.kill(signal);
    }
    const [code] = await closed;
    assert.equal(code, 0);
    const own = events.filter((event) => event !== 'npm');
    assert.deepEqual(own, ['listening', 'draining', 'closed']);
  });
}

// The documentation exports to a file this way. Additional output of npm would be part of the file.
test('npm start --silent prints only the output of the command', { skip }, async () => {
  const { code, stdout } = await runTool('npm', ['start', '--silent', '--', '--version'], { cwd: root });
  assert.equal(code, 0);
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
});

/** Runs a script of a shell with a Node.js that claims to be this version. */
async function runClaiming(version: string, script: string, options = '') {
  const folder = temporaryFolder();
  const claim = join(folder, 'claim.cjs');
  await writeFile(claim, `Object.defineProperty(process.versions, "node", { value: "${version}" })`);
  return runTool('/bin/sh', ['-c', script], {
    cwd: root,
    env: { PATH: dirname(process.execPath), NODE_OPTIONS: `--require=${claim} ${options}` },
  });
}

const skipShell = process.platform === 'win32' && 'Windows runs no scripts of a shell';

for (const [what, script, options] of [
  // Without the option, Node.js would read TypeScript, and so run the check of main.ts.
  ['npm start', scripts.start, '--no-experimental-strip-types'],
  ['the command', 'node src/main.ts --version', ''],
] as const) {
  test(`${what} prints one clear line on a Node.js that is too old`, { skip: skipShell }, async () => {
    for (const version of ['23.11.1', '24.6.0']) {
      const { code, stdout, stderr } = await runClaiming(version, script, options);
      assert.deepEqual({ version, code, stdout }, { version, code: 1, stdout: '' });
      assert.match(stderr, /^users-service: needs Node\.js 24\.7 or newer, this is v[\d.]+\n$/);
    }
  });
}

test('Node.js 12 can read the check of its version', async () => {
  const source = await readFile(join(root, 'src', 'require-node.cjs'), 'utf8');
  const [beforeExit = ''] = source.split('process.exit(1)');
  assert.doesNotMatch(beforeExit, /require\('node:/, 'it has no modules with this prefix');
  assert.doesNotMatch(source, /\?\?|\?\.|[|&]{2}=/, 'it has no such operators');
});

test('the oldest supported Node.js and newer ones pass the check', async () => {
  const script = `
    for (const value of ['24.7.0', '24.10.0', '25.0.0']) {
      Object.defineProperty(process.versions, 'node', { value });
      require('./src/require-node.cjs');
      delete require.cache[require.resolve('./src/require-node.cjs')];
    }`;
  const { code, stderr } = await runTool(process.execPath, ['--eval', script], { cwd: root });
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
});
