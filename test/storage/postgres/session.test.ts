import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { after, describe, it, type TestContext } from 'node:test';
import { keyed } from '../../../src/conformance/fixture.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { openTestPostgres, startPostgres } from '../../kit/postgres.ts';
import { openSession, type Session } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { failuresOfMicrotasks } from '../microtasks.ts';

const postgres = await openTestPostgres();
after(() => postgres.close());

/** Notes the settings of each session that creates a user. Returns a function that reads them. */
async function noteSettings({ query }: Session) {
  await query(`
    CREATE TABLE seen (synchronous_commit text, statement_timeout text, lock_timeout text, idle text, work_mem text,
      keepalives text);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO seen VALUES (
          current_setting('synchronous_commit'), current_setting('statement_timeout'), current_setting('lock_timeout'),
          current_setting('idle_in_transaction_session_timeout'), current_setting('work_mem'),
          concat_ws(', ', current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'),
            current_setting('tcp_user_timeout')));
        RETURN NEW;
      END $$;
    CREATE TRIGGER note BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION note()`);
  return async () => (await query<Record<string, string>>('DELETE FROM seen RETURNING *')).at(-1);
}

/** The settings of the sessions of a store, in a database with other defaults. */
async function settingsOfWrites(t: TestContext, own: Readonly<Record<string, string>>) {
  const url = await postgres.createDatabase();
  const admin = await openSession(t, url);
  const name = new URL(url).pathname.slice(1);
  for (const [setting, value] of Object.entries(own)) {
    await admin.query(`ALTER DATABASE ${name} SET ${setting} = ${value}`);
  }
  const warnings: string[] = [];
  const onWarning = (message: string) => warnings.push(message);
  const store = await openPostgresStore(url, { lockTimeoutMs: 1_234, statementTimeoutMs: 4_321, onWarning });
  t.after(() => store.close());
  const seen = await noteSettings(admin);
  await store.users.create({ name: 'Ada' });
  return { seen: await seen(), warnings };
}

