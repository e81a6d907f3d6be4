import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { aborted } from '../../src/domain/errors.ts';
import { createService, type Service } from '../../src/service/service.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { startService } from '../support/service.ts';
import { buf, hasTool, runTool, type ToolRun } from '../support/tool.ts';

const proto = fileURLToPath(new URL('../../proto', import.meta.url));
const skip = hasTool('grpcurl') ? false : 'grpcurl is not installed';

const ada = '{\n  "id": 1,\n  "name": "Ada"\n}\n';
const json = (id: number | string): readonly string[] => ['-d', JSON.stringify({ id })];

const method = 'Users/GetUser';

interface Expected {
  readonly code?: number;
  readonly stdout?: string | RegExp;
  readonly stderr?: string | RegExp;
}

/** A command line with ADDRESS for the address of the server. */
type Row = readonly [name: string, args: readonly string[], expected: Expected];

function check({ code = 0, stdout = '', stderr = '' }: Expected, run: ToolRun): void {
  for (const [stream, expected] of Object.entries({ stdout, stderr })) {
    const text = (stream === 'stdout' ? run.stdout : run.stderr).replaceAll('\r\n', '\n');
    if (typeof expected === 'string') assert.equal(text, expected, `${stream}: ${run.stdout}${run.stderr}`);
    else assert.match(text, expected, stream);
  }
  assert.equal(run.code, code);
}

// The exit code of grpcurl is 64 plus the status: 67 for INVALID_ARGUMENT, 69 for NOT_FOUND.
const grpcurlRows: readonly Row[] = [
  ['lists the services', ['ADDRESS', 'list'], { stdout: 'Users\ngrpc.health.v1.Health\n' }],
  ['lists the methods', ['ADDRESS', 'list', 'Users'], { stdout: 'Users.GetUser\n' }],
  [
    'describes the service',
    ['ADDRESS', 'describe', 'Users'],
    { stdout: /service Users \{\n {2}rpc GetUser \( \.GetUserRequest \) returns \( \.User \);\n\}/ },
  ],
  [
    'describes a message',
    ['ADDRESS', 'describe', 'User'],
    { stdout: /message User \{\n {2}int32 id = 1;\n {2}string name = 2;\n\}/ },
  ],
  ['rejects an unknown symbol', ['ADDRESS', 'describe', 'Posts'], { code: 1, stderr: /Symbol not found/ }],
  ['gets a user', [...json(1), 'ADDRESS', method], { stdout: ada }],
  ['gets a user by a name with dots', [...json(1), 'ADDRESS', 'Users.GetUser'], { stdout: ada }],
  [
    'gets a user with the .proto file instead of reflection',
    ['-import-path', proto, '-proto', 'users.proto', ...json(1), 'ADDRESS', method],
    { stdout: ada },
  ],
  [
    'receives NOT_FOUND for a missing user',
    [...json(7), 'ADDRESS', method],
    { code: 69, stderr: 'ERROR:\n  Code: NotFound\n  Message: user 7 not found\n' },
  ],
  [
    'receives INVALID_ARGUMENT without an id',
    ['ADDRESS', method],
    { code: 67, stderr: 'ERROR:\n  Code: InvalidArgument\n  Message: id must be a positive integer\n' },
  ],
  [
    'receives INVALID_ARGUMENT for a negative id',
    [...json(-1), 'ADDRESS', method],
    { code: 67, stderr: /InvalidArgument\n {2}Message: id must be a positive integer\n/ },
  ],
  ['rejects an id of more than 32 bits', [...json(2 ** 31), 'ADDRESS', method], { code: 1, stderr: /range/ }],
  [
    'rejects an unknown field in the request',
    ['-d', '{"name":"Ada"}', 'ADDRESS', method],
    { code: 1, stderr: /name/ },
  ],
  [
    'sends a request id and receives it',
    ['-v', '-H', 'x-request-id: 7f1c', ...json(1), 'ADDRESS', method],
    { stdout: /Response trailers received:\nx-request-id: 7f1c\n/ },
  ],
  [
    'checks the health of the service',
    ['-d', '{"service":"Users"}', 'ADDRESS', 'grpc.health.v1.Health/Check'],
    { stdout: '{\n  "status": "SERVING"\n}\n' },
  ],
  [
    'receives NOT_FOUND for the health of an unknown service',
    ['-d', '{"service":"Posts"}', 'ADDRESS', 'grpc.health.v1.Health/Check'],
    { code: 69, stderr: /NotFound/ },
  ],
];

