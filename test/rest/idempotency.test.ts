import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyInUse } from '../../src/domain/errors.ts';
import type { Repository } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { errorOf, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const creations = [
  ['POST /users', { name: 'Bob' }, { name: 'Bobby' }, 'GET /users'],
  ['POST /users/1/posts', { title: 'Hi' }, { title: 'Ho' }, 'GET /users/1/posts'],
] as const;

for (const [line, body, otherBody, list] of creations) {
  const start = async (t: Parameters<typeof startService>[0]) => {
    const repository = createMemoryStore();
    await repository.users.create({ name: 'Ann' });
    const { http } = await startService(t, { repository });
    const size = async () => {
      const { json } = await send(http, list);
      return Array.isArray(json) ? json.length : -1;
    };
    return { http, size };
  };
  const withKey = (key: string, json: unknown = body) => ({
    json,
    headers: { 'idempotency-key': key, 'content-type': 'application/json' },
  });

  test(`${line}: the same key and body return the first response again`, async (t) => {
    const { http, size } = await start(t);
    const before = await size();
    const first = await send(http, line, withKey('k'));
    assert.equal(first.status, 201);
    assert.equal(first.headers['idempotency-replayed'], undefined);
    const again = await send(http, line, withKey('k'));
    assert.equal(again.headers['idempotency-replayed'], 'true');
    assert.deepEqual([again.status, again.text], [201, first.text]);
    for (const name of ['location', 'etag', 'content-type']) {
      assert.equal(again.headers[name], first.headers[name], name);
    }
    assert.equal(await size(), before + 1);
  });

  test(`${line}: bodies that differ only in white space and order of fields are equal`, async (t) => {
    const { http, size } = await start(t);
    const before = await size();
    await send(http, line, withKey('k'));
    const headers = { 'idempotency-key': 'k', 'content-type': 'application/json; charset=utf-8' };
    const again = await send(http, line, { body: ` ${JSON.stringify(body, null, 2)}\n`, headers });
    assert.equal(again.headers['idempotency-replayed'], 'true');
    assert.equal(await size(), before + 1);
  });

  test(`${line}: the same key with another body returns 422 and creates no record`, async (t) => {
    const { http, size } = await start(t);
    await send(http, line, withKey('k'));
    const before = await size();
    const other = await send(http, line, withKey('k', otherBody));
    const refused = [other.status, errorOf(other)];
    assert.deepEqual(refused, [422, 'Idempotency-Key was used before, for another request']);
    assert.equal(await size(), before);
  });

  test(`${line}: a request with an invalid body does not use up its key`, async (t) => {
    const { http } = await start(t);
    assert.equal((await send(http, line, withKey('k', { nonsense: 1 }))).status, 400);
    assert.equal((await send(http, line, withKey('k'))).status, 201);
  });

  test(`${line}: two requests without a key create two records`, async (t) => {
    const { http, size } = await start(t);
    const before = await size();
    await send(http, line, { json: body });
    await send(http, line, { json: body });
    assert.equal(await size(), before + 2);
  });

  test(`${line}: requests with different keys are independent`, async (t) => {
    const { http, size } = await start(t);
    const before = await size();
    for (const key of ['k', 'K', '"k "', 'k2']) {
      assert.equal((await send(http, line, withKey(key))).headers['idempotency-replayed'], undefined, key);
    }
    assert.equal(await size(), before + 4);
  });

  test(`${line}: a key with and without quotes is the same key`, async (t) => {
    const { http } = await start(t);
    await send(http, line, withKey('"a\\"b"'));
    assert.equal((await send(http, line, withKey('"a\\"b"'))).headers['idempotency-replayed'], 'true');
    await send(http, line, withKey('"k"'));
    assert.equal((await send(http, line, withKey('k'))).headers['idempotency-replayed'], 'true');
  });

  const malformed = [
    '',
    '""',
    'a b',
    'a,b',
    '"a',
    'a"',
    '"a" "b"',
    '"a";x',
    '"a\\n"',
    'x'.repeat(256),
    'kéy',
  ];
  const keys = [...malformed, ['a', 'b'], ['"a"', '"b"']];
  for (const key of line === 'POST /users' ? keys : keys.slice(0, 1)) {
    test(`${line}: the key ${JSON.stringify(key).slice(0, 20)} is malformed and returns 400`, async (t) => {
      const { http, size } = await start(t);
      const before = await size();
      const headers = { 'idempotency-key': key, 'content-type': 'application/json' };
      const answer = await send(http, line, { json: body, headers });
      assert.equal(answer.status, 400);
      assert.equal(errorOf(answer), 'Idempotency-Key must be one string of 1 to 255 ASCII characters');
      assert.equal(await size(), before);
    });
  }

  test(`${line}: a key whose first request is still running returns 409 with Retry-After`, async (t) => {
    const store = createMemoryStore();
    await store.users.create({ name: 'Ann' });
    const held = Promise.withResolvers<void>();
    const began = Promise.withResolvers<void>();
    let running = false;
    // The contract lets a store reject the second request instead of delaying it. This store does so.
    const hold = async <T>(create: () => Promise<T>): Promise<T> => {
      if (running) throw keyInUse();
      running = true;
      began.resolve();
      await held.promise;
      return create();
    };
    const repository: Repository = {
      ...store,
      users: { ...store.users, create: (...call) => hold(() => store.users.create(...call)) },
      posts(userId) {
        const posts = store.posts(userId);
        return { ...posts, create: (...call) => hold(() => posts.create(...call)) };
      },
    };
    const { http } = await startService(t, { repository });
    const first = send(http, line, withKey('k'));
    await began.promise;
    const second = await send(http, line, withKey('k'));
    const refused = [second.status, errorOf(second), second.headers['retry-after']];
    assert.deepEqual(refused, [409, 'a request with this Idempotency-Key is still running', '1']);
    held.resolve();
    assert.equal((await first).status, 201);
  });
}

test('a key of a POST to the posts of a user returns 422 for the posts of another user and for users', async (t) => {
  const { http } = await startService(t);
  const options = (json: unknown) => ({
    json,
    headers: { 'idempotency-key': 'k', 'content-type': 'application/json' },
  });
  await send(http, 'POST /users', { json: { name: 'Ann' } });
  await send(http, 'POST /users', { json: { name: 'Bob' } });
  assert.equal((await send(http, 'POST /users/1/posts', options({ title: 'Hi' }))).status, 201);
  assert.equal((await send(http, 'POST /users/2/posts', options({ title: 'Hi' }))).status, 422);
  assert.equal((await send(http, 'POST /users', options({ name: 'Hi' }))).status, 422);
});

test('PUT, PATCH and DELETE ignore Idempotency-Key', async (t) => {
  const { http } = await startService(t);
  await send(http, 'POST /users', { json: { name: 'Ann' } });
  const headers = { 'idempotency-key': 'k', 'content-type': 'application/json' };
  assert.equal((await send(http, 'PUT /users/1', { json: { name: 'Bea' }, headers })).status, 200);
  assert.equal((await send(http, 'PATCH /users/1', { json: { name: 'Cy' }, headers })).status, 200);
  assert.equal((await send(http, 'DELETE /users/1', { headers })).status, 204);
  assert.equal((await send(http, 'DELETE /users/1', { headers })).status, 404);
});

test('the first response is returned again even after its user was changed or deleted', async (t) => {
  const { http } = await startService(t);
  const options = {
    json: { name: 'Ann' },
    headers: { 'idempotency-key': 'k', 'content-type': 'application/json' },
  };
  const first = await send(http, 'POST /users', options);
  await send(http, 'PATCH /users/1', { json: { name: 'Bea' } });
  assert.equal((await send(http, 'POST /users', options)).text, first.text);
  await send(http, 'DELETE /users/1');
  const last = await send(http, 'POST /users', options);
  assert.deepEqual([last.status, last.text, last.headers.etag], [201, first.text, '"1"']);
});
