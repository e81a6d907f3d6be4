// Installs the packed package into empty projects with each supported Node.js, with and without optional
// dependencies, and runs it there as a command and as an import:
//
//   npm run try:package
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { readArguments } from './harness/arguments.ts';
import { fail } from './harness/fail.ts';

readArguments({});

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'package-'));
// The oldest that package.json allows, and the newest of each supported line.
const nodes = ['24.7.0', '24', '26'];

const npm = (args: string[], cwd: string): string => {
  return execFileSync('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd,
    encoding: 'utf8',
  });
};

/** Starts the command, creates a user and stops it. Resolves to the response. */
async function runCommand(node: string, project: string): Promise<string> {
  const bin = join(project, 'node_modules', '.bin', 'users-service');
  const args = [bin, '--port', '0', '--grpc-port', '0', '--database', 'sqlite:./users.db', '--log', 'json'];
  const child = spawn(node, args, { cwd: project, stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let answer = 'no answer';
  for await (const line of createInterface({ input: child.stdout })) {
    const { event, http } = JSON.parse(line);
    if (event !== 'listening') continue;
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${http}/users`, { method: 'POST', headers, body: '{"name":"Ada"}' });
    answer = `${response.status} ${await response.text()}`;
    child.kill('SIGTERM');
  }
  const [code] = await exited;
  if (!answer.startsWith('201') || code !== 0) fail(`the command with ${node} in ${project}`);
  return `${answer}, exit code ${code}`;
}

try {
  npm(['pack', '--pack-destination', folder], root);
  const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '');
  for (const version of nodes) {
    const runtime = join(folder, `node-${version}`);
    mkdirSync(runtime);
    // The package `node` downloads the runtime in its install script, which npm runs only if it is allowed.
    writeFileSync(join(runtime, 'package.json'), JSON.stringify({ allowScripts: { node: true } }));
    npm(['install', `node@${version}`], runtime);
    const node = join(runtime, 'node_modules', 'node', 'bin', 'node');
    const exact = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim();
    for (const omit of [[], ['--omit=optional']]) {
      const project = join(folder, `project-${version}${omit.length}`);
      mkdirSync(project);
      npm(['init', '--yes'], project);
      npm(['install', tarball, ...omit], project);
      const packages = npm(['ls', '--all', '--parseable'], project).trim().split('\n').length - 1;
      const kib = execFileSync('du', ['-sk', join(project, 'node_modules')], { encoding: 'utf8' }).split(
        '\t',
      )[0];
      const size = `${(Number(kib) / 1024).toFixed(1)} MiB in ${packages} packages`;
      const imported = execFileSync(
        node,
        [
          '--input-type=module',
          '--eval',
          "console.log(typeof (await import('users-service')).createService)",
        ],
        { cwd: project, encoding: 'utf8' },
      ).trim();
      if (imported !== 'function') fail(`the import with ${node} in ${project}`);
      const command = await runCommand(node, project);
      console.log(
        `Node ${exact} ${omit.join() || '(all)'}: ${size}; import: ${imported}; command: ${command}`,
      );
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
