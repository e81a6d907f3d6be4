import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { userQuery } from '../../../src/conformance/fixture.ts';
import type { ErrorKind } from '../../../src/domain/errors.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { openTestPostgres, patient } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { kindOf, timed } from '../../support/outcome.ts';
import { storesOf } from './prepared.ts';

const postgres = await openTestPostgres();
after(() => postgres.close());
const open = storesOf(postgres);

describe('a pool whose connections are all in use', () => {
  it('limits the number of waiting calls and their time, rejects the others, and stays ready', async (t) => {
    const limits = { poolSize: 2, maxWaiting: 3 };
    const { store, session } = await open(t, { ...patient, ...limits, waitTimeoutMs: 1_500 });
    await store.users.create({ name: 'Ada' });
    await session.lock('posts');
    const running = [store.posts(1).count({}), store.posts(1).count({})];
    await session.untilBlocked(2);
    const waiting = Array.from({ length: 3 }, () => timed(kindOf(store.users.get(1))));
    const refused = kindOf(store.users.get(1));
    assert.equal(await Promise.race([...waiting, refused]), 'overloaded', 'it must not wait');
    await store.ping();
    for (const { result, ms } of await Promise.all(waiting)) {
      assert.equal(result, 'unavailable');
      assert.ok(ms > 1_000 && ms < 20_000, `waited ${ms} ms`);
    }
    await session.unlock();
    assert.deepEqual(await Promise.all(running), [0, 0]);
    assert.equal((await store.users.get(1))?.name, 'Ada');
  });
});

describe('writes that wait for a locked record', () => {
  for (const { poolSize, blocked } of [
    { poolSize: 2, blocked: 1 },
    { poolSize: 3, blocked: 2 },
    { poolSize: 10, blocked: 8 },
  ]) {
    it(`leave ${poolSize - blocked} of ${poolSize} connections to reads`, async (t) => {
      // Neither the writes nor the reads beyond these limits may keep out the others.
      const { store, session } = await open(t, { ...patient, poolSize, maxWaiting: 2 * poolSize });
      await store.users.create({ name: 'Ada' });
      await session.query(`BEGIN; UPDATE users SET name = 'Grace'`);
      const names = Array.from({ length: 3 * poolSize }, (_, i) => `Ada ${i}`);
      const writes = names.map((name) => store.users.update(1, { name }));
      await session.untilBlocked(blocked);
      assert.equal(await kindOf(store.users.update(1, { name: 'Ada' })), 'overloaded');
      const reads = await Promise.all(names.map(() => store.users.get(1)));
      assert.deepEqual(new Set(reads.map((user) => user?.name)), new Set(['Ada']));
      await session.unlock();
      const written = (await Promise.all(writes)).map((user) => user?.name);
      assert.deepEqual(written, names);
    });
  }
});

/** Creates a database with a role of its own, whose password is `old`. */
async function createOwner(t: TestContext, prefix: string, options = '') {
  const url = new URL(await postgres.createDatabase());
  const name = `${prefix}_${url.pathname.slice(1)}`;
  const session = await openSession(t, url.href);
  await session.query(`CREATE ROLE ${name} LOGIN PASSWORD 'old' ${options}`);
  await session.alterDatabase(`OWNER TO ${name}`);
  return { session, name, url: Object.assign(url, { username: name, password: 'old' }) };
}

it('a role with fewer connections than the pool serves all calls', async (t) => {
  const { session, name, url } = await createOwner(t, 'limited', 'CONNECTION LIMIT 3');
  // Without a feed, whose own connections would show the pool that the server is no longer full.
  const store = closeAfter(t, await openPostgresStore(url.href, { ...patient, changesKept: 0 }));
  const createMany = () => Promise.all(Array.from({ length: 40 }, () => store.users.create({ name: 'Ada' })));
  const untilOpen = (count: number) =>
    until(async () => {
      await createMany();
      return (await session.backends()).length === count;
    }, 'the pool uses all connections that are allowed');
  // The server also counts the connections that it is about to refuse, so it may refuse too many at once.
  await untilOpen(3);
  for (let round = 0; round < 5; round += 1) await createMany();
  await session.query(`BEGIN; UPDATE users SET name = 'Grace'`);
  const writes = Array.from({ length: 10 }, () => store.users.update(1, { name: 'Alan' }));
  await session.untilBlocked(2);
  assert.equal((await store.users.get(1))?.name, 'Ada', 'one of the connections is left to reads');
  await session.unlock();
  await Promise.all(writes);
  await session.query(`ALTER ROLE ${name} CONNECTION LIMIT 5`);
  await untilOpen(5);
});

it('a role with one connection serves calls although a ping has used it first', async (t) => {
  const { session, name, url } = await createOwner(t, 'single', 'CONNECTION LIMIT 1');
  const store = closeAfter(t, await openPostgresStore(url.href, patient));
  const terminate = 'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1';
  await session.query(terminate, [name]);
  await until(async () => (await kindOf(store.ping())) === 'none', 'the store is ready');
  assert.equal((await store.users.create({ name: 'Ada' })).value.id, 1);
  assert.equal(await store.changes?.position(), 1);
  await store.ping();
});

