import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { after, describe, it, type TestContext } from 'node:test';
import { inspect, promisify } from 'node:util';
import pg from 'pg';
import { nestedKinds } from '../../../src/conformance/kinds.ts';
import { testRepository, testTransfer } from '../../../src/conformance/test-repository.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import { recordKinds } from '../../../src/domain/record.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { noHaproxy, startHaproxy } from '../../kit/haproxy.ts';
import { openTestPostgres, patient } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { listen } from '../../support/listen.ts';
import { checkMigrated } from '../migrated.ts';
import { contractStores } from './contract.ts';
import { preparedDatabases } from './prepared.ts';

const run = promisify(execFile);
const postgres = await openTestPostgres();
after(() => postgres.close());
const createDatabase = preparedDatabases(postgres);

const module = new URL('../../../src/storage/postgres/store.ts', import.meta.url);

async function queryAt(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(sql);
  await client.end();
  return rows;
}

async function open(t: TestContext, options?: PostgresStoreOptions): Promise<{ store: Store; url: string }> {
  const url = await createDatabase();
  const store = closeAfter(t, await openPostgresStore(url, { ...patient, ...options }));
  return { store, url };
}

const shared = await postgres.createDatabase();
const haproxy = noHaproxy === false ? await startHaproxy(after, shared) : undefined;
const createSchema = async () => {
  const url = await postgres.createSchema(shared);
  return haproxy?.through(url) ?? url;
};
// HAProxy forwards bytes, so this run also covers the store without it.
describe('HAProxy in front of PostgreSQL', { skip: noHaproxy }, () => {
  it('forwards the connections of a store', async (t) => {
    const url = await createSchema();
    assert.equal(url, haproxy?.through(url));
    const store = closeAfter(t, await openPostgresStore(url, patient));
    await store.ping();
  });
});
const { openEmpty, traits } = contractStores(createSchema);
testRepository('PostgreSQL', openEmpty, traits);
testTransfer('PostgreSQL', openEmpty);

/** The migrations from version 1 to a later one. */
const versions: Readonly<Record<number, string>> = {
  1: '',
  2: `
    DROP INDEX users_by_name_descending, users_by_role_descending, users_by_role_and_name_descending;
    CREATE INDEX users_by_role_and_descending_name
      ON users (role, name DESC, (id::bigint) DESC) INCLUDE (id);
    UPDATE meta SET value = '2' WHERE name = 'schema_version';
    DELETE FROM meta WHERE name = 'cursor_secret'`,
};

