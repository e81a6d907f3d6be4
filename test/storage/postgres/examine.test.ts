import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, describe, it, type TestContext } from 'node:test';
import { byKind, recordKinds } from '../../../src/domain/record.ts';
import { examinePostgres } from '../../../src/storage/postgres/examine.ts';
import { schemaVersion } from '../../../src/storage/postgres/schema.ts';
import { stateSql } from '../../../src/storage/postgres/server-state.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { tables } from '../../../src/storage/tables.ts';
import type { ExamineOptions } from '../../../src/storage/tools.ts';
import { openForwarder } from '../../kit/forwarder.ts';
import { noPgBouncer, startPgBouncer } from '../../kit/pgbouncer.ts';
import { startPostgres } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { preparedDatabases } from './prepared.ts';

const durable = { fsync: 'on', full_page_writes: 'on' };
const postgres = await startPostgres(durable);
after(() => postgres.close());
const createDatabase = preparedDatabases(postgres);

/** The problems found at a URL, without the names of hosts. */
async function problemsOf(url: string, options?: ExamineOptions): Promise<string[]> {
  const findings = await examinePostgres(url, options);
  for (const { level, remedy } of findings) assert.equal(remedy === '', level === 'ok');
  return findings
    .filter(({ level }) => level !== 'ok')
    .map(({ level, what }) => `${level} ${what.replaceAll(/127\.0\.0\.1:\d+/g, 'HOST')}`);
}

async function change(t: TestContext, url: string, sql: string): Promise<void> {
  await (await openSession(t, url)).query(sql);
}

/** Sets a default of a database, for sessions that begin later. */
async function set(t: TestContext, url: string, name: string, value: string): Promise<void> {
  await (await openSession(t, url)).alterDatabase(`SET ${name} = ${value}`);
}

/** Creates a user of the database who may use all tables, but owns none. The name is also the password. */
const createUser = (name: string) => `
  CREATE ROLE ${name} LOGIN PASSWORD '${name}';
  GRANT ALL ON ALL TABLES IN SCHEMA public TO ${name};
  GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${name};`;

