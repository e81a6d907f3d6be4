import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import files from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type NestedKind, nestedKinds, rowOf } from '../../src/conformance/kinds.ts';
import { DomainError, type ErrorKind, stillReferenced } from '../../src/domain/errors.ts';
import { maxVersion, nameOf } from '../../src/domain/record.ts';
import type { Repository } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { examplesOf, operations } from '../kit/openapi.ts';
import { head, Wire } from '../kit/wire.ts';
import { gatedRepository } from '../support/gated.ts';
import { mockBuiltin } from '../support/mock-builtin.ts';
import { type Case, documented, Recorder } from '../support/openapi-recorder.ts';
import { type StartOptions, startService } from '../support/service.ts';
import { stubStore } from '../support/stub-store.ts';
import { temporaryFolder } from '../support/temporary.ts';

const ada = { name: 'Ada Lovelace', role: 'admin' };
const mergePatch = 'Content-Type: application/merge-patch+json';

const filePaths = ['/', '/openapi.json'];

type Right = Readonly<Record<string, Omit<Case, 'method' | 'status'>>>;

/** The paths of a kind of records of users, and bodies of requests to them. */
function nestedOf({ kind, text, draftOf, patches: [edit, patch] }: NestedKind) {
  const all = `/users/{id}/${kind}`;
  const one = `${all}/{${nameOf(kind)}Id}`;
  const draft = draftOf('Notes');
  const replacement = { ...draft, ...edit };
  const filter = new URLSearchParams({ [text]: 'Notes' });
  return { kind, all, one, draft, replacement, patch, filter };
}
const nested = nestedKinds.map(nestedOf);
type Nested = (typeof nested)[number];

/** A complete and valid request for each operation on a kind of records of users. */
function rightOf({ kind, all, one, draft, replacement, patch }: Nested): Right {
  const [allPath, onePath] = [`/users/1/${kind}`, `/users/1/${kind}/1`];
  return {
    [`GET ${all}`]: { path: allPath },
    [`POST ${all}`]: { path: allPath, body: draft },
    [`GET ${one}`]: { path: onePath },
    [`PUT ${one}`]: { path: onePath, body: replacement },
    [`PATCH ${one}`]: { path: onePath, body: patch, headers: [mergePatch] },
    [`DELETE ${one}`]: { path: onePath },
  };
}

/** A complete and valid request for each operation. */
const right: Right = {
  'GET /users': { path: '/users' },
  'POST /users': { path: '/users', body: ada },
  'GET /users/{id}': { path: '/users/1' },
  'PUT /users/{id}': { path: '/users/1', body: { name: 'Ada King' } },
  'PATCH /users/{id}': { path: '/users/1', body: { role: 'countess' }, headers: [mergePatch] },
  'DELETE /users/{id}': { path: '/users/2' },
  ...Object.assign({}, ...nested.map(rightOf)),
  'GET /changes': { path: '/changes' },
  'GET /health': { path: '/health' },
  'GET /health/ready': { path: '/health/ready' },
  'GET /metrics': { path: '/metrics' },
  'GET /info': { path: '/info' },
  'POST /echo': { path: '/echo', body: { hello: ['world', 1, null] } },
  'GET /private': { path: '/private', headers: ['X-Api-Key: secret'] },
  'GET /boom': { path: '/boom' },
  'GET /': { path: '/' },
  'GET /{file}': { path: '/openapi.json' },
};

/** Errors in the head of a request, which are found before its route. */
const malformed: readonly (Pick<Case, 'status' | 'version' | 'host' | 'body'> & {
  readonly headers?: readonly string[];
})[] = [
  { status: 400, headers: ['Host: elsewhere'] },
  { status: 413, headers: ['Transfer-Encoding: chunked'], body: `1;${'a'.repeat(20_000)}\r\nx\r\n0\r\n\r\n` },
  { status: 417, headers: ['Expect: unknown'] },
  { status: 421, host: 'elsewhere.example' },
  { status: 431, headers: Array.from({ length: 101 }, (_, i) => `X-Number-${i}: ${i}`) },
  { status: 501, headers: ['Transfer-Encoding: gzip, chunked'] },
  { status: 505, version: '2.0' },
];

