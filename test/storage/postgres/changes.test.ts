import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, describe, it, type TestContext } from 'node:test';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { inspect } from 'node:util';
import pg from 'pg';
import type { Change } from '../../../src/domain/change.ts';
import { byKind } from '../../../src/domain/record.ts';
import type { ChangeFeed, Store } from '../../../src/domain/repository.ts';
import { PostgresPool } from '../../../src/storage/postgres/pool.ts';
import { maxUnbroken } from '../../../src/storage/postgres/settled.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { patient, startPostgres } from '../../kit/postgres.ts';
import { openSession, type Session } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { send } from '../../support/client.ts';
import { closeAfter } from '../../support/close-after.ts';
import { startService } from '../../support/service.ts';
import { preparedDatabases } from './prepared.ts';

const postgres = await startPostgres();
after(() => postgres.close());
const createDatabase = preparedDatabases(postgres);

interface Opened {
  readonly store: Store;
  readonly feed: ChangeFeed;
}

async function openAt(t: TestContext, url: string, options?: PostgresStoreOptions): Promise<Opened> {
  const store = closeAfter(t, await openPostgresStore(url, { ...patient, ...options }));
  const { changes: feed } = store;
  assert(feed, 'the store has no feed of changes');
  return { store, feed };
}

async function open(
  t: TestContext,
  options?: PostgresStoreOptions,
): Promise<Opened & { url: string; session: Session }> {
  const url = await createDatabase();
  const opened = await openAt(t, url, options);
  return { ...opened, url, session: await openSession(t, url) };
}

async function readAll(feed: ChangeFeed, from = 0): Promise<Change[]> {
  const { changes, next, more } = await feed.read({ after: from, limit: 1_000 });
  return more ? [...changes, ...(await readAll(feed, next))] : [...changes];
}

function namesOf(changes: readonly Change[]): string[] {
  return changes.map(({ record }) =>
    'name' in record ? record.name : 'title' in record ? record.title : '',
  );
}

/** Begins to create a user with the name `slow`. The write commits after `finish` is called. */
async function startSlowWrite({ store, session }: { store: Store; session: Session }) {
  await session.query(`
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql
      AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON changes DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (NEW.record->>'name' = 'slow') EXECUTE FUNCTION hold()`);
  await session.query('SELECT pg_advisory_lock(42)');
  const slow = store.users.create({ name: 'slow' });
  await session.untilBlocked(1);
  const finish = async () => {
    await session.query('SELECT pg_advisory_unlock(42)');
    await slow;
  };
  return { slow, finish };
}

/** The position of the oldest change that is kept. */
async function oldestOf(session: Session): Promise<number> {
  const [row] = await session.query<{ oldest: number }>('SELECT min(position)::int AS oldest FROM changes');
  return row?.oldest ?? 0;
}

/** Adds changes of the first user, as statements of another program. */
async function addChanges(session: Session, count: number): Promise<void> {
  await session.query(
    `INSERT INTO changes (type, user_id, record)
    SELECT 'user.updated', 1, record FROM changes, generate_series(1, ${count}) WHERE position = 1`,
  );
}