describe('a session of a PostgreSQL store', () => {
  it('commits durably, has timeouts and notices a lost client with any defaults of the database', async (t) => {
    const own = { synchronous_commit: 'off', lock_timeout: '0', tcp_keepalives_idle: '7200' };
    const { seen } = await settingsOfWrites(t, own);
    assert.deepEqual(seen, {
      synchronous_commit: 'on',
      statement_timeout: '4321ms',
      lock_timeout: '1234ms',
      idle: '10s',
      work_mem: '4MB',
      keepalives: '30, 10, 60000',
    });
  });

  it('commits durably after a reload of the configuration has turned it off', async (t) => {
    const { createDatabase, server, close } = await startPostgres();
    t.after(close);
    const url = await createDatabase();
    const store = closeAfter(t, await openPostgresStore(url, { poolSize: 1 }));
    const seen = await noteSettings(await openSession(t, url));
    await store.users.create({ name: 'Ada' });
    assert.equal((await seen())?.['synchronous_commit'], 'on');
    for (const sql of ['synchronous_commit = off', "work_mem = '5MB'"]) {
      await server.query(`ALTER SYSTEM SET ${sql}`);
    }
    await server.query('SELECT pg_reload_conf()');
    let settings: Record<string, string> | undefined;
    await until(async () => {
      await store.users.create({ name: 'Bob' });
      settings = await seen();
      return settings?.['work_mem'] === '5MB';
    }, 'the session has the reloaded configuration');
    assert.equal(settings?.['synchronous_commit'], 'on');
  });

  it('keeps a stronger durability of the database', async (t) => {
    const { seen } = await settingsOfWrites(t, { synchronous_commit: 'remote_apply' });
    assert.equal(seen?.['synchronous_commit'], 'remote_apply');
  });

  it('opens and closes while a test of the host mocks its timers', async (t) => {
    const url = await postgres.createDatabase();
    // As in Vitest and Jest: not disposable.
    t.mock.method(globalThis, 'setTimeout', () => ({ unref() {} }));
    const store = closeAfter(t, await openPostgresStore(url, { poolSize: 1 }));
    assert.equal((await store.users.create({ name: 'Ada' })).value.id, 1);
  });

  it('migrates without limits, and waits briefly for the locks of tables', async (t) => {
    const url = await postgres.createDatabase();
    const admin = await openSession(t, url);
    await admin.query(`
      DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET transaction_timeout = 60000', current_database());
      EXCEPTION WHEN undefined_object THEN -- PostgreSQL 16 and older
      END $$`);
    await admin.query(`
      CREATE SCHEMA watch;
      CREATE TABLE watch.seen (statement_timeout text, transaction_timeout text, lock_timeout text);
      CREATE FUNCTION watch.note() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
          INSERT INTO watch.seen VALUES (current_setting('statement_timeout'),
            COALESCE(current_setting('transaction_timeout', true), '0'), current_setting('lock_timeout'));
        END $$;
      CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION watch.note()`);
    await (await openPostgresStore(url, { lockTimeoutMs: 1_234, statementTimeoutMs: 4_321 })).close();
    const seen = await admin.query('SELECT DISTINCT * FROM watch.seen ORDER BY lock_timeout');
    const unlimited = { statement_timeout: '0', transaction_timeout: '0' };
    assert.deepEqual(seen, [
      { ...unlimited, lock_timeout: '0' },
      { ...unlimited, lock_timeout: '500ms' },
    ]);
  });

  it('ignores a warning of a trigger', async (t) => {
    const url = await postgres.createDatabase();
    const store = closeAfter(t, await openPostgresStore(url));
    await (await openSession(t, url)).query(`
      CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          RAISE WARNING 'a user was created';
          RETURN NEW;
        END $$;
      CREATE TRIGGER warn BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION warn()`);
    assert.equal((await store.users.create({ name: 'Ada' })).value.id, 1);
  });

  it('prepares its statements again after the type of a column has changed', async (t) => {
    const url = await postgres.createDatabase();
    const store = closeAfter(t, await openPostgresStore(url, { poolSize: 2 }));
    const { value } = await store.users.create({ name: 'Ada' });
    // Both connections prepare the read.
    await Promise.all([store.users.get(1), store.users.get(1)]);
    await (await openSession(t, url)).query('ALTER TABLE users ALTER name TYPE varchar(200)');
    for (let i = 0; i < 3; i += 1) assert.deepEqual(await store.users.get(1), value);
  });

  it('sends a write again after the type of a column has changed', async (t) => {
    const url = await postgres.createDatabase();
    const store = closeAfter(t, await openPostgresStore(url, { poolSize: 1, changesKept: 0 }));
    for (const name of ['Ada', 'Bob']) await store.users.create({ name });
    assert.equal(await store.users.delete(1), true);
    await (await openSession(t, url)).query('ALTER TABLE users ALTER name TYPE varchar(200)');
    assert.equal(await store.users.delete(2), true);
  });

  it('returns whole records after the columns with JSON have been converted to jsonb', async (t) => {
    const url = await postgres.createDatabase();
    const store = closeAfter(t, await openPostgresStore(url, { poolSize: 1 }));
    const admin = await openSession(t, url);
    await admin.query('ALTER TABLE changes ALTER record TYPE jsonb');
    await admin.query('ALTER TABLE idempotency_keys ALTER response TYPE jsonb');
    const ada = { id: 1, name: 'Ada', role: 'admin', version: 1 };
    for (const replayed of [false, true]) {
      const created = await store.users.create({ name: 'Ada', role: 'admin' }, keyed('key'));
      assert.deepEqual(created, { value: ada, replayed });
    }
    assert.deepEqual(await store.users.update(1, { name: 'Eva' }), { ...ada, name: 'Eva', version: 2 });
    const { changes = [] } = (await store.changes?.read({ after: 0, limit: 1 })) ?? {};
    assert.deepEqual(changes[0]?.record, ada);
  });

  it('deletes users with posts after a column that an operator added has been dropped', async (t) => {
    const url = await postgres.createDatabase();
    const admin = await openSession(t, url);
    const store = closeAfter(t, await openPostgresStore(url, { poolSize: 1 }));
    await admin.query('ALTER TABLE posts ADD note text');
    for (const id of [1, 2]) {
      await store.users.create({ name: 'Ada' });
      await store.posts(id).create({ title: 'title', body: '' });
    }
    assert.equal(await store.users.delete(1), true);
    await admin.query('ALTER TABLE posts DROP note');
    assert.equal(await store.users.delete(2), true);
  });

  it('warns once about a server that does not sync its files', async (t) => {
    const { warnings } = await settingsOfWrites(t, {});
    // The servers of the tests trade durability for speed.
    assert.deepEqual(warnings, [
      'PostgreSQL runs with fsync = off: a crash can damage the database',
      'PostgreSQL runs with full_page_writes = off: a crash can damage the database',
    ]);
  });

  it('has TCP probes, so that the network does not forget it while it is idle', async (t) => {
    const { mock } = t.mock.method(Socket.prototype, 'setKeepAlive');
    const store = await openPostgresStore(await postgres.createDatabase());
    await store.close();
    assert.deepEqual(mock.calls[0]?.arguments, [true, 10_000]);
  });

  it('opens although the function that receives the warnings fails', async (t) => {
    const failures = failuresOfMicrotasks(t);
    const failure = new Error('warnings cannot be received');
    const onWarning = () => {
      throw failure;
    };
    const store = await openPostgresStore(await postgres.createDatabase(), { onWarning });
    await store.close();
    assert.deepEqual([...failures], [failure]);
  });
});

it('a PostgreSQL store keeps an idempotency key for idempotencyTtlMs', async (t) => {
  const url = await postgres.createDatabase();
  const store = closeAfter(t, await openPostgresStore(url, { idempotencyTtlMs: 1_000_000_000 }));
  await store.users.create({ name: 'Ada' }, keyed('key'));
  const session = await openSession(t, url);
  const [row] = await session.query<{ s: number }>(
    'SELECT extract(epoch FROM expires_at - now())::int AS s FROM idempotency_keys',
  );
  assert.ok(row && row.s > 990_000 && row.s <= 1_000_000, `${row?.s} s`);
});
