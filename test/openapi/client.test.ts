import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from '../generated/openapi.ts';
import { openApi, validateResponse } from '../kit/openapi.ts';
import { shapeDigest } from '../kit/openapi-shape.ts';
import { type StartOptions, startService } from '../support/service.ts';

// Each response that the client of openapi-fetch receives is also checked against the document.
const validated: Middleware = {
  async onResponse({ request, response }) {
    await validateResponse(request.method, request.url, response.clone());
  },
};

async function start(t: TestContext, options?: StartOptions) {
  const { http } = await startService(t, options);
  const client = createClient<paths>({ baseUrl: http });
  client.use(validated);
  return client;
}

describe('a client generated from the document', () => {
  it('is up to date with the document (otherwise run npm run generate:client)', () => {
    const generated = readFileSync(new URL('../generated/openapi.ts', import.meta.url), 'utf8');
    assert.ok(generated.includes(`// shape ${shapeDigest(openApi)}\n`), 'npm run generate:client');
  });

  it('creates, reads, changes and deletes users', async (t) => {
    const client = await start(t);
    const created = await client.POST('/users', { body: { name: 'Ada', role: 'admin' } });
    const user: components['schemas']['User'] | undefined = created.data;
    assert.deepEqual(user, { id: 1, name: 'Ada', role: 'admin' });

    const params = { path: { id: 1 }, header: { 'If-Match': '"1"' } };
    const updated = await client.PATCH('/users/{id}', { params, body: { role: null } });
    assert.deepEqual(updated.data, { id: 1, name: 'Ada' });
    const replaced = await client.PUT('/users/{id}', { params: { path: { id: 1 } }, body: { name: 'Mary' } });
    assert.deepEqual(replaced.data, { id: 1, name: 'Mary' });
    const late = await client.PUT('/users/{id}', { params, body: { name: 'Eve' } });
    assert.equal(late.response.status, 412);

    assert.equal((await client.DELETE('/users/{id}', { params: { path: { id: 1 } } })).response.status, 204);
    const { data, error } = await client.GET('/users/{id}', { params: { path: { id: 1 } } });
    assert.equal(data, undefined);
    assert.deepEqual(error, { error: 'user 1 not found' });
  });

  it('lists with parameters and headers', async (t) => {
    const client = await start(t);
    for (const name of ['Ada', 'Grace']) await client.POST('/users', { body: { name } });
    const { data = [], response } = await client.GET('/users', {
      params: { query: { sort: '-name', limit: 1, page: 1 }, header: { Prefer: 'count=exact' } },
    });
    const names = data.map((user) => user.name);
    assert.deepEqual(names, ['Grace']);
    assert.equal(response.headers.get('x-total-count'), '2');
  });

  it('reads the changes of several types', async (t) => {
    const client = await start(t);
    await client.POST('/users', { body: { name: 'Ada' } });
    await client.DELETE('/users/{id}', { params: { path: { id: 1 } } });
    const query = { type: 'user.created,user.deleted' };
    const { data } = await client.GET('/changes', { params: { query } });
    assert.ok(Array.isArray(data));
    assert.deepEqual(
      data.map(({ type }) => type),
      ['user.created', 'user.deleted'],
    );
  });

  it('creates a post once', async (t) => {
    const client = await start(t);
    await client.POST('/users', { body: { name: 'Ada' } });
    const params = { path: { id: 1 }, header: { 'Idempotency-Key': 'a' } };
    const first = await client.POST('/users/{id}/posts', { params, body: { title: 'Notes' } });
    const again = await client.POST('/users/{id}/posts', { params, body: { title: 'Notes' } });
    assert.deepEqual(again.data, first.data);
    assert.equal(again.response.headers.get('idempotency-replayed'), 'true');
    const { data } = await client.GET('/users/{id}/posts', { params: { path: { id: 1 } } });
    assert.deepEqual(data, [{ id: 1, userId: 1, title: 'Notes', body: '' }]);
  });

  it('calls the utility routes', async (t) => {
    const client = await start(t, { apiKeys: ['secret'], expectFailures: true });
    assert.equal((await client.GET('/health')).data?.ok, true);
    assert.equal((await client.GET('/info')).data?.path, '/info');
    assert.deepEqual((await client.POST('/echo', { body: [1, null] })).data?.youSent, [1, null]);
    assert.equal((await client.GET('/private')).response.status, 401);
    const secret: number | undefined = (await client.GET('/private', { headers: { 'x-api-key': 'secret' } }))
      .data?.secretData;
    assert.equal(secret, 42);
    assert.deepEqual((await client.GET('/boom')).error, { error: 'internal error' });
  });

  it('rejects wrong calls at compile time', async (t) => {
    const client = await start(t);
    // @ts-expect-error a name is required
    assert.equal((await client.POST('/users', { body: { role: 'admin' } })).response.status, 400);
    // @ts-expect-error a name is a string
    assert.equal((await client.POST('/users', { body: { name: 1 } })).response.status, 400);
    // @ts-expect-error an unknown parameter
    assert.equal((await client.GET('/users', { params: { query: { q: 'ada' } } })).response.status, 400);
    // @ts-expect-error an unknown path
    assert.equal((await client.GET('/orders')).response.status, 404);
    // @ts-expect-error an unknown method
    assert.equal((await client.PUT('/users', { body: { name: 'Ada' } })).response.status, 405);
  });
});
