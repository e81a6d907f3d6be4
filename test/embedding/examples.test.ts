import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from '../kit/free-ports.ts';
import { documents } from '../kit/markdown.ts';
import { head, Wire } from '../kit/wire.ts';
import { runTool } from '../support/tool.ts';
import { createFolder, whyNot } from './folder.ts';

const page = documents.get('src/embedding.md') ?? '';
const blocks = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
const [listener = '', ...others] = blocks;
// serverless.test.ts tests the others.
const hosts = others.filter((code) => code.includes('listen('));

/** The packages that an example imports. */
function packagesOf(code: string): string[] {
  return [...code.matchAll(/ from '(@[^/']+\/[^/']+|[a-z][^/':]*)'/g)].map(([, name = '']) => name);
}

/** Files that an example needs: modules of the application, or pages of the host. */
const files: Readonly<Record<string, string>> = {
  'app.module.js': `
    import { Module } from '@nestjs/common';
    import 'reflect-metadata';
    export class AppModule {}
    Module({})(AppModule);`,
  'pages/index.js': 'export default () => "a page";',
  'public/other': 'a file that Next.js serves without compiling a page',
  'public/api/other': 'another such file',
};

/** Starts an example with a store in memory; resolves to its address once it is listening. */
async function start(t: TestContext, code: string): Promise<string> {
  const [port = 0] = await freePorts(1);
  const source = JSON.stringify(new URL('../../src/index.ts', import.meta.url).href);
  const folder = await createFolder(t, {
    ...files,
    'users.js': listener.replace("'users-service'", source).replace('sqlite:./data/users.db', 'memory:'),
    'host.js': code.replaceAll('3000', String(port)),
  });
  const host = spawn(process.execPath, ['host.js'], {
    cwd: folder,
    env: { ...process.env, NEXT_TELEMETRY_DISABLED: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = once(host, 'exit');
  t.after(async () => {
    host.kill('SIGKILL');
    await ended;
  });
  const url = `http://localhost:${port}`;
  const deadline = Date.now() + 60_000;
  while (!(await fetch(`${url}/api/users`).catch(() => undefined))) {
    assert.ok(host.exitCode === null && Date.now() < deadline, 'the example does not listen');
    await delay(50);
  }
  return url;
}

it('src/embedding.md has an example for each host', () => {
  assert.deepEqual(
    hosts.map((code) => packagesOf(code)[0] ?? 'node:http'),
    ['node:http', 'express', 'express', 'fastify', 'koa', '@hono/node-server', '@nestjs/core', 'next'],
  );
});

it('the example of the fetch handler in src/embedding.md gets a response', async () => {
  const [, code = ''] = /```ts\n([^`]*createFetchHandler[^`]*)```/.exec(page) ?? [];
  const source = JSON.stringify(new URL('../../src/index.ts', import.meta.url).href);
  const script = `${code}\nconsole.log(response.status, await response.text());`
    .replace("'users-service'", source)
    .replace('sqlite:./data/users.db', 'memory:');
  const args = ['--input-type=module', '--eval', script];
  const { code: exitCode, stdout, stderr } = await runTool(process.execPath, args);
  assert.deepEqual([exitCode, stdout], [0, '200 []\n'], stderr);
});

describe('an example in src/embedding.md serves users below its prefix', () => {
  for (const [index, code] of hosts.entries()) {
    it(`${packagesOf(code)[0] ?? 'node:http'}, example ${index + 1}`, {
      skip: whyNot(packagesOf(code)),
    }, async (t) => {
      const url = await start(t, code);
      const headers = { 'content-type': 'application/json' };
      const created = await fetch(`${url}/api/users`, { method: 'POST', headers, body: '{"name":"Ada"}' });
      assert.equal(created.status, 201, await created.text());
      assert.equal(created.headers.get('location'), '/api/users/1');
      const listed = await fetch(`${url}/api/users?limit=1`);
      assert.match(
        listed.headers.get('link') ?? '',
        /^<\/api\/users\?limit=1>; rel="first", <\/api\/changes/,
      );
      const refused = await fetch(`${url}/api/users/0`);
      assert.deepEqual(await refused.json(), { error: 'id must be a positive integer' });
      const wire = await Wire.open(t, Number(new URL(url).port));
      const fields = ['Content-Type: application/json', 'Content-Length: 14', 'Expect: 100-continue'];
      for (const _ of [1, 2]) {
        assert.equal((await wire.write(head('POST /api/users', ...fields)).next()).status, 100);
        assert.equal((await wire.write('{"name":"Ada"}').next()).status, 201);
      }
      for (const path of ['/api', '/api?from=a-link']) {
        const home = await fetch(url + path);
        assert.equal(new URL(home.url).pathname, '/api/', `${path} must lead to the console`);
        assert.match(await home.text(), /<title>Users/);
      }
      for (const path of ['/other', '/api/other']) {
        const other = await fetch(url + path);
        assert.ok(!other.headers.has('x-request-id'), `the host must handle ${path}`);
      }
    });
  }
});
