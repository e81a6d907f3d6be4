import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createService } from '../../src/service/service.ts';
import { openStore } from '../../src/storage/open.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { usersClient } from '../kit/grpc.ts';
import { allUsers } from '../kit/ledger.ts';
import { OutageLoad, untilReady } from '../kit/outage-load.ts';
import { startPostgres } from '../kit/postgres.ts';
import { openSession } from '../kit/postgres-session.ts';
import { startProcess } from '../kit/process.ts';
import { timed } from '../support/outcome.ts';

const postgres = await startPostgres();
after(() => postgres.close());

test('a close during a start ends in time although the database does not respond, and nothing is opened later', async (t) => {
  const url = await postgres.createDatabase();
  await (await openStore(url)).close();
  const session = await openSession(t, url);
  await session.lock('meta');
  // Opening the port would fail, because the database has it.
  const port = Number(new URL(url).port);
  const events: ServiceEvent[] = [];
  const observe = (event: ServiceEvent) => events.push(event);
  const service = createService({ database: url, port, grpcPort: false, observe });
  const listening = service.listen();
  await session.untilBlocked(1);
  const { ms } = await timed(service.close({ timeoutMs: 100 }));
  // The store would wait 5 s for the lock.
  assert.ok(ms < 4_000, `closed after ${ms} ms`);
  // It may fail before the response to `unlock` arrives.
  const failed = assert.rejects(listening, { message: 'the service was closed during its start' });
  await session.unlock();
  await failed;
  assert.deepEqual(await session.backends(), []);
  const others = events.filter(({ type }) => type !== 'warning');
  assert.deepEqual(others, []);
});

// scripts/outage.ts is the long version of this test, with a failover.
test('while the database ends its sessions, crashes and restarts, clients only receive "unavailable"', async (t) => {
  const { server } = postgres;
  const url = await postgres.createDatabase();
  const { child, http, grpc } = await startProcess(t, ['--database', url]);
  await fetch(`${http}/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"name":"the first"}',
  });
  const load = new OutageLoad({ child, http, client: usersClient(t, grpc), clients: 3 });
  const { ledger, violations } = load;
  // After a violation, stop waiting.
  const untilCreated = async (count: number) => {
    const enough = ledger.acknowledged.length + count;
    while (violations.size === 0 && ledger.acknowledged.length < enough) await untilReady(http, true);
  };
  try {
    for (let round = 0; round < 3; round += 1) {
      await untilCreated(20);
      await server.terminateBackends(new URL(url).pathname.slice(1));
    }
    await untilCreated(20);
    await server.stop('immediate');
    load.databaseIs('down');
    load.report();
    await untilReady(http, false);
    const met = ['POST /users 503', 'GET /users/{id} 503', 'GetUser UNAVAILABLE'];
    while (violations.size === 0 && !met.every((answer) => load.has(answer))) {
      await untilReady(http, false);
    }
    load.databaseIs('up');
    await server.start();
    t.diagnostic(`ready ${await untilReady(http, true)} ms after the database`);
    await untilCreated(20);
  } finally {
    await load.stop();
  }
  assert.deepEqual([...violations], []);
  const { lost, doubled, reusedIds } = ledger.compare(await allUsers(http));
  assert.deepEqual({ lost, doubled, reusedIds }, { lost: 0, doubled: 0, reusedIds: 0 });
});
