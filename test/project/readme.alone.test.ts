import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createService } from '../../src/service/service.ts';
import { documents } from '../kit/markdown.ts';
import { runCommand } from '../support/command.ts';
import { listen } from '../support/listen.ts';
import { temporaryFolder } from '../support/temporary.ts';

const run = promisify(execFile);

interface Step {
  readonly command: string;
  readonly expected: string;
}

/** The `$ command` steps of the console blocks, each with the output written below it. */
function transcript(text: string): Step[] {
  const blocks = [...text.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map((found) => found[1] ?? '');
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((step) => {
        const end = step.search(/[^\\]\n/) + 1;
        return { command: step.slice(0, end), expected: step.slice(end + 1) };
      }),
  );
}

/** The documented output as a pattern. `…` stands for any text, and on a separate line for any lines. */
function pattern(expected: string): RegExp {
  const text = expected
    .trim()
    .split('…')
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('[\\s\\S]*?');
  return new RegExp(`^${text}$`);
}

async function isInstalled(tool: string): Promise<boolean> {
  return await run('sh', ['-c', `command -v ${tool}`]).then(
    () => true,
    () => false,
  );
}

const tools = ['curl', 'grpcurl', 'buf'];
const missing = new Set<string>();
for (const tool of tools) if (!(await isInstalled(tool))) missing.add(tool);

const transcripts = [...documents].map(([path, text]) => ({ path, steps: transcript(text) }));

it('finds the examples of the documentation', () => {
  const paths = transcripts.filter(({ steps }) => steps.length > 0).map(({ path }) => path);
  assert.deepEqual(paths, ['README.md', 'proto/README.md', 'src/rest/README.md']);
});

for (const { path, steps } of transcripts.filter((one) => one.steps.length > 0)) {
  it(`${path}, step by step on a new store`, async (t) => {
    const service = createService({ database: 'memory:', port: 0, grpcPort: 0, apiKeys: ['secret-key'] });
    t.after(() => service.close());
    const { http, grpc = '' } = await service.listen();
    for (const { command, expected } of steps) {
      const tool = command.split(' ')[0] ?? '';
      await t.test(`$ ${command}`, { skip: missing.has(tool) && `${tool} is not installed` }, async () => {
        const local = command
          .replaceAll('localhost:3000', http.slice('http://'.length))
          .replaceAll('localhost:50051', grpc);
        const { stdout } = await run('bash', ['-c', local]);
        assert.match(stdout.replaceAll('\r', '').trim(), pattern(expected));
      });
    }
  });
}

it('src/rest/README.md, the example that follows the next links, reads all users', async (t) => {
  const service = createService({ database: 'memory:', port: 0, grpcPort: false });
  t.after(() => service.close());
  const { http } = await service.listen();
  const names = Array.from({ length: 201 }, (_, i) => `user ${i}`);
  for (const name of names) {
    const headers = { 'content-type': 'application/json' };
    await fetch(`${http}/users`, { method: 'POST', headers, body: JSON.stringify({ name }) });
  }
  const [, code = ''] =
    /^```js\n(const users = .*?)^```$/ms.exec(documents.get('src/rest/README.md') ?? '') ?? [];
  const local = `${code.replace('http://localhost:3000', http)}export { users };`;
  const { users } = await import(`data:text/javascript,${encodeURIComponent(local)}`);
  const listed = users.map(({ name }: { name: string }) => name);
  assert.deepEqual(listed, names);
});

const scriptTools = ['curl', 'jq'];
const missingTool = (await Promise.all(scriptTools.map(isInstalled))).includes(false);
it('src/commands/README.md, the script for a webhook sends a change until the status is 2xx', {
  skip: missingTool && 'curl or jq is not installed',
}, async (t) => {
  const service = createService({ database: 'memory:', port: 0, grpcPort: false });
  t.after(() => service.close({ timeoutMs: 0 }));
  const { http } = await service.listen();
  const statuses = [302, 500, 200, 204];
  const { promise: received, resolve, reject } = Promise.withResolvers<string[]>();
  const names: string[] = [];
  const webhook = createServer(async (request, response) => {
    names.push(((await json(request)) as { data: { name: string } }).data.name);
    response.writeHead(statuses[names.length - 1] ?? 200, { location: '/elsewhere' }).end();
    if (names.length === statuses.length) resolve(names);
  });
  const { http: receiver } = await listen(t, webhook);
  const folder = temporaryFolder();
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const command = `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`;
  await writeFile(join(folder, 'users-service'), command, { mode: 0o755 });
  const [, script = ''] =
    /^```sh\n(#!\/bin\/sh\n[\s\S]*?)^```$/m.exec(documents.get('src/commands/README.md') ?? '') ?? [];
  // The script and its commands are a process group. It ends with the pipe that only this process keeps open.
  const guarded = `exec 3<&0; { cat <&3; kill -KILL -$$; } & ${script}`;
  const child = spawn('sh', ['-c', guarded], {
    cwd: folder,
    detached: true,
    stdio: ['pipe', 'ignore', 'pipe'],
    env: {
      ...process.env,
      PATH: `${folder}:${process.env['PATH']}`,
      SERVICE: http,
      WEBHOOK: receiver,
    },
  });
  t.after(() => child.stdin.destroy());
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  child.on('exit', (code, signal) => reject(new Error(`the script ended with ${code ?? signal}: ${stderr}`)));
  for (const name of ['Ada', 'Grace "%s" \\']) {
    const headers = { 'content-type': 'application/json' };
    await fetch(`${http}/users`, { method: 'POST', headers, body: JSON.stringify({ name }) });
  }
  assert.deepEqual(await received, ['Ada', 'Ada', 'Ada', 'Grace "%s" \\']);
});

it('the records that src/storage/README.md shows can be imported', async () => {
  const [, input = ''] =
    /^```json\n(\{"type":"user"[\s\S]*?)^```$/m.exec(documents.get('src/storage/README.md') ?? '') ?? [];
  const database = `sqlite:${join(temporaryFolder(), 'users.db')}`;
  const { code, stderr } = await runCommand(['import', '--partial', '--database', database], { input });
  assert.deepEqual([code, input.split('\n').length], [0, 3], stderr);
});
