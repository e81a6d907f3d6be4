import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../support/temporary.ts';

const script = fileURLToPath(new URL('../../scripts/generate/generate.ts', import.meta.url));

interface Run {
  readonly failed: boolean;
  readonly output: string;
}

function run(
  path: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<Run> {
  const { promise, resolve } = Promise.withResolvers<Run>();
  execFile(
    process.execPath,
    [path, ...args],
    { env: { ...process.env, ...env } },
    (error, stdout, stderr) => {
      resolve({ failed: error !== null, output: stdout + stderr });
    },
  );
  return promise;
}

const check = (env: Readonly<Record<string, string | undefined>>) => run(script, ['--check'], env);

// Most machines have no compiler. There, proto.test.ts compares the descriptors and bytes of the committed
// files with the contract.
const { PROTOC = '', PROTOC_GEN_GRPC = '', PROTOC_GEN_TS = '' } = process.env;
if ([PROTOC, PROTOC_GEN_GRPC, PROTOC_GEN_TS].every((path) => path !== '' && existsSync(path))) {
  test('generated/ is the output of the compiler for proto/', async () => {
    assert.deepEqual(await check({}), { failed: false, output: '' });
  });
}

for (const name of ['PROTOC', 'PROTOC_GEN_GRPC', 'PROTOC_GEN_TS']) {
  test(`npm run generate names ${name} when its file is missing`, async () => {
    const tools = { PROTOC: script, PROTOC_GEN_GRPC: script, PROTOC_GEN_TS: script };
    const { failed, output } = await check({ ...tools, [name]: '/nowhere/at/all' });
    assert.equal(failed, true);
    assert.equal(output, `generate: /nowhere/at/all is missing: set ${name} to the path of another one\n`);
  });
}

// Replaces protoc. It writes the requested files, except the one in SKIP. It writes an empty file for EMPTY.
const compiler = `#!${process.execPath}
const { writeFileSync } = require('node:fs');
const outputs = { js_out: ['_pb.js'], grpc_out: ['_grpc_pb.js'], ts_out: ['_pb.d.ts', '_grpc_pb.d.ts'] };
for (const arg of process.argv) {
  const [, flag, path] = /^--(\\w+)=(?:.*:)?(.*)$/.exec(arg) ?? [];
  if (flag === 'descriptor_set_out') writeFileSync(path, 'new');
  for (const ending of outputs[flag] ?? []) {
    const name = 'users' + ending;
    if (name !== process.env.SKIP) writeFileSync(path + '/' + name, name === process.env.EMPTY ? '' : 'new');
  }
}
`;

describe('npm run generate', {
  skip: process.platform === 'win32' && 'the stand-in for protoc is a script',
}, () => {
  const written = [
    'descriptors.binpb',
    'package.json',
    'users_grpc_pb.d.ts',
    'users_grpc_pb.js',
    'users_pb.d.ts',
    'users_pb.js',
  ];

  /** A project with old files in generated/, and a function that runs its scripts/generate. */
  async function createProject() {
    const folder = temporaryFolder();
    const tools = join(folder, 'scripts', 'generate');
    const generated = join(folder, 'generated');
    const protoc = join(folder, 'protoc.cjs');
    for (const path of [tools, generated]) await mkdir(path, { recursive: true });
    await cp(script, join(tools, 'generate.ts'));
    await cp(join(dirname(script), '../harness/arguments.ts'), join(folder, 'scripts/harness/arguments.ts'));
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    await writeFile(protoc, compiler, { mode: 0o755 });
    for (const name of [...written, 'removed_pb.js']) await writeFile(join(generated, name), 'old');
    const env = { PROTOC: protoc, PROTOC_GEN_GRPC: protoc, PROTOC_GEN_TS: protoc };
    return {
      generate: (more: Readonly<Record<string, string>>) =>
        run(join(tools, 'generate.ts'), [], { ...env, ...more }),
      /** The files in generated/, and which of them are unchanged. */
      async contents() {
        const names = (await readdir(generated)).sort();
        const texts = await Promise.all(names.map((name) => readFile(join(generated, name), 'utf8')));
        return { names, old: names.filter((_, i) => texts[i] === 'old') };
      },
    };
  }

  it('replaces every file, and removes those that are no longer generated', async () => {
    const project = await createProject();
    assert.deepEqual(await project.generate({}), { failed: false, output: '' });
    assert.deepEqual(await project.contents(), { names: written, old: [] });
  });

  const failures: readonly (readonly [failure: 'SKIP' | 'EMPTY', name: string])[] = [
    ['SKIP', 'users_pb.js'],
    ['SKIP', 'users_pb.d.ts'],
    ['SKIP', 'users_grpc_pb.js'],
    ['SKIP', 'users_grpc_pb.d.ts'],
    ['EMPTY', 'users_grpc_pb.js'],
  ];
  for (const [failure, name] of failures) {
    const what = failure === 'SKIP' ? 'is not written' : 'is empty';
    it(`changes nothing when ${name} ${what}, although protoc succeeds`, async () => {
      const project = await createProject();
      assert.deepEqual(await project.generate({ [failure]: name }), {
        failed: true,
        output: `generate: the tools wrote no ${name}; generated/ is unchanged\n`,
      });
      const names = [...written, 'removed_pb.js'].sort();
      assert.deepEqual(await project.contents(), { names, old: names });
    });
  }
});
