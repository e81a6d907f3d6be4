import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { GetUserRequest, UserMessage, UsersService } from '../../src/grpc/users.ts';
import { temporaryFolder } from '../support/temporary.ts';
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

/** A copy of proto/ with changes in users.proto. */
function changed(...changes: readonly (readonly [from: string, to: string])[]): string {
  const folder = temporaryFolder();
  cpSync(proto, folder, { recursive: true });
  let text = contract;
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `the contract has no ${from}`);
    text = text.replace(from, to);
  }
  writeFileSync(join(folder, 'users.proto'), text);
  return folder;
}

describe('the gRPC contract', () => {
  // `npm run check` checks its style, its format and its compatibility. Tests show that the check finds problems.
  it('the gRPC contract is the same file that the service serves', () => {
    const published = readFileSync(join(root, 'public', 'users.proto'), 'utf8');
    assert.equal(published, contract, 'cp proto/users.proto public/');
  });

  // Each group is checked at once, because none of its changes hides another.
  type Change = readonly [what: string, from: string, to: string, problem: string];
  const breaking: readonly (readonly Change[])[] = [
    [
      ['a renamed method', 'rpc GetUser', 'rpc FindUser', 'RPC "GetUser" on service "Users" was deleted'],
      ['a changed field type', 'int32 id = 1;', 'int64 id = 1;', 'changed type from "int32" to "int64"'],
      ['a renamed field', 'string name = 2;', 'string full_name = 2;', 'changed name from "name"'],
      ['another Go package', 'users-service/userspb', 'users-service/users', 'option "go_package" changed'],
      ['another Java package', '= "usersservice"', '= "users"', 'option "java_package" changed'],
      ['another C# namespace', '= "UsersService"', '= "Users"', 'option "csharp_namespace" changed'],
    ],
    [
      ['a renamed service', 'service Users', 'service UserService', 'service "Users" was deleted'],
      ['a changed field number', 'string name = 2;', 'string name = 3;', 'field "2" with name "name"'],
    ],
    [['a package', 'syntax = "proto3";', 'syntax = "proto3";\npackage users.v1;', 'File package changed']],
    [
      ['a streamed response', 'returns (User)', 'returns (stream User)', 'changed from server unary'],
      ['a removed field', 'string name = 2;', 'reserved 2;', 'field "2" with name "name"'],
    ],
    [['another response type', 'returns (User)', 'returns (GetUserRequest)', 'changed response type']],
  ];
  for (const changes of breaking) {
    const names = changes.map(([what]) => what).join(', ');
    it(`the check of the gRPC contract rejects ${names}, which would break clients`, async () => {
      const folder = changed(...changes.map(([, from, to]) => [from, to] as const));
      const { code, output } = await buf('breaking', folder, '--against', published);
      assert.equal(code, 100, output);
      assert.match(output, /users\.proto:\d+/);
      for (const [, , , problem] of changes) assert.ok(output.includes(problem), output);
    });
  }

  it('the check of the gRPC contract accepts a new field', async () => {
    const grown = changed(['string name = 2;', 'string name = 2;\n  // Role, if any.\n  string role = 3;']);
    assert.deepEqual(await buf('breaking', grown, '--against', published), { code: 0, output: '' });
  });

  it('the check of the gRPC contract rejects names that break the style', async () => {
    const { code, output } = await buf('lint', changed(['int32 id = 1;', 'int32 userId = 1;']));
    assert.equal(code, 100);
    assert.match(output, /userId/);
  });
});

describe('the code generated from the contract', () => {
  it('the generated code has the descriptors of the present contract (otherwise run npm run generate)', async () => {
    const folder = temporaryFolder();
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
