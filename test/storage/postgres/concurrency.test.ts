import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import { inspect } from 'node:util';
import { keyed } from '../../../src/conformance/fixture.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { openTestPostgres, patient } from '../../kit/postgres.ts';
import { openSession, type Session } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { storesOf } from './prepared.ts';

const postgres = await openTestPostgres();
after(() => postgres.close());
const open = storesOf(postgres);

it('a store that waits for another process to migrate the schema reports it, unlike the one that migrates', async (t) => {
  const url = await postgres.createDatabase();
  const session = await openSession(t, url);
  // Its snapshots would hide what another process has migrated in the meantime.
  await session.alterDatabase("SET default_transaction_isolation = 'repeatable read'");
  await session.query('BEGIN; CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL)');
  const warnings: string[][] = [[], []];
  const opened = warnings.map((list) => openPostgresStore(url, { onWarning: (text) => list.push(text) }));
  for (const store of opened) t.after(async () => (await store).close());
  await session.untilBlocked(2);
  await session.query('ROLLBACK');
  await Promise.all(opened);
  assert.deepEqual(warnings.map((list) => list.filter((text) => /migrates the schema/.test(text))).sort(), [
    [],
    ['waits for another process that migrates the schema'],
  ]);
});

describe('two stores with one database', () => {
  async function openTwo(t: TestContext): Promise<[Store, Store, string]> {
    const { store, url } = await open(t, patient);
    const other = closeAfter(t, await openPostgresStore(url, patient));
    return [store, other, url];
  }

  it('accept exactly one of many changes to a version', async (t) => {
    const stores = await openTwo(t);
    const { value } = await stores[0].users.create({ name: 'original' });
    for (let version = value.version; version < 10; version += 1) {
      const results = await Promise.allSettled(
        Array.from({ length: 10 }, (_, i) => {
          const store = i % 2 === 0 ? stores[0] : stores[1];
          return store.users.update(1, { name: `${version}.${i}` }, { expected: [version] });
        }),
      );
      const made = results.filter((result) => result.status === 'fulfilled');
      assert.equal(made.length, 1);
      assert.equal(made[0]?.value?.version, version + 1);
      for (const result of results) {
        if (result.status === 'rejected')
          assert.equal(DomainError.from(result.reason).kind, 'precondition-failed');
      }
    }
  });

  it('create one user for many requests with one key', async (t) => {
    const stores = await openTwo(t);
    const idempotency = { key: 'key', fingerprint: 'fingerprint' };
    const ids = new Set<number>();
    const create = async (store: Store): Promise<number> => {
      const { value, replayed } = await store.users.create({ name: 'once' }, { idempotency });
      ids.add(value.id);
      return replayed ? 0 : 1;
    };
    const calls = Array.from({ length: 40 }, (_, i) => create(stores[i % 2 === 0 ? 0 : 1]));
    const results = await Promise.allSettled(calls);
    let made = 0;
    for (const result of results) {
      if (result.status === 'fulfilled') made += result.value;
      else assert.equal(DomainError.from(result.reason).kind, 'conflict');
    }
    assert.equal(made, 1);
    assert.deepEqual([...ids], [1]);
    assert.equal(await stores[0].users.count({}), 1);
  });

  it('create and delete concurrently without leaving a post without its user', async (t) => {
    const [one, other] = await openTwo(t);
    for (let round = 0; round < 20; round += 1) {
      const { value } = await one.users.create({ name: 'short-lived' });
      const draft = { title: 'title', body: '' };
      const posts = Array.from({ length: 5 }, () => other.posts(value.id).create(draft));
      assert.equal(await one.users.delete(value.id), true);
      await Promise.all(posts);
    }
    assert.equal((await one.summary()).posts.count, 0);
  });
});

/** Makes the insertion of a user wait for the session to unlock 42. */
async function delayInserts(session: Session): Promise<void> {
  await session.query('SELECT pg_advisory_lock(42)');
  await session.query(`
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END';
    CREATE TRIGGER wait BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION wait()`);
}