/** Requests about a kind of records of users 1 and 7, who does not exist. They run in this order. */
function storyOf({ kind, draft, replacement, patch, filter }: Nested): readonly Case[] {
  const [all, one, missing] = [`/users/1/${kind}`, `/users/1/${kind}/1`, `/users/1/${kind}/7`];
  const key = [`Idempotency-Key: ${kind}`];
  const [first, second, wrong] = [['If-Match: "1"'], ['If-Match: "2"'], ['If-Match: "9"']];
  return [
    { method: 'POST', path: all, body: draft, status: 201, headers: key },
    { method: 'POST', path: all, body: replacement, status: 422, headers: key },
    { method: 'POST', path: `/users/7/${kind}`, body: draft, status: 404 },
    { method: 'GET', path: all, status: 200 },
    { method: 'GET', path: `${all}?limit=1`, status: 200, headers: ['Prefer: count=exact'] },
    { method: 'GET', path: `${all}?${filter}`, status: 200 },
    { method: 'GET', path: `/users/7/${kind}`, status: 404 },
    { method: 'GET', path: `${all}?limit=101`, status: 400 },
    { method: 'GET', path: one, status: 200 },
    { method: 'GET', path: one, status: 304, headers: ['If-None-Match: "1"'] },
    { method: 'GET', path: one, status: 412, headers: wrong },
    { method: 'GET', path: `${all}/0`, status: 400 },
    { method: 'GET', path: missing, status: 404 },
    { method: 'PATCH', path: one, body: {}, status: 412, headers: wrong },
    { method: 'PUT', path: one, body: replacement, headers: first, status: 200 },
    { method: 'PUT', path: missing, body: replacement, status: 404 },
    { method: 'PUT', path: one, body: draft, status: 412, headers: first },
    { method: 'PATCH', path: one, body: patch, headers: [mergePatch, ...second], status: 200 },
    { method: 'PATCH', path: missing, body: {}, status: 404 },
    { method: 'DELETE', path: one, status: 412, headers: wrong },
    { method: 'DELETE', path: one, status: 204 },
    { method: 'DELETE', path: one, status: 404 },
  ];
}