describe('opening a PostgreSQL store', () => {
  it('works for four processes that start at once on an empty database', async () => {
    const url = await postgres.createDatabase();
    const script = `
      import { openPostgresStore } from '${module}';
      const store = await openPostgresStore(process.argv[1]);
      const { value } = await store.users.create({ name: 'one of four' });
      console.log(value.id);
      await store.close();`;
    const start = () => run(process.execPath, ['--input-type=module', '-e', script, url]);
    const outputs = await Promise.all(Array.from({ length: 4 }, start));
    const ids = outputs.map(({ stdout }) => Number(stdout));
    const sorted = ids.sort((a, b) => a - b);
    assert.deepEqual(sorted, [1, 2, 3, 4]);
  });

  it('works for ten stores of one process that start at once on an empty database', async (t) => {
    for (let round = 0; round < 3; round += 1) {
      const url = await postgres.createDatabase();
      const stores = await Promise.all(Array.from({ length: 10 }, () => openPostgresStore(url, patient)));
      t.after(() => Promise.all(stores.map((store) => store.close())));
      assert.equal((await stores[0]?.users.create({ name: 'Ada' }))?.value.id, 1);
      for (const store of stores) assert.equal((await store.users.get(1))?.name, 'Ada');
    }
  });

  for (const [version, toIt] of Object.entries(versions)) {
    it(`migrates a database of version ${version} to the current schema, and keeps its rows`, async (t) => {
      const url = await postgres.createDatabase();
      const session = await openSession(t, url);
      await session.query(await readFile(new URL('version-1.sql', import.meta.url), 'utf8'));
      await session.query(toIt);
      const warnings: string[] = [];
      const onWarning = (message: string) => warnings.push(message);
      const store = closeAfter(t, await openPostgresStore(url, { ...patient, onWarning, mustExist: true }));
      const from = `the schema is migrated from version ${version} to `;
      assert.equal(warnings.filter((message) => message.startsWith(from)).length, 1);
      await checkMigrated(store);
      const { url: fresh } = await open(t);
      const schema = `
      SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
      UNION ALL SELECT table_name, column_name, data_type || coalesce(column_default, '')
      FROM information_schema.columns WHERE table_schema = 'public'
      UNION ALL SELECT 'meta', name, value FROM meta ORDER BY 1, 2`;
      assert.deepEqual(await queryAt(url, schema), await queryAt(fresh, schema));
    });
  }

  it('works although the host has changed the defaults of the driver', async (t) => {
    const url = await postgres.createDatabase();
    const { binary, query_timeout } = pg.defaults;
    t.after(() => Object.assign(pg.defaults, { binary, query_timeout }));
    // A migration takes longer than this millisecond.
    Object.assign(pg.defaults, { binary: true, query_timeout: 1 });
    const store = closeAfter(t, await openPostgresStore(url, patient));
    const { value } = await store.users.create({ name: 'Ada' });
    assert.deepEqual(value, { id: 1, name: 'Ada', version: 1 });
    assert.deepEqual(await store.users.get(1), value);
    assert.equal((await store.changes?.read({ after: 0, limit: 1 }))?.changes.at(0)?.position, 1);
  });

  it('lets reads pass while a migration waits for a backup', async (t) => {
    const url = await postgres.createDatabase();
    const [backup, reader] = [await openSession(t, url), await openSession(t, url)];
    await backup.query(await readFile(new URL('version-1.sql', import.meta.url), 'utf8'));
    await backup.query('BEGIN; LOCK TABLE posts IN ACCESS SHARE MODE');
    const opened = openPostgresStore(url, patient);
    t.after(async () => (await opened).close());
    const waiting = `SELECT FROM pg_locks WHERE relation = 'posts'::regclass AND NOT granted`;
    await until(async () => (await reader.query(waiting)).length > 0, 'the migration waits', 60_000);
    await reader.query('SET statement_timeout = 20000; SELECT FROM posts');
    await backup.query('COMMIT');
    await checkMigrated(await opened);
  });

  it('migrates the tables where they are, whatever schemas were created after them', async (t) => {
    const url = await postgres.createDatabase();
    const session = await openSession(t, url);
    await session.query(await readFile(new URL('version-1.sql', import.meta.url), 'utf8'));
    await session.query('CREATE SCHEMA "a new, earlier one"');
    const name = new URL(url).pathname.slice(1);
    await session.query(`ALTER DATABASE ${name} SET search_path = "a new, earlier one", public`);
    const store = closeAfter(t, await openPostgresStore(url, patient));
    await checkMigrated(store);
    const schemas = await session.query(
      `SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('meta', 'changes')`,
    );
    assert.deepEqual(schemas, [{ schemaname: 'public' }]);
  });

  it('opens a database that publishes all tables, and so rejects updates of the state of the feed', async (t) => {
    const { url } = await open(t);
    // A published table without a replica identity rejects updates.
    await queryAt(url, 'CREATE PUBLICATION everything FOR ALL TABLES');
    await assert.rejects(openPostgresStore(url, { ...patient, changesKept: 0 }), /replica identity/);
    const store = closeAfter(t, await openPostgresStore(url, patient));
    assert.equal((await store.users.create({ name: 'Ada' })).value.name, 'Ada');
  });

  it('allows neither NULL in the tables of records, nor records without their user', async (t) => {
    const { url } = await open(t);
    const names = recordKinds.map((kind) => `'${kind}'`).join(', ');
    const nullable = `SELECT table_name, column_name FROM information_schema.columns
      WHERE table_schema = 'public' AND table_name IN (${names}) AND is_nullable = 'YES'`;
    assert.deepEqual(await queryAt(url, nullable), []);
    const keys = `SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent
      FROM pg_constraint WHERE contype = 'f' ORDER BY child`;
    const children = nestedKinds.map(({ kind }) => kind).sort();
    const parents = children.map((child) => ({ child, parent: 'users' }));
    assert.deepEqual(await queryAt(url, keys), parents);
  });

  it('rejects a database of a newer release', async (t) => {
    const { url } = await open(t);
    const session = await openSession(t, url);
    await session.query(`UPDATE meta SET value = '999' WHERE name = 'schema_version'`);
    await assert.rejects(openPostgresStore(url), /at schema version 999, made by a newer release/);
  });

  const foreignMeta = /: a table meta of another program is there: use a separate database or schema$/;
  for (const [name, definition, message] of [
    ['posts', '(id integer)', /relation "posts" already exists$/],
    ['meta', '(k text)', foreignMeta],
    ['meta', "AS SELECT 'schema_version' AS name, 'v3' AS value", foreignMeta],
    ['meta', "AS SELECT 'schema_version' AS name, '2.1' AS value", foreignMeta],
    ['meta', "AS SELECT 'schema_version' AS name, '-1' AS value", foreignMeta],
  ] as const) {
    it(`rejects a database in which another program has a table ${name} ${definition}, without changing it`, async (t) => {
      const url = await postgres.createDatabase();
      const session = await openSession(t, url);
      await session.query(`CREATE TABLE ${name} ${definition}`);
      await assert.rejects(openPostgresStore(url), { message });
      const tables = await session.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`);
      assert.deepEqual(tables, [{ tablename: name }]);
    });
  }

  it('rejects a database that cannot store every text', async (t) => {
    const url = new URL(await postgres.createDatabase());
    const session = await openSession(t, url.href);
    const name = `latin_${url.pathname.slice(1)}`;
    await session.query(`CREATE DATABASE ${name} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0`);
    url.pathname = name;
    await assert.rejects(openPostgresStore(url.href), /must be UTF8, but is LATIN1/);
    await session.query(`DROP DATABASE ${name}`);
  });

  const secret = 'open-sesame';
  const refused: Readonly<Record<string, [change: (url: URL) => void, message: RegExp]>> = {
    'a port without a server': [
      (url) => {
        url.port = '1';
      },
      /^PostgreSQL at 127\.0\.0\.1:1 cannot be used: connect ECONNREFUSED/,
    ],
    'an unknown host': [
      (url) => {
        url.hostname = 'nowhere.invalid';
      },
      /^PostgreSQL at nowhere\.invalid:\d+ cannot be used: getaddrinfo/,
    ],
    'a wrong password': [() => {}, /cannot be used: password authentication failed for user "postgres"$/],
    'a missing password': [
      (url) => {
        url.password = '';
      },
      /cannot be used: it requires a password: write USER:PASSWORD@HOST in the URL$/,
    ],
    'an unknown user': [
      (url) => {
        url.username = 'mallory';
      },
      /cannot be used: password authentication failed for user "mallory"$/,
    ],
  };
  for (const [what, [change, message]] of Object.entries(refused)) {
    it(`fails for ${what} with the address and the reason, but not the password`, async () => {
      const url = new URL(await postgres.createDatabase());
      url.password = secret;
      change(url);
      await assert.rejects(openPostgresStore(url.href), (error) => {
        assert(error instanceof DomainError);
        assert.equal(error.kind, 'unavailable');
        assert.match(error.message, message);
        assert.doesNotMatch(inspect(error, { depth: 20, showHidden: true }), new RegExp(secret));
        return true;
      });
    });
  }

  it('fails for a server that requires Kerberos, which the driver does not know', async (t) => {
    // `AuthenticationGSS`: https://www.postgresql.org/docs/current/protocol-message-formats.html
    const request = Buffer.from('R\0\0\0\x08\0\0\0\x07');
    const fake = createServer((socket) => socket.once('data', () => socket.write(request)));
    const { port } = await listen(t, fake);
    await assert.rejects(openPostgresStore(`postgres://user@127.0.0.1:${port}/name`), {
      kind: 'unavailable',
      message:
        /cannot be used: it sent what the driver cannot read: Unknown authenticationOk message type 7$/,
    });
  });

  it('does not repeat an invalid URL in its error', async () => {
    const opening = openPostgresStore(`postgres://user:${secret}@host:123456/name`);
    await assert.rejects(opening, (error) => {
      assert.match(String(error), /the database URL must be a URL with a port up to 65535/);
      return !inspect(error, { depth: 20, showHidden: true }).includes(secret);
    });
  });

  const invalid: readonly [PostgresStoreOptions, RegExp][] = [
    [{ poolSize: 0 }, /^poolSize must be a whole number from 1 to 1000, not 0$/],
    [{ maxWaiting: -1 }, /^maxWaiting must be .*, not -1$/],
    [{ statementTimeoutMs: 1.5 }, /^statementTimeoutMs must be .*, not 1\.5$/],
    [{ lockTimeoutMs: Number.NaN }, /^lockTimeoutMs must be .*, not NaN$/],
    [{ pingTimeoutMs: Number.POSITIVE_INFINITY }, /^pingTimeoutMs must be .*, not Infinity$/],
  ];
  for (const [options, message] of invalid) {
    it(`rejects the option ${inspect(options)}`, async () => {
      await assert.rejects(openPostgresStore('postgres://nowhere.invalid/', options), {
        name: 'RangeError',
        message,
      });
    });
  }
});

