import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import { DomainError } from '../../src/domain/errors.ts';
import { parseUserQuery } from '../../src/domain/list-query.ts';
import type { Store } from '../../src/domain/transfer.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../src/storage/postgres.ts';
import { openTestPostgres } from '../support/postgres.ts';
import { openSession } from '../support/postgres-session.ts';

const postgres = await openTestPostgres();
after(() => postgres.close());

async function open(t: TestContext, options?: PostgresStoreOptions): Promise<{ store: Store; url: string }> {
  const url = await postgres.createDatabase();
  const store = await openPostgresStore(url, options);
  t.after(() => store.close());
  return { store, url };
}

describe('two stores over one database', () => {
  async function openTwo(t: TestContext): Promise<[Store, Store, string]> {
    const { store, url } = await open(t);
    const other = await openPostgresStore(url);
    t.after(() => other.close());
    return [store, other, url];
  }

  it('give out cursors that hold for both', async (t) => {
    const [one, other] = await openTwo(t);
    for (const name of ['a', 'b', 'c']) await one.createUser({ name });
    const query = parseUserQuery([
      ['sort', '-name'],
      ['limit', '1'],
    ]);
    const { next: cursor = '' } = await one.listUsers(query);
    const page = await other.listUsers({ ...query, start: { cursor } });
    assert.deepEqual(page.items, [{ id: 2, name: 'b' }]);
  });

  it('let one of many changes to a version through', async (t) => {
    const stores = await openTwo(t);
    const { value } = await stores[0].createUser({ name: 'original' });
    for (let version = value.version; version < 10; version += 1) {
      const results = await Promise.allSettled(
        Array.from({ length: 10 }, (_, i) =>
          (i % 2 === 0 ? stores[0] : stores[1]).updateUser(
            1,
            { name: `${version}.${i}` },
            { expected: [version] },
          ),
        ),
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

  it('make one user of many requests with one key', async (t) => {
    const stores = await openTwo(t);
    const idempotency = { key: 'key', fingerprint: 'fingerprint' };
    const created = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        stores[i % 2 === 0 ? 0 : 1].createUser({ name: 'once' }, { idempotency }),
      ),
    );
    assert.equal(created.filter(({ replayed }) => !replayed).length, 1);
    assert.equal(new Set(created.map(({ value }) => value.id)).size, 1);
    assert.equal(await stores[0].countUsers({}), 1);
  });

  it('make and delete, and never leave a post without a user', async (t) => {
    const [one, other] = await openTwo(t);
    for (let round = 0; round < 20; round += 1) {
      const { value } = await one.createUser({ name: 'short-lived' });
      const posts = Array.from({ length: 5 }, () => other.createPost(value.id, { title: 'title', body: '' }));
      assert.equal(await one.deleteUser(value.id), true);
      await Promise.all(posts);
    }
    assert.equal((await one.summary()).posts, 0);
  });
});

describe('idempotency keys in PostgreSQL', () => {
  const idempotency = { key: 'key', fingerprint: 'fingerprint' };
  const keep = `INSERT INTO idempotency_keys VALUES
    ('key', 'fingerprint', '{"id": 7, "name": "first", "role": "", "version": 1}', now() + interval '1 hour')`;

  it('wait for a first request that is under way, and replay it', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    await session.query(`BEGIN; ${keep}`);
    const second = store.createUser({ name: 'first' }, { idempotency });
    await session.untilBlocked(1);
    await session.query('COMMIT');
    assert.deepEqual(await second, { value: { id: 7, name: 'first', version: 1 }, replayed: true });
    assert.equal(await store.countUsers({}), 0);
  });

  it('wait for a first request that is under way, and take its place when it fails', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    await session.query(`BEGIN; ${keep}`);
    const second = store.createUser({ name: 'first' }, { idempotency });
    await session.untilBlocked(1);
    await session.query('ROLLBACK');
    assert.equal((await second).replayed, false);
    assert.equal(await store.countUsers({}), 1);
  });

  it('are free again when they have expired, for one of many', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    for (const round of [1, 2, 3]) {
      const created = await Promise.all(
        Array.from({ length: 10 }, () => store.createUser({ name: 'again' }, { idempotency })),
      );
      assert.equal(created.filter(({ replayed }) => !replayed).length, 1);
      assert.equal(await store.countUsers({}), round);
      await session.query(`UPDATE idempotency_keys SET expires_at = now() - interval '1 second'`);
    }
  });

  it('go a few at a time once expired, and past those another transaction holds', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    await session.query(`
      INSERT INTO idempotency_keys SELECT 'old ' || i, '', '{}', now() - i * interval '1 minute'
      FROM generate_series(1, 35) AS i`);
    await session.query(`BEGIN; SELECT FROM idempotency_keys WHERE key = 'old 35' FOR UPDATE`);
    for (const left of [25, 15, 5, 1, 1]) {
      await store.createUser(
        { name: 'Ada' },
        { idempotency: { key: `${left} ${Math.random()}`, fingerprint: '' } },
      );
      const [row] = await session.query<{ n: number }>(
        `SELECT count(*)::integer AS n FROM idempotency_keys WHERE key LIKE 'old%'`,
      );
      assert.equal(row?.n, left);
    }
  });
});

it('repeats what lost against another transaction', async (t) => {
  const { store, url } = await open(t);
  const session = await openSession(t, url);
  const [row] = await session.query<{ name: string }>('SELECT current_database() AS name');
  await session.query(`ALTER DATABASE ${row?.name} SET default_transaction_isolation = 'serializable'`);
  await store.createUser({ name: 'Ada' });
  const strict = await openPostgresStore(url, { poolSize: 3 });
  t.after(() => strict.close());
  await Promise.all(Array.from({ length: 60 }, (_, i) => strict.updateUser(1, { name: `name ${i}` })));
  assert.equal((await strict.getUser(1))?.version, 61);
});