const key = ['Idempotency-Key: a'];
const exact = ['Prefer: count=exact'];
/** Requests about two users. They run in this order. */
const story: readonly Case[] = [
  { method: 'POST', path: '/users', body: ada, status: 201 },
  { method: 'POST', path: '/users', body: { name: 'Grace Hopper' }, status: 201, headers: key },
  { method: 'POST', path: '/users', body: { name: 'Grace Hopper' }, status: 201, headers: key },
  { method: 'POST', path: '/users', body: { name: 'Mary' }, status: 422, headers: key },
  { method: 'GET', path: '/users', status: 200 },
  { method: 'GET', path: '/users?limit=1&sort=-name&role=admin', status: 200, headers: exact },
  { method: 'GET', path: '/users?page=9', status: 200 },
  { method: 'GET', path: '/users?name=Gr&id=1,2&sort=name', status: 200 },
  { method: 'GET', path: '/users?name=', status: 400 },
  { method: 'GET', path: '/users?id=1,x', status: 400 },
  { method: 'GET', path: '/users?limit=101', status: 400 },
  { method: 'GET', path: '/users?q=ada', status: 400 },
  { method: 'GET', path: '/users?cursor=forged', status: 400 },
  { method: 'GET', path: '/changes?limit=1&type=user.created&user=2', status: 200 },
  { method: 'GET', path: '/changes?after=9', status: 200, headers: ['Last-Event-ID: 2'] },
  { method: 'GET', path: '/changes?type=user', status: 400 },
  { method: 'GET', path: '/changes?after=999', status: 410 },
  { method: 'GET', path: '/users/1', status: 200 },
  { method: 'GET', path: '/users/1', status: 304, headers: ['If-None-Match: "1"'] },
  { method: 'GET', path: '/users/1', status: 412, headers: ['If-Match: "9"'] },
  { method: 'GET', path: '/users/0', status: 400 },
  { method: 'GET', path: '/users/7', status: 404 },
  { method: 'POST', path: '/users', body: { ...ada, nick: 'ada' }, status: 400 },
  { method: 'POST', path: '/users', body: { name: ' ' }, status: 400 },
  { method: 'POST', path: '/users', body: '{', status: 400 },
  { method: 'PATCH', path: '/users/1', body: { role: 'countess' }, headers: [mergePatch], status: 200 },
  { method: 'PATCH', path: '/users/7', body: {}, status: 404 },
  { method: 'PATCH', path: '/users/1', body: {}, status: 412, headers: ['If-Match: "9"'] },
  { method: 'PUT', path: '/users/1', body: { name: 'Ada King' }, headers: ['If-Match: "2"'], status: 200 },
  { method: 'PUT', path: '/users/7', body: { name: 'Ada King' }, status: 404 },
  { method: 'PUT', path: '/users/1', body: { name: 'Eve' }, status: 412, headers: ['If-Match: "1"'] },
  ...nested.flatMap(storyOf),
  { method: 'DELETE', path: '/users/2', status: 412, headers: ['If-Match: "9"'] },
  { method: 'DELETE', path: '/users/2', status: 204 },
  { method: 'DELETE', path: '/users/2', status: 404 },
  { method: 'POST', path: '/echo', body: { hello: ['world', 1, null] }, status: 200 },
  { method: 'POST', path: '/echo', body: ' ', status: 400 },
  { method: 'GET', path: '/private', status: 200, headers: ['X-Api-Key: secret'] },
  { method: 'GET', path: '/private', status: 401 },
  { method: 'GET', path: '/private', status: 401, headers: ['X-Api-Key: wrong'] },
  { method: 'GET', path: '/boom', status: 500 },
  ...['/health', '/health/ready', '/metrics', '/info'].map((path) => ({ method: 'GET', path, status: 200 })),
  ...filePaths.flatMap((path) => [
    { method: 'GET', path, status: 200 },
    { method: 'GET', path, status: 206, headers: ['Range: bytes=0-14'] },
    { method: 'GET', path, status: 304, headers: ['If-None-Match: *'] },
    { method: 'GET', path, status: 412, headers: ['If-Match: "other"'] },
    { method: 'GET', path, status: 416, headers: ['Range: bytes=99999999-'] },
  ]),
  { method: 'GET', path: '/missing.txt', status: 404 },
];

/** Failures of the store, with the status that a client receives. */
const storeFailures: readonly (readonly [status: number, kind: ErrorKind, message: string])[] = [
  [409, 'conflict', 'a request with this Idempotency-Key is still running'],
  [500, 'internal', 'secret'],
  [503, 'unavailable', 'the store is closed'],
  [504, 'deadline-exceeded', 'the database took too long'],
];