describe('the feed of changes of a PostgreSQL store', () => {
  it('does not return changes after a position that is not committed yet', async (t) => {
    const { store, feed, session, url } = await open(t);
    const other = await openAt(t, url);
    const { finish } = await startSlowWrite({ store, session });
    for (const name of ['a', 'b']) await other.store.users.create({ name });
    for (const { changes, position } of [
      { changes: await readAll(feed), position: await feed.position() },
      { changes: await readAll(other.feed), position: await other.feed.position() },
    ]) {
      assert.deepEqual(changes, []);
      assert.equal(position, 0);
    }
    await finish();
    for (const one of [feed, other.feed]) {
      assert.deepEqual(namesOf(await readAll(one)), ['slow', 'a', 'b']);
      assert.equal(await one.position(), 3);
    }
  });

  it('returns the changes that were settled before a transaction that stays open', async (t) => {
    const { store, feed, session } = await open(t);
    await store.users.create({ name: 'first' });
    assert.equal(await feed.position(), 1);
    const { finish } = await startSlowWrite({ store, session });
    await store.users.create({ name: 'last' });
    assert.deepEqual(namesOf(await readAll(feed)), ['first']);
    await finish();
    assert.deepEqual(namesOf(await readAll(feed)), ['first', 'slow', 'last']);
  });

  it('has the position of a process that is not behind after one read', async (t) => {
    // Without a write, nothing else reads the state of the feed.
    const { feed } = await open(t);
    const reads = t.mock.method(PostgresPool.prototype, 'reads');
    await feed.position();
    assert.equal(reads.mock.callCount(), 1);
  });

  it('has the position before a write that stays open, after which there are many changes', async (t) => {
    const { store, feed, session } = await open(t);
    await store.users.create({ name: 'first' });
    const { finish } = await startSlowWrite({ store, session });
    await addChanges(session, maxUnbroken + 1_000);
    assert.equal(await feed.position(), 1);
    await finish();
  });

  it('has the newest position at the third request to a process that was idle while a write failed and many followed', async (t) => {
    const { store, session, url } = await open(t);
    const idle = await openAt(t, url);
    await store.users.create({ name: 'first' });
    assert.equal(await idle.feed.position(), 1);
    await store.users.create({ name: 'second' });
    await session.query(`SELECT nextval('changes_position_seq')`);
    await addChanges(session, 1_000);
    for (let i = 0; i < 2; i += 1) assert.ok((await idle.feed.position()) <= 1_003);
    assert.equal(await idle.feed.position(), 1_003);
  });

  it('wakes its followers after a transaction that delayed changes has failed', async (t) => {
    const { store, feed, session } = await open(t);
    const { slow } = await startSlowWrite({ store, session });
    const read: string[] = [];
    const followed = Promise.withResolvers<void>();
    let reading: Promise<unknown> = Promise.resolve();
    const follow = async () => {
      const names = namesOf(await readAll(feed));
      read.splice(0, read.length, ...names);
      if (names.includes('last')) followed.resolve();
    };
    const stop = feed.watch(() => {
      reading = reading.then(follow);
    });
    await store.users.create({ name: 'last' });
    await readAll(feed);
    assert.deepEqual(read, []);
    const failing = assert.rejects(slow, { kind: 'deadline-exceeded' });
    await session.query(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'advisory'`);
    await failing;
    await followed.promise;
    stop();
    await reading;
    assert.deepEqual(read, ['last']);
  });

  it('orders the changes of a row by version even if the older transaction changed it last', async (t) => {
    const { store, feed, session, url } = await open(t);
    const older = await openAt(t, url, { applicationName: 'older' });
    await store.users.create({ name: 'Ada' });
    // A statement of the older transaction takes its transaction id, and then waits before it locks a row.
    await session.query(`
      CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS '
        BEGIN PERFORM txid_current(); PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
      CREATE TRIGGER hold BEFORE UPDATE ON users FOR EACH STATEMENT
        WHEN (current_setting('application_name') = 'older') EXECUTE FUNCTION hold()`);
    await session.query('SELECT pg_advisory_lock(42)');
    const updating = older.store.users.update(1, { name: 'by the older' });
    await session.untilBlocked(1);
    await store.users.update(1, { name: 'by the newer' });
    assert.deepEqual(namesOf(await readAll(feed)), ['Ada', 'by the newer']);
    await session.query('SELECT pg_advisory_unlock(42)');
    assert.equal((await updating)?.version, 3);
    const changes = await readAll(feed);
    const versions = changes.map(({ record }) => record.version);
    assert.deepEqual(versions, [1, 2, 3]);
    assert.deepEqual(namesOf(changes), ['Ada', 'by the newer', 'by the older']);
    const xids = await session.query<{ xmin: string }>('SELECT xmin FROM changes ORDER BY position');
    assert.ok(Number(xids[1]?.xmin) > Number(xids[2]?.xmin), 'the order of the transaction ids must differ');
  });

  it('is not delayed by a write that waits for a row, or by other transactions', async (t) => {
    const { store, feed, session, url } = await open(t);
    await store.users.create({ name: 'Ada' });
    const blocker = await openSession(t, url);
    await blocker.query('BEGIN');
    await blocker.query('SELECT FROM users WHERE id = 1 FOR UPDATE');
    await blocker.query('CREATE TABLE other (id serial); INSERT INTO other DEFAULT VALUES');
    const waiting = store.users.update(1, { name: 'Eve' });
    await session.untilBlocked(1);
    await store.users.create({ name: 'Bob' });
    assert.deepEqual(namesOf(await readAll(feed)), ['Ada', 'Bob']);
    await blocker.query('ROLLBACK');
    await waiting;
    assert.deepEqual(namesOf(await readAll(feed)), ['Ada', 'Bob', 'Eve']);
  });

  for (const [what, place, text] of [
    ['a write to a copy of its database', 'copy', `SELECT nextval('changes_position_seq')`],
    ['a backup of its sequence', 'database', 'SELECT FROM changes_position_seq'],
  ] as const) {
    it(`is not delayed by ${what} after a write has failed`, async (t) => {
      const database = await postgres.createDatabase();
      await (await openPostgresStore(database)).close();
      const name = new URL(database).pathname.slice(1);
      // The sequence of a copy has the same id.
      await postgres.server.query(`CREATE DATABASE ${name}_copy TEMPLATE ${name}`);
      const copy = postgres.server.url(`${name}_copy`);
      const other = await openSession(t, { database, copy }[place]);
      await other.query(`BEGIN; ${text}`);
      const { store, feed } = await openAt(t, database);
      await (await openSession(t, database)).query(`SELECT nextval('changes_position_seq')`);
      await store.users.create({ name: 'Ada' });
      assert.equal(await feed.position(), 2);
    });
  }

  it('is not delayed by a session that waits for its sequence behind a backup', async (t) => {
    const { store, session, url } = await open(t);
    await session.query(`SELECT nextval('changes_position_seq')`);
    await store.users.create({ name: 'Ada' });
    await session.query('BEGIN; SELECT FROM changes_position_seq');
    const other = await openSession(t, url);
    const waiting = other.query(`SET application_name = ''; ALTER SEQUENCE changes_position_seq SET LOGGED`);
    await session.untilBlocked(1);
    const { feed } = await openAt(t, url);
    assert.equal(await feed.position(), 2);
    await session.query('ROLLBACK');
    await waiting;
  });

  it('contains the last version of every post that the deletion of a user removes', async (t) => {
    const { store, feed, session, url } = await open(t);
    await store.users.create({ name: 'Ada' });
    for (const title of ['one', 'two']) await store.posts(1).create({ title, body: '' });
    const writer = await openSession(t, url);
    await writer.query('BEGIN');
    await writer.query('SELECT FROM users WHERE id = 1 FOR KEY SHARE');
    await writer.query(`INSERT INTO posts (user_id, title, body) VALUES (1, 'late', '')`);
    await writer.query(`UPDATE posts SET title = 'changed', version = 2 WHERE id = 2`);
    const deleting = store.users.delete(1);
    await session.untilBlocked(1);
    await writer.query('COMMIT');
    assert.equal(await deleting, true);
    const deleted = (await readAll(feed)).slice(3);
    const shown = deleted.map(({ type, record }) => `${type} ${record.id}, version ${record.version}`);
    const posts = [1, 2, 3].map((id) => `post.deleted ${id}, version ${id === 2 ? 2 : 1}`);
    assert.deepEqual(shown, [...posts, 'user.deleted 1, version 1']);
    assert.deepEqual(namesOf(deleted), ['one', 'changed', 'late', 'Ada']);
  });

  it('returns each change exactly once to a client that continues to read', async (t) => {
    const { store, feed, session, url } = await open(t);
    const other = await openAt(t, url);
    // Delay commits at random, so that their order differs from the order of positions.
    await session.query(`
      CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_sleep(random() * 0.02); RETURN NULL; END';
      CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON changes DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION linger()`);
    let isWriting = true;
    const follow = async (one: ChangeFeed): Promise<Change[]> => {
      const read: Change[] = [];
      for (let isLast = false; !isLast; ) {
        isLast = !isWriting;
        const changes = await readAll(one, read.at(-1)?.position);
        read.push(...changes);
        await delay(1);
      }
      return read;
    };
    const following = Promise.all([follow(feed), follow(other.feed), follow(feed)]);
    const write = async (i: number): Promise<void> => {
      const { store: mine } = i % 2 === 0 ? { store } : other;
      const { value } = await mine.users.create({ name: `${i}` });
      for (let n = 0; n < 5; n += 1) await mine.users.update(1 + (n % 3), { name: `${i}.${n}` });
      await mine.posts(value.id).create({ title: `${i}`, body: '' });
      if (i % 3 === 0) await mine.users.delete(value.id);
    };
    await store.users.create({ name: 'first' });
    await Promise.all(Array.from({ length: 30 }, (_, i) => write(i)));
    isWriting = false;
    const rows = await session.query<{ position: string }>('SELECT position FROM changes ORDER BY position');
    const kept = rows.map(({ position }) => Number(position));
    for (const changes of await following) {
      const positions = changes.map(({ position }) => position);
      assert.deepEqual(positions, kept);
    }
  });

  it('wakes followers after writes of other processes, until they leave', async (t) => {
    const { store, url } = await open(t);
    const [left, stays] = [await openAt(t, url), await openAt(t, url)];
    let wakes = 0;
    const follow = ({ feed }: Opened, name: string) =>
      new Promise<void>((resolve) => {
        const stop = feed.watch(async () => {
          wakes += 1;
          if (!namesOf(await readAll(feed)).includes(name)) return;
          stop();
          resolve();
        });
      });
    const following = follow(left, 'Ada');
    await store.users.create({ name: 'Ada' });
    await following;
    wakes = 0;
    left.feed.watch(() => assert.fail('the follower has left'))();
    const later = follow(stays, 'Bob');
    await store.users.create({ name: 'Bob' });
    await left.store.users.create({ name: 'Eve' });
    await later;
    assert.ok(wakes > 0);
  });

  it('has exact positions and times with any extra_float_digits of the database', async (t) => {
    const url = await createDatabase();
    const session = await openSession(t, url);
    await session.alterDatabase('SET extra_float_digits = -15');
    const { store, feed } = await openAt(t, url);
    await session.query(`SELECT setval('changes_position_seq', 123455)`);
    const before = Date.now() - 1_000;
    await store.users.create({ name: 'Ada' });
    const { changes, next } = await feed.read({ after: 0, limit: 1 });
    assert.deepEqual([changes[0]?.position, next, await feed.position()], [123_456, 123_456, 123_456]);
    assert.ok(Date.parse(changes[0]?.time ?? '') >= before, `${changes[0]?.time}`);
  });

  it('has the times of changes with any DateStyle of the database', async (t) => {
    const url = await createDatabase();
    const session = await openSession(t, url);
    await session.alterDatabase("SET datestyle = 'German, DMY'");
    const before = Date.now() - 1_000;
    const { store, feed } = await openAt(t, url);
    await store.users.create({ name: 'Ada' });
    const [change] = (await feed.read({ after: 0, limit: 1 })).changes;
    assert.ok(Date.parse(change?.time ?? '') >= before, `${change?.time}`);
  });

  it('is right although the host has replaced the parsers of the driver', async (t) => {
    for (const type of [16, 20, 23, 114, 1184]) {
      const parse = pg.types.getTypeParser(type);
      pg.types.setTypeParser(type, (text) => text);
      t.after(() => pg.types.setTypeParser(type, parse));
    }
    const { store, feed } = await open(t);
    const { value } = await store.users.create({ name: 'Ada' });
    assert.deepEqual(value, { id: value.id, name: 'Ada', version: 1 });
    assert.deepEqual(await store.users.get(value.id), value);
    const [change] = (await feed.read({ after: 0, limit: 1 })).changes;
    assert.deepEqual([change?.position, change?.record], [1, value]);
    assert.equal(new Date(change?.time ?? '').toISOString(), change?.time);
  });

  it('removes old changes in steps, and keeps the newest', async (t) => {
    const url = await createDatabase();
    const stores = [await openAt(t, url, { changesKept: 50 }), await openAt(t, url, { changesKept: 50 })];
    const names = Array.from({ length: 1_000 }, (_, i) => `${i}`);
    await Promise.all(names.map((name, i) => stores[i % 2]?.store.users.create({ name })));
    // While writes were running, the changes after theirs were kept. The next steps come after 50 more each.
    for (let i = 0; i < 100; i += 1) await stores[0]?.store.users.create({ name: `later ${i}` });
    for (const { feed } of stores) {
      const last = await feed.position();
      assert.equal((await readAll(feed, last - 50)).length, 50);
      await assert.rejects(feed.read({ after: 0, limit: 1 }), {
        kind: 'gone',
        message: /the changes after 0 are not kept, only those from \d+ on: /,
      });
    }
    const session = await openSession(t, url);
    await t.waitFor(
      async () => {
        const [row] = await session.query<{ count: string }>('SELECT count(*) FROM changes');
        assert.ok(Number(row?.count) < 200, `${row?.count} are left`);
      },
      { timeout: 10_000 },
    );
  });

  it('removes old changes after the first write of a process, which may write no more', async (t) => {
    const url = await createDatabase();
    const before = await openAt(t, url, { changesKept: 1_000 });
    for (let i = 0; i < 20; i += 1) await before.store.users.create({ name: `${i}` });
    // While it is removing changes, no other process does.
    await before.store.close();
    const { store, feed } = await openAt(t, url, { changesKept: 5 });
    await store.users.create({ name: 'the only one' });
    const isTrimmed = () => assert.rejects(feed.read({ after: 0, limit: 1 }), { kind: 'gone' });
    await t.waitFor(isTrimmed, { timeout: 10_000 });
    assert.equal((await readAll(feed, 16)).length, 5);
  });

  it('leaves the removal of old changes to a process that is already removing some', async (t) => {
    const { store, session, url } = await open(t);
    const other = await openSession(t, url);
    await other.query('BEGIN; SELECT FROM change_feed FOR UPDATE');
    await store.users.create({ name: 'Ada' });
    const ended = `SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE '%WITH turn AS%' AND state = 'idle'`;
    const hasEnded = async () => (await session.query(ended)).length > 0;
    await until(hasEnded, 'the removal does not wait for the other');
  });

  it('does not read removed changes again while an old snapshot keeps their rows', async (t) => {
    const { store, session, url } = await open(t, { changesKept: 1 });
    await session.query(
      `INSERT INTO changes (type, user_id, record) SELECT 'user.updated', 1, '{}' FROM generate_series(1, 10000)`,
    );
    const backup = await openSession(t, url);
    await backup.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM changes LIMIT 1');
    let gone = 0;
    for (let trims = 0; trims < 20; trims += 1) {
      await until(async () => {
        const before = gone;
        await store.users.create({ name: 'Ada' });
        const [row] = await session.query<{ gone: number }>('SELECT gone::int FROM change_feed');
        gone = row?.gone ?? 0;
        return gone > before;
      }, 'old changes are removed');
    }
    assert.ok(gone > 10_000);
    // Sessions report their statistics at the latest when they end.
    await store.close();
    await until(async () => (await session.backends()).length === 0, 'the sessions of the store end');
    const [row] = await session.query<{ entries: number }>(
      `SELECT idx_tup_read::int AS entries FROM pg_stat_user_indexes WHERE indexrelname = 'changes_pkey'`,
    );
    assert.ok(row !== undefined && row.entries > 10_000 && row.entries < 100_000, `${row?.entries} entries`);
  });

  it('removes old changes again after a failover to a server that has not removed them', async (t) => {
    const { store, session } = await open(t, { changesKept: 1 });
    const isTrimmed = (below: number) => async () => {
      await store.users.create({ name: 'Ada' });
      return (await oldestOf(session)) > below;
    };
    await until(isTrimmed(20), 'old changes are removed');
    // A removal that runs meanwhile would see the lower `gone`, but not yet the rows.
    await session.query(`
      LOCK TABLE change_feed;
      UPDATE change_feed SET gone = 5;
      INSERT INTO changes (position, type, user_id, record) OVERRIDING SYSTEM VALUE
        SELECT i, 'user.updated', 1, '{}' FROM generate_series(6, 10) AS i`);
    await until(isTrimmed(10), 'they are removed again');
  });

  it('removes the changes from before an import in steps, and all of them stay gone', async (t) => {
    const url = await postgres.createDatabase();
    await (await openPostgresStore(url)).close();
    const session = await openSession(t, url);
    await session.query(`
      INSERT INTO changes (type, user_id, record) SELECT 'user.updated', 1, '{}' FROM generate_series(1, 3000);
      UPDATE change_feed SET gone = nextval('changes_position_seq')`);
    const { store } = await openAt(t, url, { changesKept: 1 });
    await store.users.create({ name: 'Ada' });
    const state = 'SELECT gone::int, (SELECT min(position)::int FROM changes) AS oldest FROM change_feed';
    const read = async () => (await session.query<{ gone: number; oldest: number }>(state))[0];
    await until(async () => (await read())?.oldest === 2_001, 'the first step has ended');
    assert.equal((await read())?.gone, 3_001);
  });

  it('works although its table has a second row, as after a dump was restored into existing tables', async (t) => {
    const { store, feed, session, url } = await open(t);
    for (const name of ['a', 'b', 'c', 'd']) await store.users.create({ name });
    await session.query(`
      DELETE FROM changes WHERE position <= 2;
      DELETE FROM change_feed;
      INSERT INTO change_feed VALUES (0, true), (2, true)`);
    for (const after of [0, 1]) await assert.rejects(feed.read({ after, limit: 1 }), { kind: 'gone' });
    assert.deepEqual(namesOf(await readAll(feed, 2)), ['c', 'd']);
    const failures: Error[] = [];
    const trimming = await openAt(t, url, { changesKept: 1, onFailure: (error) => failures.push(error) });
    await until(async () => {
      await trimming.store.users.create({ name: 'e' });
      return failures.length > 0 || (await oldestOf(session)) > 4;
    }, 'old changes are removed');
    assert.deepEqual(failures, []);
  });

  it('starts anew although only its second row says that it misses changes', async (t) => {
    const { store, url, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    await session.query('INSERT INTO change_feed VALUES (0, false)');
    const { feed } = await openAt(t, url);
    await assert.rejects(feed.read({ after: 1, limit: 1 }), { kind: 'gone' });
  });

  it('reports that old changes cannot be removed, and the write succeeds', async (t) => {
    const url = await createDatabase();
    const session = await openSession(t, url);
    const options = { database: url, changesKept: 1, expectFailures: true };
    const { service, http, failures } = await startService(t, options);
    await session.query(`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no space''; END';
      CREATE TRIGGER fail BEFORE DELETE ON changes EXECUTE FUNCTION fail()`);
    assert.equal((await send(http, 'POST /users', { json: { name: 'Ada' } })).status, 201);
    await until(() => failures().length > 0, 'a failure is reported');
    const [failure] = failures();
    assert.equal(failure?.where, 'store');
    assert.match(inspect(failure?.cause), /^Error: old changes or keys could not be removed[\s\S]*no space/);
    assert.match(service.metrics(), /^users_service_store_failures_total 1$/m);
  });

  it('reports no failure if the store is closed while it removes old changes', async (t) => {
    const reported: Error[] = [];
    const { store } = await open(t, { onFailure: (cause) => reported.push(cause) });
    await store.users.create({ name: 'Ada' });
    await store.close();
    await nextTurn();
    assert.deepEqual(reported, []);
  });

  it('keeps the position of a write that still runs, however many follow', async (t) => {
    const { store, feed, session } = await open(t, { changesKept: 5 });
    const { finish } = await startSlowWrite({ store, session });
    const position = await feed.position();
    for (let i = 0; i < 40; i += 1) await store.users.create({ name: `${i}` });
    const [row] = await session.query<{ gone: number }>('SELECT gone::float8 FROM change_feed');
    assert.ok(Number(row?.gone) <= position, 'the change of the slow write would be missed');
    await finish();
  });

  it('restarts at an import only after the running writes of all kinds', async (t) => {
    const { store, feed, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    const { finish } = await startSlowWrite({ store, session });
    const imported = store.importRows('posts', [{ id: 1, userId: 1, title: 'a', body: '', version: 1 }]);
    await session.untilBlocked(2);
    assert.equal(await feed.position(), 1);
    await Promise.all([finish(), imported]);
    await assert.rejects(feed.read({ after: 1, limit: 1 }), { kind: 'gone' });
  });

  it('ids are raised only after the running writes of all kinds', async (t) => {
    const { store, feed, session } = await open(t);
    const { finish } = await startSlowWrite({ store, session });
    const raised = store.continueIds({ ...byKind(() => 0), posts: 5 });
    await session.untilBlocked(2);
    await Promise.all([finish(), raised]);
    await assert.rejects(feed.read({ after: 0, limit: 1 }), { kind: 'gone' });
  });

  it('leaves out the changes of a newer release, whose types it does not know', async (t) => {
    const { store, feed, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    await session.query(`INSERT INTO changes (type, record, user_id) VALUES ('unknown', '{"id": 1}', 1)`);
    await store.users.create({ name: 'Bob' });
    const all = await readAll(feed);
    assert.deepEqual(namesOf(all), ['Ada', 'Bob']);
    const after = all[0]?.position ?? 0;
    const { changes, next } = await feed.read({ after, limit: 1 });
    assert.deepEqual({ changes, next }, { changes: [], next: after + 1 });
  });

  it('is gone at every earlier position after the SQL of the documentation for a restore', async (t) => {
    const { store, feed, session } = await open(t);
    for (const name of ['a', 'b']) await store.users.create({ name });
    const text = readFileSync(new URL('../../../src/storage/README.md', import.meta.url), 'utf8');
    const [, sql = ''] = /```sql\n(SELECT setval\('changes[^`]*)```/.exec(text) ?? [];
    await session.query(sql);
    await store.users.create({ name: 'c' });
    // Before the backup, at it, and after it.
    for (const after of [1, 2, 3, 1_000]) {
      await assert.rejects(feed.read({ after, limit: 1 }), { kind: 'gone' });
    }
    await store.users.create({ name: 'd' });
    assert.deepEqual(namesOf(await readAll(feed, (await feed.position()) - 1)), ['d']);
  });

  it('rolls an import back if it cannot restart', async (t) => {
    const { store, session } = await open(t);
    await session.query('ALTER TABLE change_feed ADD CHECK (gone = 0)');
    const imported = store.importRows('users', [{ id: 5, name: 'Eve', version: 1 }]);
    await assert.rejects(imported, { kind: 'internal' });
    assert.equal(await store.users.get(5), undefined);
  });

  it('starts anew after an import, and after writes of a store without a feed', async (t) => {
    const { store, feed, url } = await open(t);
    await store.users.create({ name: 'Ada' });
    await store.importRows('users', [{ id: 5, name: 'Eve', version: 1 }]);
    await assert.rejects(feed.read({ after: 1, limit: 1 }), { kind: 'gone' });
    const imported = await feed.position();
    const page = await feed.read({ after: imported, limit: 1 });
    assert.deepEqual(page, { changes: [], next: imported, more: false });
    await store.importRows('users', [{ id: 5, name: 'Eve', version: 1 }]);
    assert.equal(await feed.position(), imported, 'the position must not change without a write');
    const without = closeAfter(t, await openPostgresStore(url, { changesKept: 0 }));
    assert.equal(without.changes, undefined);
    await without.users.create({ name: 'unseen' });
    const source = await openPostgresStore(url, { mustExist: true });
    const seen = (await source.changes?.position()) ?? 0;
    await source.close();
    await without.users.create({ name: 'unseen too' });
    const again = await openAt(t, url);
    for (const after of [imported, seen])
      await assert.rejects(again.feed.read({ after, limit: 1 }), { kind: 'gone' });
    assert.equal(await again.feed.position(), imported + 1);
    const onceMore = await openAt(t, url);
    const position = await onceMore.feed.position();
    assert.equal(position, imported + 1, 'the feed must continue if no write was missed');
  });

  for (const [mode, write] of [
    ['off', ({ users }: Store) => users.create({ name: 'unseen' })],
    ['on', ({ posts }: Store) => posts(1).create({ title: 'unseen', body: '' })],
  ] as const) {
    it(`starts anew although it was switched ${mode} while the server took no writes`, async (t) => {
      const { store, feed, url, session } = await open(t);
      await store.users.create({ name: 'Ada' });
      const position = await feed.position();
      const takeWrites = (isTaking: boolean) =>
        session.alterDatabase(`SET default_transaction_read_only = ${!isTaking}`);
      if (mode === 'off') await takeWrites(false);
      const without = closeAfter(t, await openPostgresStore(url, { ...patient, changesKept: 0 }));
      if (mode === 'off') await takeWrites(true);
      await write(without);
      if (mode === 'on') await takeWrites(false);
      const again = await openAt(t, url);
      if (mode === 'on') await takeWrites(true);
      await write(again.store);
      await assert.rejects(again.feed.read({ after: position, limit: 1 }), { kind: 'gone' });
      // Only the first write after the start may restart the feed.
      const first = await again.feed.position();
      await again.store.users.create({ name: 'seen' });
      assert.equal(namesOf(await readAll(again.feed, first)).at(-1), 'seen');
    });
  }

  it('allows writes by the previous release', async (t) => {
    const { store, feed, session } = await open(t);
    const { value } = await store.users.create({ name: 'Ada' });
    await session.query(`INSERT INTO users (name, role) SELECT 'old', '' RETURNING id, name, role, version`);
    await session.query(`INSERT INTO posts (user_id, title, body) VALUES (1, 'old', '')`);
    await session.query('DELETE FROM users WHERE id = 1 RETURNING id');
    assert.equal(await store.users.get(value.id), undefined);
    assert.equal(await store.posts(1).get(1), undefined);
    assert.deepEqual(namesOf(await readAll(feed)), ['Ada']);
  });

  it('reports that its table has lost its row', async (t) => {
    const { feed, session } = await open(t);
    await session.query('DELETE FROM change_feed');
    await assert.rejects(feed.position(), { message: 'the table change_feed has no row' });
  });

  it('starts anew if its table has no row at the start, as after a restore without the rows of the feed', async (t) => {
    const { store, url, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    await session.query('TRUNCATE changes, change_feed');
    const { feed, store: next } = await openAt(t, url);
    await assert.rejects(feed.read({ after: 1, limit: 1 }), { kind: 'gone' });
    const position = await feed.position();
    await next.users.create({ name: 'Eve' });
    assert.deepEqual(namesOf(await readAll(feed, position)), ['Eve']);
    assert.equal((await session.query('SELECT FROM change_feed')).length, 1);
  });

  it('adds its missing row once if it must not change the database at the start', async (t) => {
    const { url, session } = await open(t);
    await session.query('TRUNCATE change_feed');
    const { store } = await openAt(t, url, { mustExist: true });
    await store.users.create({ name: 'Ada' });
    await store.posts(1).create({ title: 'title', body: '' });
    assert.equal((await session.query('SELECT FROM change_feed')).length, 1);
  });

  it('need not have its table of changes for an export', async (t) => {
    const { store, url, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    await session.query('DROP TABLE changes');
    const source = closeAfter(t, await openPostgresStore(url, { mustExist: true }));
    assert.equal((await source.summary()).users.count, 1);
  });

  it('is refused at the start if sessions take its positions in blocks, which readers would miss', async (t) => {
    const { url, session } = await open(t);
    await session.query('ALTER SEQUENCE changes_position_seq CACHE 2');
    const message =
      /: the sequence changes_position_seq has CACHE 2, so readers would miss changes: set CACHE 1$/;
    await assert.rejects(openPostgresStore(url), { message });
    const source = closeAfter(t, await openPostgresStore(url, { mustExist: true }));
    assert.equal((await source.summary()).users.count, 0, 'an export is possible');
    await assert.rejects(source.users.create({ name: 'Ada' }), (error) => /CACHE 2/.test(inspect(error)));
    const store = await openPostgresStore(url, { changesKept: 0 });
    await store.close();
    await session.query('ALTER SEQUENCE changes_position_seq CACHE 1');
    await openAt(t, url);
  });

  it('examines a bounded number of positions for a filter', async (t) => {
    const { store, feed, session } = await open(t);
    await session.query(`
      INSERT INTO changes (type, user_id, record)
      SELECT 'user.updated', 7, '{"id": 7, "name": "x", "role": "", "version": 1}' FROM generate_series(1, 10500)`);
    await store.users.create({ name: 'Ada' });
    const query = { limit: 10, types: ['user.created'] } as const;
    const first = await feed.read({ ...query, after: 0 });
    assert.deepEqual(first, { changes: [], next: 10_000, more: true });
    const second = await feed.read({ ...query, after: first.next });
    assert.deepEqual(namesOf(second.changes), ['Ada']);
    assert.deepEqual([second.next, second.more], [10_501, false]);
  });
});
