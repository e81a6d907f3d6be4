import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(new URL('../../scripts/generate/generate.ts', import.meta.url));

function check(
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ failed: boolean; output: string }> {
  const { promise, resolve } = Promise.withResolvers<{ failed: boolean; output: string }>();
  execFile(
    process.execPath,
    [script, '--check'],
    { env: { ...process.env, ...env } },
    (error, stdout, stderr) => {
      resolve({ failed: error !== null, output: stdout + stderr });
    },
  );
  return promise;
}

// Where there is no compiler, as on most machines, the committed files are compared with the contract by
// their descriptors and their bytes instead: see proto-contract.test.ts.
const { PROTOC = '', PROTOC_GEN_GRPC = '', PROTOC_GEN_TS = '' } = process.env;
if ([PROTOC, PROTOC_GEN_GRPC, PROTOC_GEN_TS].every((path) => path !== '' && existsSync(path))) {
  test('generated/ is what the compiler makes of proto/', async () => {
    assert.deepEqual(await check({}), { failed: false, output: '' });
  });
}

for (const name of ['PROTOC', 'PROTOC_GEN_GRPC', 'PROTOC_GEN_TS']) {
  test(`npm run generate names ${name} when it leads nowhere`, async () => {
    const tools = { PROTOC: script, PROTOC_GEN_GRPC: script, PROTOC_GEN_TS: script };
    const { failed, output } = await check({ ...tools, [name]: '/nowhere/at/all' });
    assert.equal(failed, true);
    assert.equal(output, `generate: /nowhere/at/all is missing: set ${name} to the path of another one\n`);
  });
}
