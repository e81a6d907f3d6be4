import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { abortKinds, abortRequest } from '../kit/aborts.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';

const rounds = 4;

test('aborted requests leave no stored record, no request in flight and no open connection', async (t) => {
  const publicDir = temporaryFolder();
  await writeFile(join(publicDir, 'long.bin'), Buffer.alloc(30_000_000));
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  const { http, port, failures } = await startService(t, { publicDir, repository });
  const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
  const descriptors = () => (existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0);
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown) => rejections.push(reason);
  process.on('unhandledRejection', onRejection);
  t.after(() => process.off('unhandledRejection', onRejection));

  await send(http, 'GET /users');
  const before = { sockets: sockets(), descriptors: descriptors() };
  for (let round = 0; round < rounds; round += 1) {
    await Promise.all(Array.from({ length: abortKinds }, (_, kind) => abortRequest(port, kind)));
  }

  const inFlight = async () =>
    /in_flight\{face="http"\} (\d+)/.exec((await send(http, 'GET /metrics')).text)?.[1];
  const isBack = async () =>
    (await inFlight()) === '1' && sockets() <= before.sockets && descriptors() <= before.descriptors;
  const deadline = performance.now() + 10_000;
  while (!(await isBack()) && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(await inFlight(), '1', 'only the request for the metrics');
  assert.ok(sockets() <= before.sockets, `${sockets()} sockets, ${before.sockets} before`);
  assert.ok(
    descriptors() <= before.descriptors,
    `${descriptors()} descriptors, ${before.descriptors} before`,
  );
  const { headers, json } = await send(http, 'GET /users', { headers: { prefer: 'count=exact' } });
  assert.equal(headers['x-total-count'], '1');
  assert.deepEqual(json, [{ id: 1, name: 'Ada' }]);
  assert.deepEqual(failures(), []);
  assert.deepEqual(rejections, []);
});