describe('the examination of a PostgreSQL database', () => {
  it('finds no problem in a healthy database, and reports each check', async () => {
    const url = await createDatabase();
    assert.deepEqual(await problemsOf(url), []);
    const text = (await examinePostgres(url)).map(({ what }) => what.replace(/^\S+ /, ''));
    assert.match(
      text.join('\n'),
      /^PostgreSQL \d+.*, takes writes\nthe encoding is UTF8\ntexts sort by code point.*\(C\)\nthe schema has version \d+, in public\nthe connection is not encrypted\nit allows \d+ more connections$/,
    );
  });

  it('accepts an empty database without changing it', async (t) => {
    const url = await postgres.createDatabase();
    assert.deepEqual(await problemsOf(url), []);
    const session = await openSession(t, url);
    const sql = "SELECT count(*)::int AS tables FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert.deepEqual(await session.query(sql), [{ tables: 0 }]);
  });

  const changes: readonly [what: string, sql: (name: string) => string, problem: string][] = [
    [
      'an older schema',
      () => "UPDATE meta SET value = '2' WHERE name = 'schema_version'",
      'warn HOST: the schema has version 2',
    ],
    [
      'the schema of a newer release',
      () => "UPDATE meta SET value = '99' WHERE name = 'schema_version'",
      `fail HOST cannot be used: the database is at schema version 99, made by a newer release; this one knows ${schemaVersion}`,
    ],
    [
      'the table meta of another program',
      () => 'ALTER TABLE meta RENAME value TO v',
      'fail HOST cannot be used: a table meta of another program is there: use a separate database or schema',
    ],
    [
      'a sequence of positions that sessions take in blocks',
      () => 'ALTER SEQUENCE changes_position_seq CACHE 2',
      'fail HOST: the sequence changes_position_seq has CACHE 2',
    ],
    [
      'a column of each kind of record with another sort order',
      () =>
        recordKinds
          .map((kind) => {
            const column = tables[kind].columns.find(({ type }) => type === 'text');
            return `ALTER TABLE ${kind} ALTER COLUMN ${column?.name} TYPE text COLLATE "ucs_basic";`;
          })
          .join(''),
      `fail HOST: ${recordKinds.length} columns have another collation than "C"`,
    ],
    [
      'ids that the service has not assigned',
      () => "INSERT INTO users (id, name) VALUES (7, 'Ada')",
      'fail HOST: the sequence users_id_seq is behind 7',
    ],
    [
      'positions that the service has not assigned',
      () =>
        "INSERT INTO changes (position, type, user_id, record) OVERRIDING SYSTEM VALUE VALUES (7, 'x', 1, '{}')",
      'fail HOST: the sequence changes_position_seq is behind 7',
    ],
    [
      'a feed that begins at a position that the service has not assigned',
      () => 'UPDATE change_feed SET gone = 8',
      'fail HOST: the sequence changes_position_seq is behind 8',
    ],
    // The table of users keeps its other indexes.
    ...['users', 'changes'].map((name): [string, () => string, string] => [
      `a table ${name} without a primary key, which a restore has failed to create`,
      () => `ALTER TABLE ${name} DROP CONSTRAINT ${name}_pkey CASCADE`,
      `fail HOST: no primary key is on ${name}`,
    ]),
    [
      'a server that accepts no writes',
      (name) => `ALTER DATABASE ${name} SET default_transaction_read_only = on`,
      'warn no host takes writes',
    ],
  ];
  for (const [what, sql, problem] of changes) {
    it(`reports ${what}`, async (t) => {
      const url = await createDatabase();
      await change(t, url, sql(new URL(url).pathname.slice(1)));
      assert.deepEqual(await problemsOf(url), [problem]);
    });
  }

  it('can read the version of a server before 12, in which oid is a system column that USING does not find', () => {
    assert.doesNotMatch(stateSql, /USING \(oid\)/);
  });

  it('reports an encoding that cannot hold every text', async () => {
    await postgres.server.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    assert.deepEqual(await problemsOf(postgres.server.url('latin')), ['fail HOST: the encoding is LATIN1']);
  });

  it('reports a user who may not create tables', async (t) => {
    const url = new URL(await postgres.createDatabase());
    await change(t, url.href, "CREATE ROLE guest LOGIN PASSWORD 'guest'");
    [url.username, url.password] = ['guest', 'guest'];
    assert.deepEqual(await problemsOf(url.href), [
      'fail HOST: the schema has version 0, and the user may not create tables',
    ]);
  });

  it('does not take tables of another program for its own', async (t) => {
    const url = new URL(await postgres.createDatabase());
    const session = await openSession(t, url.href);
    await session.query('CREATE TABLE users (id serial PRIMARY KEY, email text)');
    assert.deepEqual(await problemsOf(url.href), []);
    await session.query('CREATE TABLE meta (k text, v text)');
    assert.deepEqual(await problemsOf(url.href), [
      'fail HOST cannot be used: a table meta of another program is there: use a separate database or schema',
    ]);
  });

  it('reports a search_path without a schema, and names the schema in which the user may not create', async (t) => {
    const url = new URL(await postgres.createDatabase());
    const session = await openSession(t, url.href);
    await session.query(`CREATE SCHEMA "App"; CREATE ROLE visitor LOGIN PASSWORD 'visitor'`);
    [url.username, url.password] = ['visitor', 'visitor'];
    const examine = async (path: string) => {
      url.search = `?options=-csearch_path%3D${path}`;
      const failures = (await examinePostgres(url.href)).filter(({ level }) => level === 'fail');
      return failures.map(({ what, remedy }) => [what.replace(/^\S+ /, ''), remedy]);
    };
    const none = 'the search_path has no schema that the user may use';
    const remedy = 'create the schema, or run GRANT USAGE ON SCHEMA … TO the user';
    assert.deepEqual(await examine('nowhere'), [[none, remedy]]);
    assert.deepEqual(await examine('%22App%22'), [[none, remedy]]);
    await session.query('GRANT USAGE ON SCHEMA "App" TO visitor');
    assert.deepEqual(await examine('%22App%22'), [
      [
        'the schema has version 0, and the user may not create tables',
        'run GRANT CREATE ON SCHEMA "App" TO the user',
      ],
    ]);
  });

  it('reports a user who cannot migrate an older schema: without its tables, or without rights on it', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query(`
      UPDATE meta SET value = '3' WHERE name = 'schema_version';
      ${createUser('elsewhere')}
      CREATE SCHEMA elsewhere AUTHORIZATION elsewhere`);
    [url.username, url.password] = ['elsewhere', 'elsewhere'];
    assert.deepEqual(await problemsOf(url.href), [
      'fail HOST: the schema has version 3, and the user does not own the tables',
    ]);
    await session.query('ALTER TABLE meta OWNER TO elsewhere');
    assert.deepEqual(await problemsOf(url.href), [
      'fail HOST: the schema has version 3, and the user may not create tables',
    ]);
    await session.query('GRANT CREATE ON SCHEMA public TO elsewhere');
    assert.deepEqual(await problemsOf(url.href), ['warn HOST: the schema has version 3']);
  });

  it('does not report the sequence of positions without a feed, or of a standby', async (t) => {
    const url = await createDatabase();
    const session = await openSession(t, url);
    await session.query('ALTER SEQUENCE changes_position_seq CACHE 2');
    assert.deepEqual(await problemsOf(url, { hasFeed: false }), []);
    assert.deepEqual(await problemsOf(url, { hasStandbys: true, isStandby: true }), []);
  });

  it('reports a user who may not read, or not write, tables of another owner', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query("CREATE ROLE reader LOGIN PASSWORD 'reader'");
    [url.username, url.password] = ['reader', 'reader'];
    assert.deepEqual(await problemsOf(url.href), [
      'fail HOST cannot be used: permission denied for table meta',
    ]);
    await session.query(`
      GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
      GRANT SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO reader`);
    await session.query('GRANT INSERT, UPDATE, DELETE ON users, changes, change_feed TO reader');
    const denied = [...recordKinds.filter((kind) => kind !== 'users'), 'idempotency_keys'].join(', ');
    assert.deepEqual(await problemsOf(url.href), [`fail HOST: the user lacks privileges on ${denied}`]);
    await session.query(`GRANT INSERT, UPDATE, DELETE ON ${denied} TO reader`);
    assert.deepEqual(await problemsOf(url.href), []);
  });

  it('reports a user who may not use the sequences, without which no export and import is possible', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query(`
      CREATE ROLE counter LOGIN PASSWORD 'counter';
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO counter`);
    [url.username, url.password] = ['counter', 'counter'];
    const store = closeAfter(t, await openPostgresStore(url.href));
    await assert.rejects(store.summary());
    const sequences = [...recordKinds.map((kind) => `${kind}_id_seq`), 'changes_position_seq'].join(', ');
    for (const right of ['SELECT', 'UPDATE']) {
      assert.deepEqual(await problemsOf(url.href), [`warn HOST: the user lacks privileges on ${sequences}`]);
      await session.query(`GRANT ${right} ON ALL SEQUENCES IN SCHEMA public TO counter`);
    }
    assert.deepEqual(await problemsOf(url.href), []);
    await store.summary();
    await store.importRows('users', [{ id: 7, name: 'Ada', version: 1 }]);
    await store.continueIds(byKind(() => 9));
    assert.equal((await store.users.create({ name: 'Grace' })).value.id, 10);
    await store.users.delete(7);
  });

  it('finds the sequences of a replicated database as in the old one after the SQL of the documentation', async (t) => {
    const [from, to] = [await createDatabase(), await createDatabase()];
    const [source, target] = [await openSession(t, from), await openSession(t, to)];
    const store = closeAfter(t, await openPostgresStore(from));
    await store.continueIds(byKind((_, index) => 7 + index));
    await store.users.create({ name: 'Ada' });
    const page = readFileSync(new URL('../../../src/storage/README.md', import.meta.url), 'utf8');
    const [, sql = ''] = /```sql\n +(SELECT format\([^`]*)```/.exec(page) ?? [];
    for (const row of await source.query(sql)) await target.query(String(Object.values(row)));
    const names = [...recordKinds.map((kind) => `${kind}_id_seq`), 'changes_position_seq'];
    for (const name of names) {
      const state = `SELECT last_value, is_called FROM ${name}`;
      assert.deepEqual(await target.query(state), await source.query(state), name);
    }
  });

  it('reports row level security, which hides rows from a user, and a store that is opened warns of it', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query(`
      ${createUser('tenant')}
      ALTER TABLE meta ENABLE ROW LEVEL SECURITY;
      CREATE POLICY shown ON meta USING (true);
      ALTER TABLE users ENABLE ROW LEVEL SECURITY;
      ALTER TABLE changes ENABLE ROW LEVEL SECURITY`);
    assert.deepEqual(await problemsOf(url.href), [], 'it does not apply to the owner');
    [url.username, url.password] = ['tenant', 'tenant'];
    const problem =
      'row level security is active on meta, users, changes: rows that no policy shows to the user are missing';
    assert.deepEqual(await problemsOf(url.href), [`warn HOST: ${problem}`]);
    const warnings: string[] = [];
    const store = await openPostgresStore(url.href, { onWarning: (warning) => warnings.push(warning) });
    await store.close();
    assert.deepEqual(warnings, [problem]);
  });

  it('reports a user who may not execute the function that deletes users with their posts', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query(`${createUser('deleter')} REVOKE EXECUTE ON FUNCTION take_posts FROM PUBLIC`);
    [url.username, url.password] = ['deleter', 'deleter'];
    assert.deepEqual(await problemsOf(url.href), ['fail HOST: the user lacks privileges on take_posts']);
    await session.query('GRANT EXECUTE ON FUNCTION take_posts TO deleter');
    assert.deepEqual(await problemsOf(url.href), []);
  });

  for (const name of ['pg_control_system', 'pg_control_checkpoint']) {
    it(`reports a user whose reads cannot use standbys because it may not execute ${name}`, async (t) => {
      const url = new URL(await createDatabase());
      const session = await openSession(t, url.href);
      const user = `from_${name}`;
      await session.query(`${createUser(user)} REVOKE EXECUTE ON FUNCTION ${name} FROM PUBLIC`);
      [url.username, url.password] = [user, user];
      assert.deepEqual(await problemsOf(url.href), []);
      const problem =
        'warn HOST: the user may not execute pg_control_system() and pg_control_checkpoint(), ' +
        'so the primary serves all reads';
      assert.deepEqual(await problemsOf(url.href, { hasStandbys: true }), [problem]);
      assert.deepEqual(await problemsOf(url.href, { hasStandbys: true, isStandby: true }), [problem]);
      await session.query(`GRANT EXECUTE ON FUNCTION ${name} TO ${user}`);
      assert.deepEqual(await problemsOf(url.href, { hasStandbys: true, isStandby: true }), []);
    });
  }

  it('counts the sessions of clients only as used connections', async (t) => {
    const url = await createDatabase();
    const session = await openSession(t, url);
    const count = `SELECT current_setting('max_connections')::int - count(*)::int - 1 AS free
      FROM pg_stat_activity WHERE backend_type = 'client backend'`;
    // Sessions of earlier tests may still end meanwhile.
    await until(async () => {
      const [row] = await session.query(count);
      const findings = await examinePostgres(url);
      return findings.some(({ what }) => what.endsWith(`: it allows ${row?.['free']} more connections`));
    }, 'the counts are equal');
  });

  it('reports no negative number of connections when PostgreSQL lists more than it allows', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query(`${createUser('listed')} ALTER ROLE listed SET search_path = public, pg_catalog;
      CREATE VIEW public.pg_stat_activity AS SELECT 'a' AS usename, 'b' AS datname FROM generate_series(1, 1000)`);
    await session.query('GRANT SELECT ON public.pg_stat_activity TO listed');
    [url.username, url.password] = ['listed', 'listed'];
    const problem = 'warn HOST: it allows 0 more connections, and this copy of the service opens up to 13';
    assert.deepEqual((await problemsOf(url.href)).at(-1), problem);
  });

  for (const [limited, alter] of [
    ['the role', (role: string) => `ROLE ${role}`],
    ['the database', (_: string, database: string) => `DATABASE ${database}`],
  ] as const) {
    it(`counts the connections that the limit of ${limited} allows, unless it is for a superuser`, async (t) => {
      const url = new URL(await createDatabase());
      const superuser = url.href;
      const session = await openSession(t, superuser);
      const role = `limited_${url.pathname.slice(1)}`;
      const setLimit = (limit: number) =>
        session.query(`ALTER ${alter(role, url.pathname.slice(1))} CONNECTION LIMIT ${limit}`);
      await session.query(createUser(role));
      [url.username, url.password] = [role, role];
      await setLimit(20);
      assert.deepEqual(await problemsOf(url.href), []);
      await setLimit(5);
      const free = limited === 'the role' ? 4 : 3;
      const problem = `warn HOST: it allows ${free} more connections, and this copy of the service opens up to 13`;
      // A session of an earlier examination may still end meanwhile.
      await until(async () => (await problemsOf(url.href))[0] === problem, problem);
      assert.deepEqual(await problemsOf(superuser), []);
    });
  }

  it('reports a server without free connections, to every role', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    await session.query(createUser('crowded'));
    await Promise.all(Array.from({ length: 69 }, () => openSession(t, url.href)));
    [url.username, url.password] = ['crowded', 'crowded'];
    for (const [options, needed] of [
      [{}, 13],
      [{ processes: 3 }, 39],
      [{ processes: 3, hasStandbys: true }, 78],
    ] as const) {
      const problems = await problemsOf(url.href, options);
      const problem =
        /^warn HOST: it allows \d+ more connections, and this copy of the service opens up to (\d+)$/;
      assert.equal(Number(problem.exec(problems.at(-1) ?? '')?.[1]), needed);
    }
  });

  for (const name of ['fsync', 'full_page_writes']) {
    it(`reports a server whose data a crash can damage, with ${name} = off`, async (t) => {
      const other = closeAfter(t, await startPostgres({ ...durable, [name]: 'off' }));
      const problem = `PostgreSQL runs with ${name} = off: a crash can damage the database`;
      assert.deepEqual(await problemsOf(other.server.url()), [`warn HOST: ${problem}`]);
    });
  }

  for (const value of ['off', 'local']) {
    it(`accepts a server with synchronous_commit = ${value}, because commits of the service are durable`, async (t) => {
      const url = await createDatabase();
      await set(t, url, 'synchronous_commit', value);
      assert.deepEqual(await problemsOf(url), []);
    });
  }

  for (const [setting, value] of [
    ['synchronous_commit', 'off'],
    ['client_min_messages', 'error'],
  ] as const) {
    it(`reports ${setting} = ${value} only behind a pooler`, { skip: noPgBouncer }, async (t) => {
      const url = await createDatabase();
      await set(t, url, setting, value);
      assert.deepEqual(await problemsOf(url), []);
      const { through } = await startPgBouncer((end) => t.after(end), url);
      const problem = `${setting} is ${value}, and behind a connection pooler only the role can set it`;
      assert.deepEqual((await problemsOf(through(url))).at(-1), `fail HOST cannot be used: ${problem}`);
    });
  }

  it('reports sessions of a pooler whose statements have no time limit', {
    skip: noPgBouncer,
  }, async (t) => {
    const url = await createDatabase();
    const { through } = await startPgBouncer((end) => t.after(end), url);
    const problem =
      'warn HOST: a connection pooler is in front of PostgreSQL: set statement_timeout, lock_timeout, ' +
      'idle_in_transaction_session_timeout for the role or the database';
    assert.deepEqual(await problemsOf(through(url)), [problem]);
  });

  it('reports a lock that delays its statements, and a server that does not respond', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    const hanging = closeAfter(t, await openForwarder(postgres.server.port));
    hanging.freeze();
    await session.lock('users');
    const locked = examinePostgres(url.href);
    url.port = String(hanging.port);
    const [[slow], [silent]] = await Promise.all([locked, examinePostgres(url.href)]);
    assert.match(slow?.what ?? '', /cannot be used: canceling statement due to lock timeout$/);
    assert.match(silent?.what ?? '', /cannot be used: does not answer in time$/);
    assert.equal(silent?.remedy, 'check the URL, the server and the network');
  });

  it('reports a server whose connection is lost during the examination', async (t) => {
    const url = new URL(await createDatabase());
    const session = await openSession(t, url.href);
    const forwarder = closeAfter(t, await openForwarder(postgres.server.port));
    await session.lock('meta');
    url.port = String(forwarder.port);
    const examination = examinePostgres(url.href);
    await session.untilBlocked(1);
    forwarder.cut();
    const [lost, ...others] = await examination;
    assert.match(`${lost?.level} ${lost?.what}`, /^fail 127\.0\.0\.1:\d+ cannot be used: /);
    assert.deepEqual([lost?.remedy, others], ['check the URL, the server and the network', []]);
  });

  it('reports hosts that cannot be reached, and whether another host accepts writes', async (t) => {
    const url = await createDatabase();
    const several = url.replace('@', '@127.0.0.1:1,');
    const refused = 'HOST cannot be used: connect ECONNREFUSED HOST';
    assert.deepEqual(await problemsOf(several), [`warn ${refused}`]);
    assert.deepEqual(await problemsOf(several.replace(/,127[^/]*/, '')), [`fail ${refused}`]);
    await set(t, url, 'default_transaction_read_only', 'on');
    assert.deepEqual(await problemsOf(several), [`fail ${refused}`, 'fail no host takes writes']);
  });
});
