import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { userQuery } from '../../../src/conformance/fixture.ts';
import { DomainError, type ErrorKind } from '../../../src/domain/errors.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { openForwarder } from '../../kit/forwarder.ts';
import { patient, startPostgres } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { kindOf, timed } from '../../support/outcome.ts';
import { preparedDatabases } from './prepared.ts';

const postgres = await startPostgres();
const { server } = postgres;
after(() => postgres.close());
const createDatabase = preparedDatabases(postgres);

async function open(t: TestContext, options?: PostgresStoreOptions, port?: number) {
  const database = new URL(await createDatabase()).pathname.slice(1);
  const url = server.url(database);
  const store = closeAfter(t, await openPostgresStore(server.url(database, port), options));
  return { store, url, database };
}

/** `host-search.test.ts` tests how soon a host is found, with a simulated clock. */
function untilReady(store: Store): Promise<number> {
  return until(async () => (await kindOf(store.ping())) === 'none', 'the store is ready', 30_000);
}

/** Opens ten connections. On a slow machine, a call may take longer than a short limit. */
async function untilConnected(store: Store): Promise<void> {
  await until(
    async () => {
      const creations = Array.from({ length: 10 }, () => kindOf(store.users.create({ name: 'Ada' })));
      return (await Promise.all(creations)).every((kind) => kind === 'none');
    },
    'all connections are open',
    60_000,
  );
}

/** Reads and writes without pause until `stop`, and records the results. */
function startLoad(t: TestContext, store: Store) {
  const created: number[] = [];
  const kinds = new Set<ErrorKind>();
  let running = true;
  const worker = async (n: number) => {
    for (let i = 0; running; i += 1) {
      try {
        const idempotency = { key: `${n}.${i}`, fingerprint: '' };
        const options = n % 2 === 0 ? {} : { idempotency };
        const { value } = await store.users.create({ name: `user ${n}.${i}` }, options);
        created.push(value.id);
        await store.users.get(value.id);
      } catch (error) {
        kinds.add(DomainError.from(error).kind);
        await nextTurn();
      }
    }
  };
  const workers = Array.from({ length: 16 }, (_, n) => worker(n));
  const stop = async () => {
    running = false;
    await Promise.all(workers);
    return kinds;
  };
  t.after(stop);
  return { created, stop };
}

async function assertAllThere(store: Store, created: readonly number[]): Promise<void> {
  assert.equal(new Set(created).size, created.length, 'an id was assigned twice');
  const ids = new Set((await store.exportRows('users', 0, 1_000_000)).map(({ id }) => id));
  const missing = created.filter((id) => !ids.has(id));
  assert.deepEqual(missing, [], 'an acknowledged user is missing');
}

describe('PostgreSQL sessions that the server ends', () => {
  it('are replaced without a failed call if they were idle', async (t) => {
    const { store, database } = await open(t);
    await store.users.create({ name: 'Ada' });
    await untilConnected(store);
    assert.ok((await server.terminateBackends(database)) > 1);
    const reads = await Promise.all(Array.from({ length: 20 }, () => store.users.get(1)));
    assert.ok(reads.every((user) => user?.name === 'Ada'));
    await store.users.create({ name: 'Bob' });
  });

  it('are replaced during a read, which is retried', async (t) => {
    const { store, url, database } = await open(t);
    const session = await openSession(t, url);
    await store.users.create({ name: 'Ada' });
    await session.lock('users');
    const reads = Array.from({ length: 5 }, () => store.users.get(1));
    await session.untilBlocked(5);
    const before = await session.backends();
    for (const pid of before) await server.query('SELECT pg_terminate_backend($1)', [pid]);
    await until(
      async () => (await session.backends()).some((pid) => !before.includes(pid)),
      `new in ${database}`,
    );
    await session.unlock();
    for (const user of await Promise.all(reads)) assert.equal(user?.name, 'Ada');
  });

  it('fail a write as unavailable, and the write is not retried', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    await session.lock('users');
    const write = kindOf(store.users.create({ name: 'Ada' }));
    await session.untilBlocked(1);
    for (const pid of await session.backends()) await server.query('SELECT pg_terminate_backend($1)', [pid]);
    await session.unlock();
    assert.equal(await write, 'unavailable');
    assert.equal(await store.users.count({}), 0);
  });
});