const plain = ['curl', '--protocol', 'grpc', '--http2-prior-knowledge'];
const bufRows: readonly Row[] = [
  ['lists the services', [...plain, '--list-services', 'URL'], { stdout: 'Users\ngrpc.health.v1.Health\n' }],
  ['lists the methods', [...plain, '--list-methods', 'URL'], { stdout: /^Users\/GetUser\n/ }],
  ['gets a user', [...plain, ...json(1), `URL/${method}`], { stdout: ada }],
  [
    'gets a user with the .proto file instead of reflection',
    [...plain, '--schema', proto, ...json(1), `URL/${method}`],
    { stdout: ada },
  ],
  [
    'gets a user with reflection v1alpha',
    [...plain, '--reflect-protocol', 'grpc-v1alpha', ...json(1), `URL/${method}`],
    { stdout: ada },
  ],
  [
    'receives NOT_FOUND for a missing user',
    [...plain, ...json(7), `URL/${method}`],
    { code: 8 * 5, stderr: '{\n   "code": "not_found",\n   "message": "user 7 not found"\n}\n' },
  ],
  [
    'receives INVALID_ARGUMENT for the id 0',
    [...plain, ...json(0), `URL/${method}`],
    { code: 8 * 3, stderr: /"invalid_argument",\n {3}"message": "id must be a positive integer"/ },
  ],
];

describe('common tools call the gRPC API', () => {
  let service: Service;
  let address = '';

  before(async () => {
    service = createService({ database: 'memory:', port: 0, grpcPort: 0 });
    const { http, grpc = '' } = await service.listen();
    address = grpc;
    const headers = { 'content-type': 'application/json' };
    await fetch(`${http}/users`, { method: 'POST', headers, body: '{"name":"Ada","role":"admin"}' });
  });
  after(() => service.close());

  const at = (args: readonly string[]) =>
    args.map((arg) => arg.replace('ADDRESS', address).replace('URL', `http://${address}`));

  for (const [name, args, expected] of grpcurlRows) {
    it(`grpcurl ${name}`, { skip }, async () => {
      check(expected, await runTool('grpcurl', ['-plaintext', ...at(args)]));
    });
  }
  for (const [name, args, expected] of bufRows) {
    it(`buf curl ${name}`, async () => check(expected, await runTool(buf, at(args))));
  }
});

describe('grpcurl on a service that requires API keys', { skip }, () => {
  const call = (grpc: string, ...args: readonly string[]) =>
    runTool('grpcurl', ['-plaintext', ...args, ...json(1), grpc, method]);

  it('is rejected without a valid key, with the reason', async (t: TestContext) => {
    const { grpc } = await startService(t, { grpcPort: 0, auth: 'all', apiKeys: ['secret-key'] });
    const missing = await call(grpc);
    assert.equal(missing.code, 64 + 16);
    assert.match(missing.stderr, /Unauthenticated\n {2}Message: x-api-key is required/);
    const wrong = await call(grpc, '-H', 'x-api-key: wrong');
    assert.match(wrong.stderr, /Unauthenticated\n {2}Message: x-api-key is not a valid key/);
  });

  it('is accepted with a valid key', async (t: TestContext) => {
    const { grpc } = await startService(t, { grpcPort: 0, auth: 'all', apiKeys: ['secret-key'] });
    assert.match((await call(grpc, '-H', 'x-api-key: secret-key')).stderr, /user 1 not found/);
  });

  it('needs no key for reflection and health', async (t: TestContext) => {
    const { grpc } = await startService(t, { grpcPort: 0, auth: 'all', apiKeys: ['secret-key'] });
    assert.equal((await runTool('grpcurl', ['-plaintext', grpc, 'list'])).code, 0);
    assert.equal((await runTool('grpcurl', ['-plaintext', grpc, 'grpc.health.v1.Health/Check'])).code, 0);
  });
});

describe('grpcurl with a deadline', { skip }, () => {
  it('receives DEADLINE_EXCEEDED from a slow store, and the signal of the store is aborted', async (t: TestContext) => {
    const isAborted = Promise.withResolvers<void>();
    const repository = createMemoryStore();
    repository.users.get = (_id, { signal } = {}) => {
      assert.ok(signal);
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => {
        isAborted.resolve();
        reject(aborted(signal));
      });
      return promise;
    };
    const { grpc } = await startService(t, { grpcPort: 0, repository });
    const run = await runTool('grpcurl', ['-plaintext', '-max-time', '5', ...json(1), grpc, method]);
    assert.equal(run.code, 64 + 4);
    await isAborted.promise;
  });
});