test('a running service returns every response of the OpenAPI document as documented', async (all) => {
  const recorder = new Recorder();
  const start = async (t: TestContext, options?: StartOptions) =>
    (await startService(t, { apiKeys: ['secret'], expectFailures: true, ...options })).port;
  const casesFor = (status: number): Case[] =>
    Object.entries(right)
      .filter(([operation]) => documented().includes(`${operation} ${status}`))
      .map(([operation, request]) => ({ ...request, method: operation.split(' ')[0] ?? '', status }));

  const publicDir = temporaryFolder();

  await all.test('for a valid request to each operation', () => {
    assert.deepEqual(Object.keys(right).sort(), [...operations().keys()].sort());
  });

  await all.test('for valid and invalid requests', async (t) => {
    const port = await start(t);
    for (const request of story) await recorder.record(port, request);
  });

  await all.test('for bodies of another type, coding or length', async (t) => {
    const port = await start(t);
    for (const request of casesFor(415)) {
      await recorder.record(port, { ...request, headers: ['Content-Type: text/plain'] });
      const headers = [...(request.headers ?? []), 'Content-Encoding: gzip'];
      await recorder.record(port, { ...request, headers });
      const long = [...(request.headers ?? ['Content-Type: application/json']), 'Content-Length: 2000000'];
      await recorder.record(port, { method: request.method, path: request.path, headers: long, status: 413 });
    }
    for (const request of casesFor(400).filter(({ body }) => body !== undefined)) {
      await recorder.record(port, { ...request, body: '[' });
    }
  });

  for (const { status, headers = [], ...rest } of malformed) {
    await all.test(`${status} on every route`, async (t) => {
      const port = await start(t, { allowedHosts: [] });
      for (const { method, path, body } of casesFor(status)) {
        if (status === 413 && body === undefined) continue;
        await recorder.record(port, { method, path, status, headers: [...headers], ...rest });
      }
    });
  }

  await all.test('408 on every route', async (t) => {
    const port = await start(t, {
      timeouts: { headersTimeoutMs: 100, requestTimeoutMs: 100, checkingIntervalMs: 50 },
    });
    const late = casesFor(408).map(({ method, path }) => ({ method, path, endless: true, status: 408 }));
    await Promise.all(late.map((request) => recorder.record(port, request)));
    const headers = ['Content-Length: 100'];
    await recorder.record(port, { method: 'POST', path: '/users', headers, body: '{', status: 408 });
  });

  await all.test('401 without a key', async (t) => {
    const port = await start(t, { auth: 'all' });
    for (const request of casesFor(401)) {
      const headers = (request.headers ?? []).filter((header) => header === mergePatch);
      await recorder.record(port, { ...request, headers });
    }
  });

  await all.test('403 with a key that lacks the scope', async (t) => {
    const port = await start(t, { auth: 'all', apiKeys: ['reader:read=r', 'writer:write=w'] });
    for (const request of casesFor(403)) {
      const isRead = request.method === 'GET' && request.path !== '/metrics';
      const kept = (request.headers ?? []).filter((h) => h === mergePatch);
      await recorder.record(port, { ...request, headers: [...kept, `X-Api-Key: ${isRead ? 'w' : 'r'}`] });
    }
  });

  await all.test('428 without If-Match, where it is required', async (t) => {
    const port = await start(t, { requirePreconditions: true });
    for (const request of casesFor(428)) await recorder.record(port, request);
  });

  await all.test('503 beyond maxInFlight', async (t) => {
    const gate = await gatedRepository();
    t.after(gate.open);
    const port = await start(t, { repository: gate.repository, limits: { maxInFlight: 1 } });
    const holder = await Wire.open(t, port);
    holder.write(head('GET /users/1'));
    await gate.entered;
    const exempt = ['/health', '/health/ready', '/metrics', ...filePaths];
    for (const request of casesFor(503)) {
      if (!exempt.includes(request.path)) await recorder.record(port, request);
    }
  });

  await all.test('503 of a probe beyond maxConnections', async (t) => {
    const gate = await gatedRepository();
    t.after(gate.open);
    const port = await start(t, { repository: gate.repository, maxConnections: 1 });
    const holder = await Wire.open(t, port);
    holder.write(head('GET /users/1'));
    await gate.entered;
    for (const path of ['/health', '/health/ready', '/metrics', ...filePaths]) {
      await recorder.record(port, { method: 'GET', path, status: 503 });
    }
  });

  await all.test('503 of /health/ready while draining', async (t) => {
    const { promise: draining, resolve: drain } = Promise.withResolvers<void>();
    const { service, port } = await startService(t, {
      drainDelayMs: 500,
      observe: ({ type }) => type === 'draining' && drain(),
    });
    const closed = service.close();
    await draining;
    await recorder.record(port, { method: 'GET', path: '/health/ready', status: 503 });
    await closed;
  });

  for (const [status, kind, message] of storeFailures) {
    await all.test(`${status} when the store fails with ${kind}`, async (t) => {
      const port = await start(t, { repository: failing(kind, message) });
      for (const request of casesFor(status)) {
        // A conflict passes with time only if another request has the same key.
        if (status === 409) {
          if (request.method !== 'POST') continue;
          await recorder.record(port, { ...request, headers: ['Idempotency-Key: b'] });
        } else if (status === 504 || /^\/(users|changes)/.test(request.path))
          await recorder.record(port, request);
      }
    });
  }

  await all.test('409 for a change of a record with the highest version', async (t) => {
    const repository = createMemoryStore();
    await repository.importRows('users', [{ id: 1, name: 'Ada', version: maxVersion }]);
    for (const kind of nestedKinds) {
      await repository.importRows(kind.kind, [rowOf(kind, [1, 1], { version: maxVersion })]);
    }
    const port = await start(t, { repository });
    for (const request of casesFor(409)) {
      if (['PUT', 'PATCH'].includes(request.method)) await recorder.record(port, request);
    }
  });

  await all.test('409 for a deletion of a record to which another table refers', async (t) => {
    const repository = stubStore(() => Promise.reject(stillReferenced(undefined)));
    const port = await start(t, { repository });
    const deletions = Object.entries(right).filter(([operation]) => operation.startsWith('DELETE '));
    for (const [, request] of deletions) {
      await recorder.record(port, { ...request, method: 'DELETE', status: 409 });
    }
  });

  await all.test('404 of routes that are turned off', async (t) => {
    const { changes: _, ...repository } = createMemoryStore();
    const port = await start(t, { repository, utilityRoutes: 'off' });
    const paths = ['/changes', '/info', '/echo', '/private', '/boom'];
    const off = casesFor(404).filter(({ path }) => paths.includes(path));
    assert.equal(off.length, paths.length);
    for (const request of off) await recorder.record(port, request);
  });

  await all.test('503 of a file when the process has no file descriptor left', async (t) => {
    const port = await start(t);
    const full = Object.assign(new Error('EMFILE'), { code: 'EMFILE' });
    mockBuiltin(t, files, 'open', () => Promise.reject(full));
    for (const path of filePaths) await recorder.record(port, { method: 'GET', path, status: 503 });
  });

  await all.test('404 of a file that was removed', async (t) => {
    writeFileSync(join(publicDir, 'index.html'), '<!doctype html>');
    const port = await start(t, { publicDir });
    rmSync(join(publicDir, 'index.html'));
    await recorder.record(port, { method: 'GET', path: '/', status: 404 });
  });

  await all.test('for the first change of a user', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-11-24T09:30:00Z') });
    const port = await start(t);
    const headers = ['x-request-id: 3b1f8a52'];
    await recorder.record(port, { method: 'POST', path: '/users', body: ada, headers, status: 201 });
    await recorder.record(port, { method: 'GET', path: '/changes', status: 200 });
  });

  await all.test('for every example of a request body', async (t) => {
    const port = await start(t);
    await recorder.record(port, { method: 'POST', path: '/users', body: ada, status: 201 });
    for (const [operation, { requestBody, responses }] of operations()) {
      const status = Number(Object.keys(responses)[0]);
      for (const [type, media] of Object.entries(requestBody?.content ?? {})) {
        for (const body of examplesOf(media)) {
          const [method = '', path = ''] = operation.split(' ');
          const headers = [`Content-Type: ${type}`];
          await recorder.record(port, { method, path: path.replace(/\{\w+\}/g, '1'), headers, body, status });
        }
      }
    }
  });

  await all.test('except responses that no request can cause', () => {
    // Any route may return 500, but no request and no store error causes it on these routes.
    const safe = ['/health', '/health/ready', '/metrics', '/info', '/private', '/', '/{file}'];
    // The parser may find an unread body malformed before or after the response is sent.
    const bodiless = Object.keys(right).filter((operation) => right[operation]?.body === undefined);
    assert.deepEqual(
      recorder.unseen().sort(),
      [
        ...safe.map((path) => `GET ${path} 500`),
        'POST /echo 500',
        ...bodiless.map((operation) => `${operation} 413`),
      ].sort(),
    );
  });

  await all.test('including every example of a response', () =>
    assert.deepEqual(recorder.unseenExamples(), []),
  );
});

/** A store whose calls all fail. */
function failing(kind: ErrorKind, message: string): Repository {
  const fail = () => Promise.reject(new DomainError(kind, message));
  return { ...stubStore(fail), changes: { read: fail, position: fail, watch: () => fail } };
}
