import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { status } from '@grpc/grpc-js';
import { createService, type Service } from '../../src/service/service.ts';
import { startService } from '../support/service.ts';
import { buf, hasTool, runTool, type ToolRun } from '../support/tool.ts';

const proto = fileURLToPath(new URL('../../proto', import.meta.url));
const skip = hasTool('grpcurl') ? false : 'grpcurl is not installed';

const ada = '{\n  "id": 1,\n  "name": "Ada"\n}\n';
const json = (id: number | string): readonly string[] => ['-d', JSON.stringify({ id })];

const method = 'Users/GetUser';

/** A command line with ADDRESS for the address of the server, and its output. */
type Row = readonly [name: string, args: readonly string[], stdout: string | RegExp];

function check(expected: string | RegExp, { code, stdout, stderr }: ToolRun): void {
  const text = stdout.replaceAll('\r\n', '\n');
  if (typeof expected === 'string') assert.equal(text, expected, stderr);
  else assert.match(text, expected);
  assert.deepEqual([code, stderr], [0, '']);
}

// The steps of proto/README.md, which run as tests, list and describe services, check their health and show errors.
const grpcurlRows: readonly Row[] = [
  ['gets a user', [...json(1), 'ADDRESS', method], ada],
  [
    'gets a user with the .proto file instead of reflection',
    ['-import-path', proto, '-proto', 'users.proto', ...json(1), 'ADDRESS', method],
    ada,
  ],
  [
    'sends a request id and receives it',
    ['-v', '-H', 'x-request-id: 7f1c', ...json(1), 'ADDRESS', method],
    /Response trailers received:\nx-request-id: 7f1c\n/,
  ],
];

const plain = ['curl', '--protocol', 'grpc', '--http2-prior-knowledge'];
const bufRows: readonly Row[] = [
  ['lists the services', [...plain, '--list-services', 'URL'], 'Users\ngrpc.health.v1.Health\n'],
  ['gets a user', [...plain, ...json(1), `URL/${method}`], ada],
  [
    'gets a user with the .proto file instead of reflection',
    [...plain, '--schema', proto, ...json(1), `URL/${method}`],
    ada,
  ],
  [
    'gets a user with reflection v1alpha',
    [...plain, '--reflect-protocol', 'grpc-v1alpha', ...json(1), `URL/${method}`],
    ada,
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

it('grpcurl needs no API key for reflection and health, and sends one for calls', { skip }, async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0, auth: 'all', apiKeys: ['secret-key'] });
  const run = (...args: readonly string[]) => runTool('grpcurl', ['-plaintext', ...args]);
  assert.equal((await run(grpc, 'list')).code, 0);
  assert.equal((await run(grpc, 'grpc.health.v1.Health/Check')).code, 0);
  const call = [...json(1), grpc, method];
  // The exit code of grpcurl is 64 plus the status.
  const { code, stderr } = await run(...call);
  assert.equal(code, 64 + status.UNAUTHENTICATED);
  assert.match(stderr, /Unauthenticated\n {2}Message: x-api-key is required/);
  assert.match((await run('-H', 'x-api-key: secret-key', ...call)).stderr, /user 1 not found/);
});
