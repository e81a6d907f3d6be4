import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, describe, it, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePorts } from '../kit/free-ports.ts';
import { documents } from '../kit/markdown.ts';
import { createFolder, folderOfHosts, root, whyNot } from './folder.ts';

const page = documents.get('src/embedding.md') ?? '';
const bins = [folderOfHosts, root].map((folder) => join(folder, 'node_modules/.bin'));
const path = [...bins, process.env['PATH']].join(delimiter);
const env = { ...process.env, PATH: path, NEXT_TELEMETRY_DISABLED: '1' };

/** The code of a tool in the documentation, from the second column of its row. */
function line(tool: string): string {
  const rows = [...page.matchAll(/^\| ([^|]+) \| [^`|]*`([^`]+)`/gm)];
  const [, , code] = rows.find(([, name]) => name === tool) ?? [];
  assert.ok(code !== undefined, `src/embedding.md has a line for ${tool}`);
  return code;
}

// The example without its last line, which sends a request.
const [, handler = ''] = /```ts\n([^`]*createFetchHandler[^`]*?)\n\n[^`]*```/.exec(page) ?? [];
const fetchHandler = handler.replace('sqlite:./data/users.db', 'memory:');

let dist: Promise<string> | undefined;
after(async () => dist && (await rm(await dist, { recursive: true })));

async function build(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tools-'));
  // Other tests and `npm run check` check the types.
  await run(root, `tsc -p tsconfig.build.json --noCheck --outDir ${folder}`);
  return folder;
}

/** A folder with these files, in which the package is installed as npm would install it. */
async function createProject(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const project = await createFolder(t, { 'node_modules/users-service/installed': '', ...files });
  const installed = join(project, 'node_modules/users-service');
  await cp(join(root, 'package.json'), join(installed, 'package.json'));
  for (const name of ['generated', 'public']) await symlink(join(root, name), join(installed, name));
  dist ??= build();
  await cp(await dist, join(installed, 'dist'), { recursive: true });
  return project;
}

/** Runs a command line, and resolves to its output. */
async function run(cwd: string, command: string): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)('sh', ['-c', command.replace('npx ', '')], {
    cwd,
    env,
  });
  return stdout + stderr;
}

// Uses everything that a tool could break: a worker thread, both ports and the console.
const service = `
  const service = createService({ database: 'sqlite:./users.db', port: 0, grpcPort: 0, observe: () => {} });
  const { http } = await service.listen();
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"Ada"}' };
  const statuses = [(await fetch(http + '/users', init)).status, (await fetch(http)).status];
  await service.close();`;
const load = `import { createService } from 'users-service';`;
// The last argument is a time limit for busy machines. The default of both runners is 5 s.
const unit = `test('a user is created', async () => {${service}\n  expect(statuses).toEqual([201, 200]); }, 60_000);`;

const cases: readonly [tool: string, files: Record<string, string>, then: string, prints: RegExp][] = [
  ['esbuild', { 'app.js': `${load}${service}\nconsole.log(...statuses);` }, 'node out.js', /^201 200$/m],
  [
    'vitest',
    { 'users.test.js': `import { expect, test } from 'vitest';\n${load}\n${unit}` },
    'true',
    /1 passed/,
  ],
  ['jest', { 'users.test.js': `${load}\n${unit}` }, 'true', /1 passed/],
];

describe('the tools in src/embedding.md', () => {
  for (const [tool, files, then, prints] of cases) {
    it(`the package works in ${tool}`, { skip: whyNot([tool]) }, async (t) => {
      const name = tool === 'esbuild' ? tool : `${tool[0]?.toUpperCase()}${tool.slice(1)}`;
      const project = await createProject(t, files);
      assert.match(await run(project, `${line(name)} && ${then}`), prints);
    });
  }

  const hasNet = process.allowedNodeEnvironmentFlags.has('--allow-net');
  const why = hasNet ? false : 'Node.js 24 has no --allow-net';
  it('the package works in a Node.js that gives it permissions', { skip: why }, async (t) => {
    const project = await createProject(t, { 'app.js': `${load}${service}\nconsole.log(...statuses);` });
    assert.match(await run(project, line('Node.js with permissions')), /^201 200$/m);
  });

  it('the package works in a route of Hono', { skip: whyNot(['hono']) }, async (t) => {
    const project = await createProject(t, {
      'app.js': `import { Hono } from 'hono';
        ${fetchHandler}
        const app = new Hono();
        ${line('Hono')}
        const response = await app.request('/api/users');
        console.log(response.status, await response.text());`,
    });
    assert.equal(await run(project, 'node app.js'), '200 []\n');
  });

  it('the package works in a route handler of Next.js', { skip: whyNot(['next']) }, async (t) => {
    const [, route = ''] = /Next\.js, in `app\/api[^`]*` \| `([^`]+)`/.exec(page) ?? [];
    const project = await createProject(t, {
      'users.js': fetchHandler,
      'app/api/[...path]/route.js': `import { users } from '../../../users.js';\n${route}`,
      'app/layout.js': 'export default ({ children }) => children;',
      'next.config.js': line('Next.js'),
    });
    const [port = 0] = await freePorts(1);
    const options = { cwd: project, env, stdio: 'ignore', detached: true } as const;
    const next = spawn('next', ['dev', '--port', `${port}`], options);
    const ended = once(next, 'exit');
    t.after(async () => {
      // The server is a child process of the command, so end the whole group.
      if (next.pid !== undefined) process.kill(-next.pid, 'SIGKILL');
      await ended;
    });
    const url = `http://localhost:${port}/api/users`;
    const deadline = Date.now() + 60_000;
    while (!(await fetch(url).catch(() => undefined))) {
      assert.ok(next.exitCode === null && Date.now() < deadline, 'Next.js does not listen');
      await delay(50);
    }
    const headers = { 'content-type': 'application/json' };
    const created = await fetch(url, { method: 'POST', headers, body: '{"name":"Ada"}' });
    assert.deepEqual([created.status, await created.json()], [201, { id: 1, name: 'Ada' }]);
  });
});