it('a server that refuses further connections causes a warning, and the open connections serve', async (t) => {
  const { session, name, url } = await createOwner(t, 'renewed');
  const warnings: string[] = [];
  const onWarning = (warning: string) => warnings.push(warning);
  const store = closeAfter(t, await openPostgresStore(url.href, { ...patient, onWarning }));
  await session.query(`ALTER ROLE ${name} PASSWORD 'new'`);
  await session.lock('users');
  const reads = Array.from({ length: 3 }, () => store.users.get(1));
  const text = `no further connection to ${url.host} can be opened: password authentication failed for user "${name}"`;
  await until(() => warnings.includes(text), 'the refusal is reported');
  await session.unlock();
  assert.deepEqual(await Promise.all(reads), [undefined, undefined, undefined]);
});

describe('a PostgreSQL call whose signal is aborted', () => {
  it('ends at once while it waits or runs, and releases its connection', async (t) => {
    const { store, session } = await open(t, { ...patient, poolSize: 3 });
    await store.users.create({ name: 'Ada' });
    await session.lock('users');
    const controller = new AbortController();
    const { signal } = controller;
    const calls = Array.from({ length: 200 }, () => kindOf(store.users.get(1, { signal })));
    await session.untilBlocked(3);
    controller.abort();
    const { result, ms } = await timed(Promise.all(calls));
    assert.deepEqual(new Set(result), new Set(['cancelled']));
    assert.ok(ms < 10_000, `left after ${ms} ms`);
    const endedMs = await session.untilBlocked(0);
    assert.ok(endedMs < 20_000, `the server ended the statements after ${endedMs} ms`);
    await session.unlock();
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 3 }, () => store.users.get(1)));
    }
    await until(async () => (await session.backends()).length <= 4, 'the other sessions end');
  });

  it('gives up its place in the queue', async (t) => {
    const { store, session } = await open(t, { poolSize: 1, maxWaiting: 1, waitTimeoutMs: 20_000 });
    await store.users.create({ name: 'Ada' });
    await session.lock('users');
    const running = store.users.get(1);
    await session.untilBlocked(1);
    const controller = new AbortController();
    const leaves = kindOf(store.users.get(1, { signal: controller.signal }));
    assert.equal(await kindOf(store.users.get(1)), 'overloaded');
    controller.abort();
    assert.equal(await leaves, 'cancelled');
    const waits = store.users.get(1);
    await session.unlock();
    assert.deepEqual(await running, await waits);
  });

  it('releases a connection that was still being opened', async (t) => {
    const { store } = await open(t, { poolSize: 2, waitTimeoutMs: 1_000 });
    for (let round = 0; round < 10; round += 1) {
      const controller = new AbortController();
      const call = kindOf(store.users.get(1, { signal: controller.signal }));
      controller.abort();
      assert.equal(await call, 'cancelled');
    }
    await Promise.all(Array.from({ length: 10 }, () => store.users.create({ name: 'Ada' })));
  });

  it('keeps the connection when the statement ends soon', async (t) => {
    const { store, session } = await open(t, { poolSize: 1 });
    await store.users.create({ name: 'Ada' });
    const seen = new Set(await session.backends());
    for (let i = 0; i < 100; i += 1) {
      const controller = new AbortController();
      const call = kindOf(store.users.get(1, { signal: controller.signal }));
      await nextTurn();
      controller.abort();
      assert.ok(['none', 'cancelled'].includes(await call));
      for (const pid of await session.backends()) seen.add(pid);
    }
    assert.equal((await store.users.get(1))?.name, 'Ada');
    // On a very busy machine, a statement may take longer than the grace period.
    assert.ok(seen.size < 20, `${seen.size} connections for 100 calls`);
  });

  it('fails as deadline-exceeded instead of cancelled when its deadline has passed', async (t) => {
    const { store, session } = await open(t, patient);
    await session.lock('users');
    const list = store.users.list(userQuery(), { signal: AbortSignal.timeout(50) });
    const { result, ms } = await timed(kindOf(list));
    assert.equal(result, 'deadline-exceeded');
    assert.ok(ms < 20_000, `left after ${ms} ms`);
    await session.unlock();
  });
});

describe('PostgreSQL statements that wait', () => {
  const limits: readonly [PostgresStoreOptions, ErrorKind][] = [
    [{ statementTimeoutMs: 100 }, 'deadline-exceeded'],
    [{ lockTimeoutMs: 100 }, 'unavailable'],
  ];
  for (const [options, expected] of limits) {
    it(`fail with ${expected} with the options ${inspect(options)}`, async (t) => {
      const { store, session } = await open(t, options);
      await session.lock('users');
      assert.equal(await kindOf(store.users.get(1)), expected);
      assert.equal(await kindOf(store.users.create({ name: 'Ada' })), expected);
      await session.unlock();
      // On a slow machine, a statement that waits for nothing may take that long too.
      await t.waitFor(() => store.users.create({ name: 'Ada' }), { timeout: 60_000 });
    });
  }
});
