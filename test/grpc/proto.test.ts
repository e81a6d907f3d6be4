import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { GetUserRequest, UserMessage, UsersService } from '../../src/grpc/users.ts';
import { buf as bufCommand, runTool } from '../support/tool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const proto = join(root, 'proto');
const published = join(root, 'test', 'published');
const contract = readFileSync(join(proto, 'users.proto'), 'utf8');

/** Runs buf. Its exit code is 0, or 100 when it found a problem. */
async function buf(...args: readonly string[]): Promise<{ code: number; output: string }> {
  const { code, stdout, stderr } = await runTool(bufCommand, args);
  return { code, output: stdout + stderr };
}

/** A copy of proto/ with a change in users.proto. */
function changed(t: TestContext, from: string | RegExp, to: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'proto-'));
  t.after(() => rm(folder, { recursive: true }));
  cpSync(proto, folder, { recursive: true });
  const text = contract.replace(from, to);
  assert.notEqual(text, contract, 'the change must match the text of the contract');
  writeFileSync(join(folder, 'users.proto'), text);
  return folder;
}

describe('the gRPC contract', () => {
  it('the gRPC contract follows the rules of proto/buf.yaml', async () => {
    assert.deepEqual(await buf('lint', proto), { code: 0, output: '' });
  });

  it('the gRPC contract is formatted by buf', async () => {
    assert.deepEqual(await buf('format', '--exit-code', '-d', proto), { code: 0, output: '' });
  });

  it('the gRPC contract is compatible with clients of the published contract', async () => {
    assert.deepEqual(await buf('breaking', proto, '--against', published), { code: 0, output: '' });
  });

  it('the gRPC contract is the same file that the service serves', () => {
    assert.equal(
      readFileSync(join(root, 'public', 'users.proto'), 'utf8'),
      contract,
      'cp proto/users.proto public/',
    );
  });

  const breaking: readonly (readonly [string, string | RegExp, string])[] = [
    ['a renamed method', 'rpc GetUser', 'rpc FindUser'],
    ['a renamed service', 'service Users', 'service UserService'],
    ['a package', 'syntax = "proto3";', 'syntax = "proto3";\npackage users.v1;'],
    ['a streamed response', 'returns (User)', 'returns (stream User)'],
    ['another response type', 'returns (User)', 'returns (GetUserRequest)'],
    ['a changed field type', 'int32 id = 1;', 'int64 id = 1;'],
    ['a changed field number', 'string name = 2;', 'string name = 3;'],
    ['a renamed field', 'string name = 2;', 'string full_name = 2;'],
    ['a removed field', 'string name = 2;', 'reserved 2;'],
    ['another Go package', 'users-service/userspb', 'users-service/users'],
    ['another Java package', 'java_package = "usersservice"', 'java_package = "users"'],
    ['another C# namespace', 'csharp_namespace = "UsersService"', 'csharp_namespace = "Users"'],
  ];
  for (const [name, from, to] of breaking) {
    it(`the check of the gRPC contract rejects ${name}, which would break clients`, async (t) => {
      const { code, output } = await buf('breaking', changed(t, from, to), '--against', published);
      assert.equal(code, 100, output);
      assert.match(output, /users\.proto:\d+/);
    });
  }

  it('the check of the gRPC contract accepts a new field', async (t) => {
    const grown = changed(t, 'string name = 2;', 'string name = 2;\n  // Role, if any.\n  string role = 3;');
    assert.deepEqual(await buf('breaking', grown, '--against', published), { code: 0, output: '' });
  });

  it('the check of the gRPC contract rejects names that break the style', async (t) => {
    const { code, output } = await buf('lint', changed(t, 'int32 id = 1;', 'int32 userId = 1;'));
    assert.equal(code, 100);
    assert.match(output, /userId/);
  });
});

describe('the code generated from the contract', () => {
  it('the generated code has the descriptors of the present contract (otherwise run npm run generate)', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'image-'));
    t.after(() => rm(folder, { recursive: true }));
    const image = join(folder, 'users.binpb');
    const flags = ['--as-file-descriptor-set', '--exclude-source-info', '-o', image];
    assert.deepEqual(await buf('build', proto, ...flags), { code: 0, output: '' });
    const committed = readFileSync(join(root, 'generated', 'descriptors.binpb'));
    assert.ok(
      committed.includes(readFileSync(image)),
      'generated/descriptors.binpb has the same users.proto',
    );
  });

  it('the generated client calls /Users/GetUser', () => {
    assert.deepEqual(Object.keys(UsersService), ['getUser']);
    const { path, requestStream, responseStream } = UsersService.getUser;
    assert.deepEqual([path, requestStream, responseStream], ['/Users/GetUser', false, false]);
  });

  it('the generated code encodes the fields with the numbers of the contract', () => {
    const request = new GetUserRequest();
    request.setId(1);
    assert.deepEqual([...request.serializeBinary()], [0x08, 1]);
    const user = new UserMessage();
    user.setId(1);
    user.setName('Ada');
    assert.deepEqual([...user.serializeBinary()], [0x08, 1, 0x12, 3, 0x41, 0x64, 0x61]);
  });

  it('the generated code encodes a negative id in ten bytes, as int32 requires', () => {
    const request = new GetUserRequest();
    request.setId(-1);
    assert.deepEqual([...request.serializeBinary()], [0x08, ...Array.from({ length: 9 }, () => 0xff), 1]);
  });

  it('the generated code ignores unknown fields', () => {
    const user = UserMessage.deserializeBinary(Uint8Array.of(0x08, 7, 0x1a, 1, 0x78));
    assert.deepEqual(user.toObject(), { id: 7, name: '' });
  });
});
