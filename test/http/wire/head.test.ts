import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryStore } from '../../../src/storage/memory/store.ts';
import { head, Wire } from '../../kit/wire.ts';
import { startService } from '../../support/service.ts';

// RFC 9110, 9.3.2: HEAD has the headers of GET and no content. Each row is a target with request headers.
const asked: readonly [target: string, ...headers: string[]][] = [
  ['/'],
  ['/index.html', 'Accept-Encoding: br'],
  ['/health'],
  ['/health/ready'],
  ['/users'],
  ['/users?sort=-name&limit=1'],
  ['/users', 'Prefer: count=exact'],
  ['/users/1'],
  ['/users/1', 'If-None-Match: "1"'],
  ['/users/1/posts'],
  ['/users/1/posts?limit=2'],
  ['/private'],
  ['/private', 'x-api-key: key'],
  ['/boom'],
  ['/users/2'],
  ['/users/x'],
  ['/users?limit=0'],
  ['/nowhere'],
  ['/echo'],
  ['/%'],
  ['/nowhere', 'Accept: application/problem+json'],
];

test('every response to HEAD has the same headers as the response to GET', async (t) => {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  // More posts than one chunk contains, so that the list is streamed.
  for (let i = 0; i < 600; i += 1) await repository.posts(1).create({ title: `Post ${i}`, body: '' });
  const { port } = await startService(t, { repository, apiKeys: ['key'], expectFailures: true });
  const wire = await Wire.open(t, port);
  const sides = await Wire.open(t, port);
  sides.expectHead();
  for (const [target, ...headers] of asked) {
    wire.write(head(`GET ${target}`, 'x-request-id: same', ...headers));
    sides.write(head(`HEAD ${target}`, 'x-request-id: same', ...headers));
    const { date: _get, 'transfer-encoding': _chunked, ...get } = (await wire.next()).headers;
    const answer = await sides.next();
    const { date: _head, ...alike } = answer.headers;
    assert.deepEqual(alike, get, target);
  }
  // A response to HEAD must not have content that a client would read as the next response.
  sides.write(head('HEAD /health'));
  assert.equal((await sides.next()).status, 200);
});

test('idle connections stay open for longer than common load balancers keep theirs', async (t) => {
  const { port } = await startService(t);
  const { headers } = await (await Wire.open(t, port)).write(head('GET /health')).next();
  assert.equal(headers['keep-alive'], 'timeout=72');
});
