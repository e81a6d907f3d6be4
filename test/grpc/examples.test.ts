import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';
import { runTool } from '../support/tool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(join(root, 'proto/README.md'), 'utf8');
const python = (await runTool('python3', ['-c', 'import grpc_tools'])).code === 0;

/** The first example in this language. */
function example(language: string): string {
  const [, code] = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(readme) ?? [];
  assert.ok(code, `proto/README.md has an example in ${language}`);
  return code;
}

const generate = '-m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. users.proto';

const examples = [
  { language: 'js', file: 'user.mjs', command: process.execPath, skip: false, before: [] },
  {
    ...{ language: 'python', file: 'user.py', command: 'python3', before: generate.split(' ') },
    skip: python ? false : 'grpcio-tools is not installed for python3',
  },
] as const;

describe('an example in proto/README.md prints the name of user 1', () => {
  for (const { language, file, command, before, skip } of examples) {
    it(language, { skip }, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'example-'));
      t.after(() => rm(folder, { recursive: true }));
      const { http, grpc } = await startService(t, { grpcPort: 0 });
      await send(http, 'POST /users', { json: { name: 'Ada' } });
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
      cpSync(join(root, 'proto/users.proto'), join(folder, 'users.proto'));
      writeFileSync(join(folder, file), example(language).replace('localhost:50051', grpc));
      const run = (args: readonly string[]) => promisify(execFile)(command, args, { cwd: folder });
      if (before.length > 0) await run(before);
      assert.equal((await run([file])).stdout.trim(), 'Ada');
    });
  }
});
