import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, describe, it, type TestContext } from 'node:test';
import { testFeed } from '../../../src/conformance/feed.ts';
import { createFixture } from '../../../src/conformance/fixture.ts';
import { testIdempotency } from '../../../src/conformance/idempotency.ts';
import { testedKinds } from '../../../src/conformance/kinds.ts';
import { testLifecycle } from '../../../src/conformance/lifecycle.ts';
import { testRecords } from '../../../src/conformance/records.ts';
import { testTransfer } from '../../../src/conformance/test-transfer.ts';
import { testUsers } from '../../../src/conformance/users.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { noPgBouncer, startPgBouncer } from '../../kit/pgbouncer.ts';
import { patient, startPostgres } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { runCommand } from '../../support/command.ts';
import { kindOf } from '../../support/outcome.ts';
import { contractStores } from './contract.ts';

describe('PgBouncer in transaction mode', { skip: noPgBouncer }, async () => {
  if (noPgBouncer !== false) return;
  const postgres = await startPostgres({ max_connections: '300' });
  const bouncer = await startPgBouncer(after, postgres.server.url());
  after(() => postgres.close());

  function openAt(url: string, options?: PostgresStoreOptions): Promise<Store> {
    return openPostgresStore(bouncer.through(url), { ...patient, ...options });
  }

  async function open(t: TestContext, options?: PostgresStoreOptions) {
    const warnings: string[] = [];
    const url = await postgres.createDatabase();
    const store = await openAt(url, { ...options, onWarning: (message) => warnings.push(message) });
    t.after(() => store.close());
    return { store, url, warnings };
  }

  /** Creates the first schema of a role, because a pooler rejects the URL parameter for a schema. */
  async function createSchema(): Promise<string> {
    const name = `role_${randomBytes(6).toString('hex')}`;
    await postgres.server.query(`
      CREATE ROLE ${name} SUPERUSER LOGIN PASSWORD '${name}';
      CREATE SCHEMA ${name};
      ALTER ROLE ${name} SET search_path = ${name}`);
    const url = new URL(postgres.server.url());
    url.username = url.password = name;
    return bouncer.through(url.href);
  }
  const { openEmpty, traits } = contractStores(createSchema);
  // The other subjects of the contract need only calls of one statement, which a pooler cannot split. The lifecycle
  // makes each of these calls.
  describe('PostgreSQL behind PgBouncer', () => {
    const fixture = createFixture(openEmpty, traits);
    for (const tested of testedKinds) testRecords(fixture, tested);
    testUsers(fixture);
    testIdempotency(fixture);
    testFeed(fixture);
    testLifecycle(fixture);
  });
  testTransfer('PostgreSQL behind PgBouncer', openEmpty);

  it('serves concurrent reads and keyed writes without an internal error', async (t) => {
    const { store, warnings } = await open(t);
    await store.users.create({ name: 'Ada' });
    const calls = Array.from({ length: 400 }, (_, i) => {
      const idempotency = { key: `key ${i % 100}`, fingerprint: '' };
      return kindOf(i % 2 === 0 ? store.users.get(1) : store.users.create({ name: 'Bob' }, { idempotency }));
    });
    const kinds = new Set(await Promise.all(calls));
    kinds.delete('conflict');
    assert.deepEqual(kinds, new Set(['none']));
    assert.equal(await store.users.count({}), 51);
    const parsing = warnings.filter((warning) => /does not keep prepared statements/.test(warning));
    assert.equal(parsing.length, 1, 'there must be one warning');
  });

  it('cancels only the statement of the call that was aborted', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    await store.users.create({ name: 'Ada' });
    await session.lock('users');
    const stays = store.users.get(1);
    await session.untilBlocked(1);
    for (let round = 0; round < 10; round += 1) {
      const controller = new AbortController();
      const leaves = kindOf(store.users.get(1, { signal: controller.signal }));
      await session.untilBlocked(2);
      controller.abort();
      assert.equal(await leaves, 'cancelled');
      await session.untilBlocked(1);
    }
    await session.unlock();
    assert.equal((await stays)?.name, 'Ada');
  });

  it('continues to work when many calls are aborted at once', async (t) => {
    const { store, url } = await open(t);
    const session = await openSession(t, url);
    await store.users.create({ name: 'Ada' });
    for (let round = 0; round < 5; round += 1) {
      await session.lock('users');
      const controller = new AbortController();
      const calls = Array.from({ length: 10 }, () =>
        kindOf(store.users.get(1, { signal: controller.signal })),
      );
      await session.untilBlocked(3);
      controller.abort();
      assert.deepEqual(new Set(await Promise.all(calls)), new Set(['cancelled']));
      await session.unlock();
      assert.equal((await store.users.get(1))?.name, 'Ada');
    }
  });

  it('is reported with the timeouts that neither the role nor the database sets', async () => {
    const names = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'];
    for (const unset of [names, names.slice(1), []]) {
      const url = await postgres.createDatabase();
      const database = new URL(url).pathname.slice(1);
      for (const name of names.filter((one) => !unset.includes(one))) {
        await postgres.server.query(`ALTER DATABASE ${database} SET ${name} = '60s'`);
      }
      const warnings: string[] = [];
      await (await openAt(url, { onWarning: (warning) => warnings.push(warning) })).close();
      const text = `a connection pooler is in front of PostgreSQL: set ${unset.join(', ')} for the role or the database`;
      const shown = warnings.filter((warning) => warning.includes('pooler is'));
      assert.deepEqual(shown, unset.length > 0 ? [text] : []);
    }
  });

  it('changes no settings in sessions that other clients share', async (t) => {
    const { url, warnings } = await open(t, { statementTimeoutMs: 4_321 });
    assert.ok(warnings.some((warning) => /a connection pooler is in front of PostgreSQL/.test(warning)));
    const session = await openSession(t, bouncer.through(url));
    const rows = await session.query('SHOW statement_timeout');
    assert.deepEqual(rows, [{ statement_timeout: '0' }]);
  });

  it('in statement mode can be the source of a copy', async (t) => {
    const statements = await startPgBouncer((end) => t.after(end), postgres.server.url(), 'statement');
    const [from, to] = [await open(t), await open(t)];
    await from.store.users.create({ name: 'Ada' });
    const copied = await runCommand(['copy', '--from', statements.through(from.url), '--to', to.url]);
    assert.equal(copied.code, 0, copied.stderr);
  });

  for (const [setting, value] of [
    ['synchronous_commit', 'off'],
    ['client_min_messages', 'error'],
  ]) {
    it(`cannot be used when an acknowledged write could be lost because ${setting} is ${value}`, async () => {
      const url = await postgres.createDatabase();
      const name = new URL(url).pathname.slice(1);
      await postgres.server.query(`ALTER DATABASE ${name} SET ${setting} = ${value}`);
      await assert.rejects(openAt(url), {
        message: new RegExp(
          `${setting} is ${value}, and behind a connection pooler only the role can set it$`,
        ),
      });
    });
  }
});
