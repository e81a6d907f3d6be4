import assert from 'node:assert/strict';
import { test } from 'node:test';
import { status as grpcStatus } from '@grpc/grpc-js';
import {
  DomainError,
  type ErrorKind,
  errorKinds,
  keyInUse,
  stillReferenced,
} from '../../src/domain/errors.ts';
import { byKind, maxId, maxVersion } from '../../src/domain/record.ts';
import { errorStatuses as grpcStatuses } from '../../src/grpc/errors.ts';
import { errorStatuses } from '../../src/rest/errors.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { errorOf, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const kinds: Readonly<Record<ErrorKind, readonly [http: number, grpc: grpcStatus, retryAfter?: string]>> = {
  invalid: [400, grpcStatus.INVALID_ARGUMENT],
  unauthenticated: [401, grpcStatus.UNAUTHENTICATED],
  forbidden: [403, grpcStatus.PERMISSION_DENIED],
  'not-found': [404, grpcStatus.NOT_FOUND],
  conflict: [409, grpcStatus.ABORTED, '1'],
  gone: [410, grpcStatus.OUT_OF_RANGE],
  'precondition-failed': [412, grpcStatus.FAILED_PRECONDITION],
  unprocessable: [422, grpcStatus.INVALID_ARGUMENT],
  'precondition-required': [428, grpcStatus.FAILED_PRECONDITION],
  cancelled: [499, grpcStatus.CANCELLED],
  internal: [500, grpcStatus.INTERNAL],
  overloaded: [503, grpcStatus.RESOURCE_EXHAUSTED, '1'],
  unavailable: [503, grpcStatus.UNAVAILABLE, '1'],
  'deadline-exceeded': [504, grpcStatus.DEADLINE_EXCEEDED],
};

for (const kind of errorKinds) {
  const [http, grpc, retryAfter] = kinds[kind];
  test(`a store error of the kind ${kind} becomes HTTP ${http} and gRPC ${grpcStatus[grpc]}`, async (t) => {
    const repository = createMemoryStore();
    repository.users.get = async () => {
      throw new DomainError(kind, `message for ${kind}`, { cause: new Error('secret') });
    };
    const service = await startService(t, { repository, grpcPort: 0, expectFailures: true });
    const reported = ['internal', 'overloaded', 'unavailable', 'deadline-exceeded'].includes(kind);
    const place =
      kind === 'overloaded'
        ? 'overload'
        : kind === 'unavailable' || kind === 'deadline-exceeded'
          ? 'store'
          : undefined;
    const message = kind === 'internal' ? 'internal error' : `message for ${kind}`;

    const headers = { 'x-request-id': 'over-http' };
    const undocumented = [409, 410, 422, 428, 499].includes(http);
    const answer = await send(service.http, 'GET /users/1', { headers, undocumented });
    assert.deepEqual([answer.status, errorOf(answer)], [http, message]);
    assert.equal(answer.headers['retry-after'], retryAfter);
    assert.equal(answer.headers['cache-control'], 'no-store');

    const metadata = { 'x-request-id': 'over-grpc' };
    const outcome = await getUser(usersClient(t, service.grpc), 1, { metadata });
    assert.deepEqual([outcome.code, outcome.details], [grpc, message]);
    assert.equal(outcome.trailer['x-request-id'], 'over-grpc');

    assert.deepEqual(
      service.failures().map(({ where, requestId, cause }) => [where, requestId, String(cause)]),
      reported
        ? [
            [place ?? 'http', 'over-http', 'Error: secret'],
            [place ?? 'grpc', 'over-grpc', 'Error: secret'],
          ]
        : [],
    );
    assert.equal(errorStatuses[kind], http);
    assert.equal(grpcStatuses[kind], grpc);
  });
}

test('a deadline of a client without a cause is not reported as a failure', async (t) => {
  const repository = createMemoryStore();
  repository.users.get = async () => {
    throw new DomainError('deadline-exceeded', 'the deadline has passed');
  };
  const { http, grpc } = await startService(t, { repository, grpcPort: 0 });
  assert.equal((await send(http, 'GET /users/1')).status, 504);
  assert.equal((await getUser(usersClient(t, grpc), 1)).code, grpcStatus.DEADLINE_EXCEEDED);
});

test('a 409 or 503 has Retry-After only if a retry can succeed', async (t) => {
  const repository = createMemoryStore();
  await repository.importRows('users', [{ id: 1, name: 'Ann', version: maxVersion }]);
  const { http } = await startService(t, { repository, expectFailures: true });
  const changed = await send(http, 'PATCH /users/1', { json: { name: 'Ben' }, undocumented: true });
  assert.deepEqual([changed.status, changed.headers['retry-after']], [409, undefined]);
  assert.match(String(errorOf(changed)), /highest version/);
  await repository.continueIds(byKind(() => maxId));
  const beyond = await send(http, 'POST /users', { json: { name: 'Ben' } });
  assert.deepEqual([beyond.status, beyond.headers['retry-after']], [503, undefined]);
  assert.match(String(errorOf(beyond)), /no more ids/);
  repository.users.delete = () => Promise.reject(stillReferenced(undefined));
  const kept = await send(http, 'DELETE /users/1');
  assert.deepEqual([kept.status, kept.headers['retry-after']], [409, undefined]);
  repository.users.create = async () => {
    throw keyInUse();
  };
  const headers = { 'idempotency-key': '"key"' };
  const created = await send(http, 'POST /users', { json: { name: 'Ben' }, headers });
  assert.deepEqual([created.status, created.headers['retry-after']], [409, '1']);
});