it('without its driver fails with the package to install', async () => {
  const script = `
    import { registerHooks } from 'node:module';
    registerHooks({
      resolve(specifier, context, next) {
        return next(specifier === 'pg' ? 'a-package-that-is-not-there' : specifier, context);
      },
    });
    const { openPostgresStore } = await import('${module}');
    await openPostgresStore('postgres://localhost/name');`;
  const { stderr } = await run(process.execPath, ['--input-type=module', '-e', script]).catch(
    (error) => error,
  );
  assert.match(stderr, /Error: a postgres: database needs the package "pg": run npm install pg/);
});

it('an import into PostgreSQL names the post that has no user', async (t) => {
  const { store } = await open(t);
  await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
  const posts = [1, 9].map((userId) => ({ id: 30 + userId, userId, title: 'a', body: '', version: 1 }));
  await assert.rejects(store.importRows('posts', posts), {
    kind: 'conflict',
    message: 'post 39 has no user',
  });
  assert.equal((await store.summary()).posts.count, 0);
});

for (const action of ['NO ACTION', 'RESTRICT']) {
  it(`PostgreSQL rejects a deletion that a foreign key of another table with ${action} prevents`, async (t) => {
    const { store, url } = await open(t);
    await store.users.create({ name: 'Ada' });
    await store.posts(1).create({ title: 'title', body: '' });
    const likes = `CREATE TABLE likes (post integer REFERENCES posts ON DELETE ${action})`;
    await queryAt(url, `${likes}; INSERT INTO likes VALUES (1)`);
    await assert.rejects(store.posts(1).delete(1), { kind: 'conflict' });
    await assert.rejects(store.users.delete(1), { kind: 'conflict' });
    assert.equal(await store.posts(1).count({}), 1);
  });
}

describe('closing a PostgreSQL store', () => {
  it('ends all sessions even while a call runs and others wait', async (t) => {
    const { store, url } = await open(t, { poolSize: 2 });
    const session = await openSession(t, url);
    const writes = Array.from({ length: 20 }, (_, i) => store.users.create({ name: `user ${i}` }));
    const refused = store.users.update(1000, { name: 'nobody' }, { expected: [1] });
    await writes[0];
    // These find no post, and then look for the user.
    const counts = [store.posts(1).count({}), store.posts(999).count({})];
    await store.close();
    assert.deepEqual(await Promise.all(counts), [0, undefined]);
    assert.equal((await Promise.all(writes)).length, 20);
    assert.equal(await refused, undefined);
    await until(async () => (await session.backends()).length === 0, 'no session is left');
  });
});
