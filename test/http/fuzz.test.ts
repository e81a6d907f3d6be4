import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { fuzz } from '../kit/fuzz/run.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const inputs = 1_000;
// The seed is fixed. `scripts/fuzz.ts` runs other seeds.
const seed = 1;

test('both APIs respond correctly to random input, and continue to serve requests', async (t) => {
  const prototype = Object.getOwnPropertyNames(Object.prototype);
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  const { http, port, grpc, failures } = await startService(t, { repository, grpcPort: 0 });
  const grpcPort = Number(grpc.split(':')[1]);

  const { statuses, users } = await fuzz({ httpPort: port, grpcPort, seed, inputs });

  for (const status of [200, 201, 400, 404, 405, 415, 501])
    assert.ok(statuses.has(status), `no response had the status ${status}`);
  assert.deepEqual(failures(), []);
  assert.deepEqual(Object.getOwnPropertyNames(Object.prototype), prototype);
  assert.ok(users.size > 20, `${users.size} users`);
  const kept = await Promise.all(
    [...users].map(async ([id, body]) => {
      const { status, headers, text } = await send(http, `GET /users/${id}`);
      // Another input may have deleted or changed the user. Its first version must equal the response.
      return status === 404 || headers.etag !== '"1"' || text === body;
    }),
  );
  assert.ok(kept.every(Boolean));
  const { code } = await getUser(usersClient(t, grpc), 2_147_483_647);
  assert.equal(code, 5, 'the gRPC API must return NOT_FOUND');
});