describe('a PostgreSQL server that stops under load and restarts', () => {
  for (const mode of ['fast', 'immediate'] as const) {
    it(`(${mode}) is used again at once, and has all acknowledged writes`, async (t) => {
      const { store, database } = await open(t);
      const load = startLoad(t, store);
      await until(async () => load.created.length > 200, 'the load runs', 60_000);
      await server.stop(mode);
      assert.equal(await kindOf(store.ping()), 'unavailable');
      const failure = await Promise.resolve(store.users.get(1)).catch((error: unknown) => error);
      assert.ok(
        !inspect(failure, { depth: 20, showHidden: true }).includes('secret-'),
        'errors must not contain the password',
      );
      await server.start();
      const readyMs = await untilReady(store);
      const before = load.created.length;
      const writeMs = await until(async () => load.created.length > before, 'writes succeed');
      assert.deepEqual(await load.stop(), new Set(['unavailable']));
      await assertAllThere(store, load.created);
      t.diagnostic(
        `ready after ${readyMs.toFixed()} ms, wrote after ${writeMs.toFixed()} ms more (${database})`,
      );
    });
  }
});

describe('a PostgreSQL server that is down', () => {
  it('is not contacted for each call', async (t) => {
    const forwarder = closeAfter(t, await openForwarder(server.port));
    const { store } = await open(t, {}, forwarder.port);
    const load = startLoad(t, store);
    await until(async () => load.created.length > 50, 'the load runs', 60_000);
    forwarder.moveTo(1);
    forwarder.cut();
    const before = forwarder.accepted;
    const attempts = () => forwarder.accepted - before;
    // Each of the ten sessions and a check try once. Later attempts have pauses between them.
    const ms = await until(() => attempts() >= 13, 'the store tries to connect again');
    assert.ok(attempts() < 0.1 * ms, `${attempts()} attempts in ${ms.toFixed()} ms`);
    forwarder.moveTo(server.port);
    await untilReady(store);
    assert.deepEqual(await load.stop(), new Set(['unavailable']));
  });
});

describe('a network that stops delivering packets', () => {
  it('is detected, and the database is used again as soon as the network recovers', async (t) => {
    const forwarder = closeAfter(t, await openForwarder(server.port));
    const limits = { statementTimeoutMs: 1_000, waitTimeoutMs: 1_000, pingTimeoutMs: 1_000 };
    const { store } = await open(t, limits, forwarder.port);
    await untilConnected(store);
    forwarder.freeze();
    const read = timed(kindOf(store.users.get(1)));
    const ping = await timed(kindOf(store.ping()));
    assert.equal(ping.result, 'unavailable');
    assert.ok(ping.ms < 10_000, `the ping took ${ping.ms} ms`);
    const { result, ms } = await read;
    assert.equal(result, 'unavailable');
    assert.ok(ms < 10_000, `the read took ${ms} ms`);
    forwarder.thaw();
    const readyMs = await untilReady(store);
    assert.equal((await store.users.get(1))?.name, 'Ada');
    t.diagnostic(`failure detected after ${ms.toFixed()} ms, ready after ${readyMs.toFixed()} ms`);
  });
});

describe('PostgreSQL sessions that are dead without a closed connection', () => {
  it('are all replaced after a ping has used one', async (t) => {
    const forwarder = closeAfter(t, await openForwarder(server.port));
    const { store } = await open(t, { ...patient, pingTimeoutMs: 200 }, forwarder.port);
    await untilConnected(store);
    // On a busy machine a ping may take longer than its limit here.
    await untilReady(store);
    forwarder.strand();
    assert.equal(await kindOf(store.ping()), 'unavailable');
    const { ms } = await timed(
      Promise.all(Array.from({ length: 20 }, () => store.users.create({ name: 'Bob' }))),
    );
    assert.ok(ms < 10_000, `took ${ms} ms`);
    // The timeout is short for a connection that is not open yet.
    await untilReady(store);
  });

  it('hold no call back after a ping, and a write among them may still succeed', async (t) => {
    const forwarder = closeAfter(t, await openForwarder(server.port));
    const { store } = await open(t, { ...patient, pingTimeoutMs: 1_000 }, forwarder.port);
    await untilConnected(store);
    await untilReady(store);
    const before = await store.users.count({});
    forwarder.strand();
    const writes = Array.from({ length: 8 }, () => store.users.create({ name: 'Bob' }));
    const reads = Array.from({ length: 2 }, () => store.users.get(1));
    assert.equal(await kindOf(store.ping()), 'unavailable');
    await Promise.all([...reads, store.users.create({ name: 'Cleo' }), untilReady(store)]);
    assert.equal(await store.users.count({}), before + 1);
    // The limit of their statements would have ended the writes.
    forwarder.thaw();
    await Promise.all(writes);
    assert.equal(await store.users.count({}), before + 1 + writes.length);
  });
});

