import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { status } from '@grpc/grpc-js';
import { testRepository } from '../../src/conformance/test-repository.ts';
import { nameOf, recordKinds } from '../../src/domain/record.ts';
import { mapAnswer } from '../../src/domain/repository.ts';
import type { Repository, StoredUser } from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { fetch } from '../support/fetch.ts';
import { startService } from '../support/service.ts';

/** A repository that records each change of a user in an audit trail. */
function createAudited(inner: Repository, trail: string[]): Repository {
  const audited = async <T>(what: string, change: Promise<T>): Promise<T> => {
    const result = await change;
    trail.push(what);
    return result;
  };
  // A repository may have no feed of changes.
  const { changes: _, ...others } = inner;
  return {
    ...others,
    users: {
      ...inner.users,
      create: (draft, options) => audited('create user', inner.users.create(draft, options)),
      update: (id, patch, options) => audited(`update user ${id}`, inner.users.update(id, patch, options)),
      delete: (id, options) => audited(`delete user ${id}`, inner.users.delete(id, options)),
    },
  };
}

testRepository('a repository of the host', async (options) => createAudited(createMemoryStore(options), []));

it('a service with a repository of the host uses it, and reports events to the tracing of the host', async (t) => {
  const trail: string[] = [];
  const traced: unknown[] = [];
  const onRequest = (event: unknown): void => {
    traced.push(event);
  };
  subscribe('users-service:request', onRequest);
  t.after(() => unsubscribe('users-service:request', onRequest));
  const { http } = await startService(t, { repository: createAudited(createMemoryStore(), trail) });
  const headers = { 'content-type': 'application/json', traceparent: '00-1-2-01' };
  const answer = await fetch(`${http}/users`, { method: 'POST', headers, body: '{"name":"Ada"}' });
  assert.equal(answer.status, 201, await answer.text());
  assert.deepEqual(trail, ['create user']);
  assert.partialDeepStrictEqual(traced, [{ route: '/users', status: 201, traceparent: '00-1-2-01' }]);
});

it('the package exports every type of each kind of record, of the changes and of a repository', () => {
  const textOf = (file: string) => readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8');
  for (const name of [...recordKinds.map(nameOf), 'change', 'repository']) {
    const declared = textOf(`domain/${name}.ts`).matchAll(/^export (?:interface|type) (\w+)/gm);
    const [, exported = ''] =
      new RegExp(`\\{([^}]*)\\} from './domain/${name}.ts'`).exec(textOf('index.ts')) ?? [];
    const types = [...declared].map(([, type]) => type);
    assert.deepEqual(exported.match(/\w+/g)?.sort(), types.sort());
  }
});

type Found = StoredUser | undefined;
const ways: readonly [how: string, answer: (user: Found) => ReturnType<Repository['users']['get']>][] = [
  ['a plain value', (user) => user],
  ['a promise', async (user) => user],
  ['a thenable of another library', (user) => thenable(user) as Promise<Found>],
];

/** A thenable that is not a promise, as some query builders return. */
function thenable(user: Found): unknown {
  // biome-ignore lint/suspicious/noThenProperty: this property makes the object a thenable.
  return { then: (resolve: (user: Found) => void) => void setImmediate(resolve, user) };
}

for (const [how, answer] of ways) {
  it(`a repository may return ${how}`, async (t) => {
    const store = createMemoryStore();
    await store.users.create({ name: 'Ada' });
    const repository = Object.assign(Object.create(store), {
      users: { get: (id: number) => answer(id === 1 ? { id: 1, name: 'Ada', version: 3 } : undefined) },
      ping: () => answer(undefined),
    });
    const { http } = await startService(t, { repository });
    const found = await fetch(`${http}/users/1`);
    assert.deepEqual([found.status, found.headers.get('etag')], [200, '"3"']);
    assert.deepEqual(await found.json(), { id: 1, name: 'Ada' });
    const seen = await fetch(`${http}/users/1`, { headers: { 'if-none-match': '"3"' } });
    const failed = await fetch(`${http}/users/1`, { headers: { 'if-match': '"2"' } });
    const missing = await fetch(`${http}/users/2`);
    assert.deepEqual([seen.status, failed.status, missing.status], [304, 412, 404]);
    assert.equal((await fetch(`${http}/health/ready`)).status, 200);
  });
}

it('a plain value is used at once, without a promise', () => {
  assert.equal(
    mapAnswer({ id: 1 }, ({ id }) => id),
    1,
  );
});

it('a call that a repository aborts itself is a failure, not a request that its client has cancelled', async (t) => {
  const cause = new DOMException('the repository gave up', 'AbortError');
  const users = { get: () => Promise.reject(cause) };
  const repository = Object.assign(Object.create(createMemoryStore()), { users });
  const running = await startService(t, { repository, grpcPort: 0, expectFailures: true });
  assert.equal((await fetch(`${running.http}/users/1`)).status, 500);
  assert.equal((await getUser(usersClient(t, running.grpc), 1)).code, status.INTERNAL);
  const causes = running.failures().map((failure) => failure.cause);
  assert.deepEqual(causes, [cause, cause]);
});
