import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';

import { exchange, head, Wire } from '../kit/wire.ts';
import { fetch } from '../support/fetch.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';

const body = '{"name":"Eve"}';
const post = `POST /users HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const get = 'GET /users HTTP/1.1\r\nHost: h\r\n\r\n';
const flood = Array.from({ length: 101 }, (_, i) => `x-${i}: y\r\n`).join('');

const refused: readonly (readonly [what: string, request: string, status: number])[] = [
  ['a doubled Host', 'GET /users HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 400],
  ['no Host', 'GET /users HTTP/1.1\r\n\r\n', 400],
  [
    'a Transfer-Encoding besides chunked',
    'POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    501,
  ],
  ['too many headers', `GET /users HTTP/1.1\r\nHost: h\r\n${flood}\r\n`, 431],
];

for (const [what, request, status] of refused) {
  for (const [when, before, statuses] of [
    ['', '', [status]],
    [' and both waited for an earlier one', get, [200, status]],
  ] as const) {
    test(`a request that is pipelined after a request with ${what}${when} is never executed`, async (t) => {
      const repository = createMemoryStore();
      const { port } = await startService(t, { repository });
      const responses = await exchange(port, before + request + post);
      assert.deepEqual(
        responses.map((response) => response.status),
        statuses,
      );
      assert.equal(await repository.users.count({}), 0);
    });
  }
}

for (const [what, request] of [
  ['malformed request', 'GET /users HTTP/1.1\r\nHost : h\r\n\r\n'],
  ['CONNECT', 'CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n'],
] as const) {
  test(`a ${what} after the last response of its connection gets no response, and is not reported`, async (t) => {
    const { port, events } = await startService(t, { repository: createMemoryStore() });
    const wire = await Wire.open(t, port);
    const last = await wire.write(head('POST /none', 'Content-Length: 100000')).next();
    assert.deepEqual([last.status, last.headers['connection']], [404, 'close']);
    wire.write(Buffer.alloc(100_000), request);
    assert.deepEqual(await wire.end(), []);
    assert.deepEqual(
      events.filter(({ type }) => type === 'refused'),
      [],
    );
  });
}

test('all requests that were pipelined before the service drains get a response', async (t) => {
  const repository = createMemoryStore();
  const gate = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  const { create } = repository.users;
  repository.users.create = async (...args) => {
    called.resolve();
    await gate.promise;
    return await create(...args);
  };
  const { port, service } = await startService(t, { repository });
  const answered = exchange(port, post + post + post, { wanted: 3 });
  await called.promise;
  const closing = service.close({ timeoutMs: 60_000 });
  gate.resolve();
  const responses = await answered;
  assert.deepEqual(
    responses.map((response) => response.status),
    [201, 201, 201],
  );
  assert.equal(responses.at(-1)?.headers['connection'], 'close');
  await closing;
  assert.equal(await repository.users.count({}), 3);
});

test('the connection of a client that sends single bytes but reads nothing is closed', async (t) => {
  const folder = temporaryFolder();
  await writeFile(join(folder, 'big.bin'), Buffer.alloc(30_000_000));
  const { port } = await startService(t, { publicDir: folder, limits: { writeTimeoutMs: 400 } });
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.on('error', () => undefined).pause();
  socket.write('GET /big.bin HTTP/1.1\r\nHost: h\r\n\r\n');
  const trickle = setInterval(() => socket.write('\r\n'), 50);
  t.after(() => {
    clearInterval(trickle);
    socket.destroy();
  });
  // A write to the connection fails after the server has closed it.
  await once(socket, 'error');
});

test('files outside the public folder are not served after a folder was replaced by a link', async (t) => {
  const folder = temporaryFolder();
  await mkdir(join(folder, 'public', 'sub'), { recursive: true });
  await mkdir(join(folder, 'outside'));
  await writeFile(join(folder, 'public', 'sub', 'a.txt'), 'inside');
  await writeFile(join(folder, 'outside', 'a.txt'), 'outside');
  const { http } = await startService(t, { publicDir: join(folder, 'public') });
  assert.equal(await (await fetch(`${http}/sub/a.txt`)).text(), 'inside');
  await rename(join(folder, 'public', 'sub'), join(folder, 'moved'));
  await symlink(join(folder, 'outside'), join(folder, 'public', 'sub'));
  const answer = await fetch(`${http}/sub/a.txt`);
  assert.deepEqual([answer.status, await answer.json()], [404, { error: 'no such resource' }]);
});