/** Makes commits wait for one of these standbys; for none if empty. */
async function requireStandbys(names: string): Promise<void> {
  await server.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
  await server.query('SELECT pg_reload_conf()');
  const isActive = async () => {
    const sql = `SELECT current_setting('synchronous_standby_names') AS names`;
    const [row] = await server.query<{ names: string }>(sql);
    return row?.names === names;
  };
  await until(isActive, 'the setting is active');
  // Commits wait for the standbys that the checkpointer knows, which reads the setting before each checkpoint.
  await server.query('CHECKPOINT');
}

describe('a commit that waits for a standby', () => {
  it('is not acknowledged without the standby, also not to a retry', async (t) => {
    const { url } = await open(t);
    // The setting hides the warning of the server, unless each session changes it.
    const options = encodeURIComponent('-c client_min_messages=error');
    const limits = { ...patient, statementTimeoutMs: 1_000 };
    const store = closeAfter(t, await openPostgresStore(`${url}?options=${options}`, limits));
    t.after(() => requireStandbys(''));
    const idempotency = { key: 'key', fingerprint: 'fingerprint' };
    const create = () => store.users.create({ name: 'Ada' }, { idempotency });
    await requireStandbys('missing');
    assert.equal(await kindOf(store.users.create({ name: 'Bob' })), 'unavailable');
    assert.equal(await kindOf(create()), 'unavailable');
    // The server has committed the writes, and shows them when it has ended their wait. A promotion of the standby would
    // lose them now.
    await until(async () => (await store.users.count({})) === 2, 'both writes are committed');
    assert.equal(await kindOf(create()), 'unavailable');
    // This update changes nothing, but its response would confirm the creation.
    assert.equal(await kindOf(store.users.update(1, { name: 'Bob' })), 'unavailable');
    await requireStandbys('');
    assert.equal((await create()).replayed, true);
    assert.equal(await store.users.count({}), 2);
  });
});

describe('a standby of PostgreSQL', () => {
  it('serves reads without being ready, is replaced by the primary, and then takes over from the primary', async (t) => {
    // The other tests need the primary.
    t.after(async () => {
      await server.start();
      await requireStandbys('');
    });
    const standby = await postgres.createStandby();
    const forwarder = closeAfter(t, await openForwarder(standby.port));
    const { store: first, database } = await open(t);
    for (let i = 0; i < 3; i += 1) await first.users.create({ name: `user ${i}` });
    await requireStandbys('*');
    const synchronous = `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`;
    await until(async () => (await server.query(synchronous)).length === 1, 'the standby is synchronous');
    await first.users.create({ name: 'last' });
    const [{ lsn } = {}] = await server.query<{ lsn: string }>('SELECT pg_current_wal_lsn() AS lsn');
    const replayed = 'SELECT FROM pg_last_wal_replay_lsn() AS replayed WHERE replayed >= $1::pg_lsn';
    await until(
      async () => (await standby.query(replayed, [lsn])).length === 1,
      'the standby has all changes',
    );

    const store = closeAfter(t, await openPostgresStore(server.url(database, forwarder.port)));
    assert.equal((await store.users.get(1))?.name, 'user 0');
    assert.equal(await kindOf(store.ping()), 'unavailable');
    assert.equal(await kindOf(store.users.create({ name: 'refused' })), 'unavailable');
    await Promise.all(Array.from({ length: 10 }, () => store.users.get(1)));

    // The address moves. The sessions of the reads stay at the standby.
    forwarder.moveTo(server.port);
    await store.users.create({ name: 'through a new session' });
    await store.ping();

    const query = userQuery('limit=2');
    const { next: after = [] } = await store.users.list(query);
    const idempotency = { key: 'before', fingerprint: 'fingerprint' };
    const once = await store.users.create({ name: 'once' }, { idempotency });
    const load = startLoad(t, store);
    await until(async () => load.created.length > 200, 'the load runs', 60_000);
    await server.stop('immediate');
    const promotion = timed(standby.promote());
    forwarder.moveTo(standby.port);
    const { ms: promotionMs } = await promotion;
    const readyMs = await untilReady(store);
    const before = load.created.length;
    await until(async () => load.created.length > before, 'writes succeed');
    assert.deepEqual(await load.stop(), new Set(['unavailable']));

    await assertAllThere(store, load.created);
    const page = await store.users.list({ ...query, start: { after } });
    assert.deepEqual(page.items[0], { id: 3, name: 'user 2' });
    assert.deepEqual(await store.users.create({ name: 'once' }, { idempotency }), {
      ...once,
      replayed: true,
    });
    t.diagnostic(`promoted in ${promotionMs.toFixed()} ms, ready ${readyMs.toFixed()} ms later`);
  });
});