const preventedByTrigger = { kind: 'internal', cause: new Error('a trigger has prevented the change') };

describe('a statement that finds no row', () => {
  /** Makes each UPDATE and DELETE wait at its end until the session unlocks, even if it finds no row. */
  async function delayChanges(session: Session): Promise<void> {
    await session.query('SELECT pg_advisory_lock(42)');
    await session.query(`
      CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
      CREATE TRIGGER wait AFTER UPDATE OR DELETE ON users EXECUTE FUNCTION wait()`);
  }

  it('for a deletion does not find a user that is created while it runs', async (t) => {
    const { store, session } = await open(t);
    await delayChanges(session);
    const missed = store.users.delete(1);
    await session.untilBlocked(1);
    const { value } = await store.users.create({ name: 'Ada' });
    assert.equal(value.id, 1);
    await session.query('SELECT pg_advisory_unlock(42)');
    assert.equal(await missed, false);
    assert.deepEqual(await store.users.get(1), value);
  });

  it('for an update changes a user that is created while it runs', async (t) => {
    const { store, session } = await open(t);
    await delayChanges(session);
    const updating = store.users.update(1, { name: 'Eve' });
    await session.untilBlocked(1);
    await store.users.create({ name: 'Ada' });
    await session.query('SELECT pg_advisory_unlock(42)');
    assert.deepEqual(await updating, { id: 1, name: 'Eve', version: 2 });
  });

  it('for an update changes a user that reaches the expected version while it runs', async (t) => {
    const { store, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    await delayChanges(session);
    const updating = store.users.update(1, { name: 'Eve' }, { expected: [2] });
    await session.untilBlocked(1);
    await session.query('UPDATE users SET version = 2');
    await session.query('SELECT pg_advisory_unlock(42)');
    assert.deepEqual(await updating, { id: 1, name: 'Eve', version: 3 });
  });

  it('for an update fails as internal if a trigger prevents it', async (t) => {
    const { store, session } = await open(t);
    const { value } = await store.users.create({ name: 'Ada' });
    await session.query(`
      CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER keep BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION keep()`);
    await assert.rejects(store.users.update(1, { name: 'Eve' }), preventedByTrigger);
    assert.deepEqual(await store.users.get(1), value);
  });

  it('for an update fails at last if the record always changes', { timeout: 20_000 }, async (t) => {
    const { store, session } = await open(t);
    await store.users.create({ name: 'Ada' });
    // Only the inner update, which raises the version, takes effect.
    await session.query(`
      CREATE FUNCTION outrun() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF pg_trigger_depth() > 1 THEN RETURN NEW; END IF;
        UPDATE users SET version = version + 1 WHERE id = OLD.id;
        RETURN NULL;
      END $$;
      CREATE TRIGGER outrun BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION outrun()`);
    await assert.rejects(store.users.update(1, { name: 'Eve' }), { kind: 'unavailable' });
    assert.deepEqual(await store.users.get(1), { id: 1, name: 'Ada', version: 101 });
  });

  it('for an update returns a user that already has the values, without writing it', async (t) => {
    const { store, session } = await open(t);
    const { value } = await store.users.create({ name: 'Ada' });
    const find = () => session.query('SELECT ctid, xmin FROM users');
    const before = await find();
    assert.deepEqual(await store.users.update(1, { name: 'Ada', role: null }), value);
    assert.deepEqual(await find(), before);
  });
});

for (const [what, options] of [
  ['', {}],
  [' with an idempotency key', keyed('key')],
] as const) {
  it(`a creation of a user${what} fails as internal if a trigger prevents it`, async (t) => {
    const { store, session } = await open(t);
    await session.query(`
      CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER skip BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION skip()`);
    await assert.rejects(store.users.create({ name: 'Ada' }, options), preventedByTrigger);
    await session.query('DROP TRIGGER skip ON users');
    const { replayed } = await store.users.create({ name: 'Ada' }, options);
    assert.equal(replayed, false, 'the key must not be used up');
  });
}

it('a unique index of another program makes duplicates fail as a final conflict', async (t) => {
  const { store, session } = await open(t);
  await session.query('CREATE UNIQUE INDEX one_of_each ON users (name)');
  for (const name of ['Ada', 'Eve']) await store.users.create({ name });
  const message = 'another record has a value that must be unique';
  const conflict = { kind: 'conflict', isFinal: true, message };
  await assert.rejects(store.users.create({ name: 'Ada' }), conflict);
  await assert.rejects(store.users.create({ name: 'Ada' }, keyed('key')), conflict);
  await assert.rejects(store.users.update(2, { name: 'Ada' }), conflict);
  const { value } = await store.users.create({ name: 'Bob' });
  assert.equal(value.id, 7, 'each creation must be sent twice, and each attempt takes an id');
});

describe('idempotency keys in PostgreSQL', () => {
  const idempotency = { key: 'key', fingerprint: 'fingerprint' };

  it('are in use until the first request ends, and then every store replays its response', async (t) => {
    const { store, url, session } = await open(t);
    const other = closeAfter(t, await openPostgresStore(url));
    await delayInserts(session);
    const first = store.users.create({ name: 'first' }, { idempotency });
    await session.untilBlocked(1);
    for (const second of [store, other]) {
      await assert.rejects(second.users.create({ name: 'first' }, { idempotency }), { kind: 'conflict' });
    }
    await session.query('SELECT pg_advisory_unlock(42)');
    const { value } = await first;
    for (const second of [store, other]) {
      const replay = await second.users.create({ name: 'first' }, { idempotency });
      assert.deepEqual(replay, { value, replayed: true });
    }
  });

  it('are not in use by requests to a service in another schema of the database', async (t) => {
    const { store, url, session } = await open(t);
    const other = closeAfter(t, await openPostgresStore(await postgres.createSchema(url)));
    await delayInserts(session);
    const first = store.users.create({ name: 'first' }, { idempotency });
    await session.untilBlocked(1);
    assert.equal((await other.users.create({ name: 'other' }, { idempotency })).replayed, false);
    await session.query('SELECT pg_advisory_unlock(42)');
    assert.equal((await first).value.name, 'first');
  });

  it('are free again when the first request failed', async (t) => {
    const { store, session } = await open(t);
    await delayInserts(session);
    const first = store.users.create({ name: 'first' }, { idempotency });
    const failed = assert.rejects(first, { kind: 'unavailable' });
    await session.untilBlocked(1);
    // The server informs the client before it releases the lock of the key. With a time limit, it waits for the end.
    const terminate = 'SELECT pg_terminate_backend($1, 10000)';
    for (const pid of await session.backends()) await session.query(terminate, [pid]);
    await failed;
    await session.query('SELECT pg_advisory_unlock(42)');
    assert.equal((await store.users.create({ name: 'first' }, { idempotency })).replayed, false);
    assert.equal(await store.users.count({}), 1);
  });

  for (const hasIndex of [false, true]) {
    const also = hasIndex ? ', also with a unique index of names' : '';
    it(`replay a request that was committed after the lookup${also}`, async (t) => {
      const { store, session } = await open(t);
      if (hasIndex) await session.query('CREATE UNIQUE INDEX one_of_each ON users (name)');
      const response = { id: 7, name: 'first', role: '', version: 1 };
      await session.query('BEGIN');
      if (hasIndex) await session.query(`INSERT INTO users (id, name) VALUES (7, 'first')`);
      await session.query(
        `INSERT INTO idempotency_keys VALUES ('key', 'fingerprint', $1, now() + interval '1 hour')`,
        [response],
      );
      const second = store.users.create({ name: 'first' }, { idempotency });
      await session.untilBlocked(1);
      await session.query('COMMIT');
      assert.deepEqual(await second, { value: { id: 7, name: 'first', version: 1 }, replayed: true });
      assert.equal(await store.users.count({}), hasIndex ? 1 : 0);
    });
  }

  it('replay a post that an earlier release stored without a version', async (t) => {
    const { store, session } = await open(t);
    const { value: user } = await store.users.create({ name: 'Ada' });
    await session.query(
      `INSERT INTO idempotency_keys VALUES ('key', 'fingerprint', $1, now() + interval '1 hour')`,
      [{ id: 7, user_id: user.id, title: 'first', body: '' }],
    );
    assert.deepEqual(await store.posts(user.id).create({ title: 'first', body: '' }, { idempotency }), {
      value: { id: 7, userId: user.id, title: 'first', body: '', version: 1 },
      replayed: true,
    });
  });

  it('are free for one of many requests after they have expired', async (t) => {
    const { store, session } = await open(t);
    for (const [round, requests] of [1, 1, 10, 10, 1].entries()) {
      const results = await Promise.allSettled(
        Array.from({ length: requests }, () => store.users.create({ name: 'again' }, { idempotency })),
      );
      const created = results.filter((result) => result.status === 'fulfilled').map(({ value }) => value);
      assert.equal(created.filter(({ replayed }) => !replayed).length, 1);
      const ids = new Set(created.map(({ value }) => value.id));
      assert.equal(ids.size, 1, 'the other requests must replay the new user');
      assert.equal(await store.users.count({}), round + 1);
      await session.query(`UPDATE idempotency_keys SET expires_at = now() - interval '1 second'`);
    }
  });

  it('are deleted after they expire, by one of five hundred writes, except those that are locked', async (t) => {
    const { store, session } = await open(t);
    await session.query(`
      INSERT INTO idempotency_keys SELECT 'old ' || i, '', '{}', now() - i * interval '1 minute'
      FROM generate_series(1, 2500) AS i`);
    await session.query(`BEGIN; SELECT FROM idempotency_keys WHERE key = 'old 2500' FOR UPDATE`);
    const left = async () => {
      const sql = `SELECT count(*)::integer AS n FROM idempotency_keys WHERE key LIKE 'old%'`;
      return (await session.query<{ n: number }>(sql))[0]?.n;
    };
    await store.users.create({ name: 'Ada' });
    await until(async () => (await left()) === 500, 'the first write deletes 2,000 keys');
    for (let i = 1; i < 500; i += 1) await store.users.delete(2);
    assert.equal(await left(), 500);
    const writeAndCount = async () => {
      await store.users.delete(2);
      return await left();
    };
    // On a busy machine, the removal after the first write may still run. Then another five hundred writes follow.
    await until(async () => (await writeAndCount()) === 1, 'a later write deletes the other keys', 60_000);
  });

  it('that cannot be deleted after they expire are reported, and do not fail a creation', async (t) => {
    const failures: Error[] = [];
    const { store, session } = await open(t, { onFailure: (cause) => failures.push(cause) });
    await session.query(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''refused''; END';
      CREATE TRIGGER refuse BEFORE DELETE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION refuse();
      INSERT INTO idempotency_keys VALUES ('old', '', '{}', now())`);
    assert.equal((await store.users.create({ name: 'Ada' }, { idempotency })).replayed, false);
    await until(() => failures.length > 0, 'the failure is reported');
    assert.match(
      inspect(failures[0], { depth: 3 }),
      /^Error: old changes or keys could not be removed[\s\S]*refused/,
    );
  });
});

it('a statement that fails because of another transaction is retried', async (t) => {
  const { store, url, session } = await open(t);
  await session.alterDatabase("SET default_transaction_isolation = 'serializable'");
  await store.users.create({ name: 'Ada' });
  const strict = closeAfter(t, await openPostgresStore(url, { poolSize: 3 }));
  await session.query('BEGIN; UPDATE users SET version = 2');
  // An update fails once for each other transaction at most, and so five times. It has six attempts.
  const updates = Array.from({ length: 5 }, (_, i) => strict.users.update(1, { name: `name ${i}` }));
  await session.untilBlocked(2);
  await session.query('COMMIT');
  await Promise.all(updates);
  assert.equal((await strict.users.get(1))?.version, 7);
});