const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();

const thrown: readonly [what: string, value: unknown][] = [
  ['an Error', new Error('SELECT secret FROM users')],
  [
    'an Error with a status property',
    Object.assign(new Error('secret'), { status: 200, statusCode: 404, code: 5 }),
  ],
  ['a string', 'secret'],
  ['undefined', undefined],
  ['null', null],
  ['an object', { kind: 'not-found', message: 'secret' }],
  ['a revoked proxy', revoked],
];
for (const [what, value] of thrown) {
  for (const [how, fail] of [
    ['rejects with', () => Promise.reject(value)],
    [
      'throws',
      () => {
        throw value;
      },
    ],
  ] as const) {
    test(`a store that ${how} ${what} causes a 500 with the fixed text in both APIs`, async (t) => {
      const repository = Object.assign(createMemoryStore(), {
        users: { get: fail, list: fail, create: fail },
      });
      const service = await startService(t, { repository, grpcPort: 0, expectFailures: true });
      for (const [line, options] of [
        ['GET /users/1', {}],
        ['GET /users', {}],
        ['POST /users', { json: { name: 'x' } }],
      ] as const) {
        const answer = await send(service.http, line, options);
        assert.deepEqual([answer.status, answer.json], [500, { error: 'internal error' }], line);
        assert.doesNotMatch(JSON.stringify(answer.headers), /secret/);
      }
      const outcome = await getUser(usersClient(t, service.grpc), 1);
      assert.deepEqual([outcome.code, outcome.details], [grpcStatus.INTERNAL, 'internal error']);
      assert.equal(service.failures().length, 4);
    });
  }
}

const problem = 'application/problem+json';
const accepts: readonly [accept: string | undefined, problem: boolean][] = [
  [undefined, false],
  ['*/*', false],
  ['application/*', false],
  ['application/json', false],
  [problem, true],
  ['Application/Problem+JSON', true],
  [`${problem}, application/json`, true],
  [`application/json, ${problem}`, true],
  [`text/html, ${problem};q=0.9, */*;q=0.8`, true],
  [`${problem}; q=1.0`, true],
  [`${problem};q=0`, false],
  [`${problem};q=0.000`, false],
  [`application/json, ${problem};q=0.5`, false],
  [`application/json;q=0.4, ${problem};q=0.5`, true],
  [`*/*, ${problem};q=0.1`, false],
  [`${problem};q=x`, false],
  [`x${problem}`, false],
  [`${problem}x`, false],
  ['', false],
  [',,;q=1', false],
];
for (const [accept, expected] of accepts) {
  test(`an error for Accept: ${accept} has the form ${expected ? problem : '{"error"}'}`, async (t) => {
    const { http } = await startService(t, { expectFailures: true });
    const headers = { 'x-request-id': 'r-1', ...(accept !== undefined && { accept }) };
    for (const [line, status, title, detail] of [
      ['GET /users/7', 404, 'Not Found', 'user 7 not found'],
      ['GET /nowhere', 404, 'Not Found', 'no such resource'],
      ['GET /private', 401, 'Unauthorized', 'x-api-key is required'],
      ['DELETE /users', 405, 'Method Not Allowed', 'method not allowed; allowed: GET, HEAD, OPTIONS, POST'],
      ['GET /boom', 500, 'Internal Server Error', 'internal error'],
    ] as const) {
      const answer = await send(http, line, { headers });
      assert.equal(answer.status, status);
      if (expected) {
        assert.equal(answer.headers['content-type'], problem);
        assert.deepEqual(answer.json, { title, status, detail, instance: 'urn:request:r-1' });
      } else {
        assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
        assert.deepEqual(answer.json, { error: detail });
      }
    }
  });
}

test('both APIs return and report the request id: a valid one of the client, or else a generated one', async (t) => {
  const { http, grpc, events } = await startService(t, { grpcPort: 0 });
  const client = usersClient(t, grpc);
  for (const [given, taken] of [
    ['abc-1_2.3', true],
    ['x'.repeat(64), true],
    ['x'.repeat(65), false],
    ['a b', false],
    ['a\u00e9', false],
    ['a,b', false],
    ['{"a":1}', false],
    ['', false],
  ] as const) {
    const before = events.length;
    const answer = await send(http, 'GET /users/9', { headers: { 'x-request-id': given } });
    const overHttp = String(answer.headers['x-request-id']);
    assert.equal(overHttp === given, taken, given);
    assert.match(overHttp, /^[\w.-]{1,64}$/);
    // gRPC metadata must be ASCII.
    const sendable = /^[\x20-\x7e]*$/.test(given) ? given : 'a b';
    const { trailer } = await getUser(client, 9, { metadata: { 'x-request-id': sendable } });
    const overGrpc = String(trailer['x-request-id']);
    assert.equal(overGrpc === given, taken, given);
    const ids = events.slice(before).map((event) => (event.type === 'request' ? event.id : event.type));
    assert.deepEqual(ids, [overHttp, overGrpc]);
  }
});

test('the request events of both APIs contain traceparent as the client sent it', async (t) => {
  const { http, grpc, events } = await startService(t, { grpcPort: 0 });
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  await send(http, 'GET /users', { headers: { traceparent } });
  await send(http, 'GET /users');
  const client = usersClient(t, grpc);
  await getUser(client, 9, { metadata: { traceparent } });
  await getUser(client, 9);
  const seen = events.map((event) => (event.type === 'request' ? event.traceparent : event.type));
  assert.deepEqual(seen, ['listening', traceparent, undefined, traceparent, undefined]);
});
