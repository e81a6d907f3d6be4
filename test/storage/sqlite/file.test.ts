import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { rejects } from '../../../src/conformance/fixture.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import { connect } from '../../../src/storage/sqlite/schema.ts';
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../temporary.ts';

async function refusal(path: string): Promise<DomainError> {
  try {
    await (await openSqliteStore(path)).close();
  } catch (error) {
    assert(error instanceof DomainError);
    return error;
  }
  throw new assert.AssertionError({ message: `${path} was opened` });
}

describe('the file of a SQLite store', () => {
  it('is made with its folders', async () => {
    const path = join(temporaryFolder(), 'a', 'b c', 'ü?#%.db');
    await (await openSqliteStore(path)).close();
    assert.ok(existsSync(path));
  });

  it('leaves nothing beside it when the store is closed', async () => {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path);
    await store.createUser({ name: 'Ada' });
    await store.close();
    assert.deepEqual([existsSync(`${path}-wal`), existsSync(`${path}-shm`)], [false, false]);
  });

  it('is used in the safest settings', async () => {
    const path = join(temporaryFolder(), 'users.db');
    await (await openSqliteStore(path)).close();
    const db = connect(path);
    const pragma = (name: string) => Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
    assert.deepEqual([pragma('journal_mode'), pragma('synchronous'), pragma('foreign_keys')], ['wal', 2, 1]);
    db.close();
  });

  it('is switched to write-ahead logging when it comes from elsewhere without', async (t) => {
    const folder = temporaryFolder();
    const [path, copy] = [join(folder, 'users.db'), join(folder, 'copy.db')];
    await (await openSqliteStore(path)).close();
    const db = new DatabaseSync(path);
    db.exec(`VACUUM INTO '${copy}'`);
    db.close();
    const store = await openSqliteStore(copy);
    t.after(() => store.close());
    await store.createUser({ name: 'Ada' });
    assert.ok(existsSync(`${copy}-wal`));
  });

  it('is not read by writers of SQL: what a user is called stays data', async (t) => {
    const store = await openSqliteStore(join(temporaryFolder(), 'users.db'));
    t.after(() => store.close());
    await store.createUser({ name: "x'); DELETE FROM users; --" });
    assert.equal(await store.countUsers({}), 1);
  });

  describe('is refused, by its path and untouched,', () => {
    it('when a newer version of the service has written it', async () => {
      const path = join(temporaryFolder(), 'users.db');
      await (await openSqliteStore(path)).close();
      const db = new DatabaseSync(path);
      db.exec('PRAGMA user_version = 1000');
      db.close();
      const bytes = readFileSync(path);
      const { kind, message } = await refusal(path);
      assert.equal(kind, 'unavailable');
      assert.ok(message.includes(path) && message.includes('newer version'), message);
      assert.deepEqual(readFileSync(path), bytes);
    });

    it('when it is the database of another program', async () => {
      const path = join(temporaryFolder(), 'other.db');
      const db = new DatabaseSync(path);
      db.exec('CREATE TABLE users (login TEXT)');
      db.close();
      const bytes = readFileSync(path);
      const { message } = await refusal(path);
      assert.ok(message.includes(path) && message.includes('another program'), message);
      assert.deepEqual(readFileSync(path), bytes);
    });

    it('when it is no database', async () => {
      const path = join(temporaryFolder(), 'text.db');
      writeFileSync(path, 'some text that is longer than the header of a database file. '.repeat(20));
      const { message } = await refusal(path);
      assert.ok(message.includes(path) && message.includes('not a database'), message);
    });

    it('when it is a folder', async () => {
      const path = temporaryFolder();
      const { message } = await refusal(path);
      assert.ok(message.includes(path) && message.includes('unable to open'), message);
    });

    it('when its folder cannot be made', async () => {
      const file = join(temporaryFolder(), 'file');
      writeFileSync(file, '');
      const path = join(file, 'users.db');
      const { kind, message } = await refusal(path);
      assert.equal(kind, 'unavailable');
      assert.ok(message.includes(path), message);
    });

    for (const path of ['/proc/users-service/users.db', '/proc/a/b/c/users.db']) {
      it(`at once, when a folder takes no others: ${path}`, {
        skip: !existsSync('/proc') && 'no /proc',
      }, async () => {
        const { kind, message } = await refusal(path);
        assert.equal(kind, 'unavailable');
        assert.match(message, new RegExp(`^cannot open the SQLite file ${path}: ENOENT`));
      });
    }

    it('when another process keeps it locked', async (t) => {
      const path = join(temporaryFolder(), 'users.db');
      const db = new DatabaseSync(path);
      t.after(() => db.close());
      db.exec('CREATE TABLE t (x); BEGIN EXCLUSIVE');
      const opening = openSqliteStore(path, { busyTimeoutMs: 100 });
      await assert.rejects(
        opening,
        (error) => error instanceof DomainError && error.message.includes('locked'),
      );
    });
  });

  it('is unavailable when it is damaged while in use', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path);
    for (let i = 0; i < 50; i += 1) await store.createUser({ name: `user ${i}` });
    await store.close();
    const bytes = readFileSync(path);
    const db = new DatabaseSync(path);
    const { rootpage, page_size } = {
      ...db
        .prepare("SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'users'")
        .get(),
    };
    db.close();
    bytes.fill(0xff, (Number(rootpage) - 1) * Number(page_size), Number(rootpage) * Number(page_size));
    writeFileSync(path, bytes);
    const damaged = await openSqliteStore(path);
    t.after(() => damaged.close());
    await rejects(damaged.getUser(1), 'unavailable');
    await rejects(damaged.createUser({ name: 'Ada' }), 'unavailable');
    await rejects(damaged.ping(), 'unavailable');
  });
});

describe('the file of a SQLite store that is in use', () => {
  async function open(t: TestContext) {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path);
    t.after(() => store.close());
    await store.createUser({ name: 'Ada' });
    const notReady = async () => {
      const error = await store.ping().catch((caught: unknown) => caught);
      assert(error instanceof DomainError);
      assert.equal(error.kind, 'unavailable');
      assert.ok(String(error.cause).includes(`${path} has been removed or replaced`), String(error.cause));
      assert.ok(!error.message.includes(path), error.message);
    };
    await store.ping();
    return { path, store, notReady };
  }

  it('is missed by a ping when it is removed, and found when it is back', async (t) => {
    const { path, store, notReady } = await open(t);
    renameSync(path, `${path}.away`);
    await notReady();
    renameSync(`${path}.away`, path);
    await store.ping();
  });

  it('takes no writes while it is away: they would be gone with the process', async (t) => {
    const { path, store } = await open(t);
    renameSync(path, `${path}.away`);
    await rejects(store.createUser({ name: 'Bob' }), 'unavailable');
    renameSync(`${path}.away`, path);
    assert.equal((await store.createUser({ name: 'Bob' })).value.id, 2);
  });

  it('is missed by a ping when another file has its place', async (t) => {
    const { path, notReady } = await open(t);
    copyFileSync(path, `${path}.other`);
    renameSync(`${path}.other`, path);
    await notReady();
  });
});

describe('options of a SQLite store', () => {
  const bad: readonly SqliteStoreOptions[] = [
    { busyTimeoutMs: -1 },
    { busyTimeoutMs: 1.5 },
    { busyTimeoutMs: 60_001 },
    { busyTimeoutMs: Number.NaN },
    { maxPendingWrites: 0 },
    { maxPendingWrites: Number.POSITIVE_INFINITY },
    { idempotencyTtlMs: 0 },
  ];
  for (const options of bad) {
    const [[name, value] = []] = Object.entries(options);
    it(`refuse ${name} ${value}, naming it and its range`, async () => {
      const path = join(temporaryFolder(), 'users.db');
      const message = new RegExp(`^${name} must be a whole number from \\d+ to \\d+, not ${value}$`);
      await assert.rejects(openSqliteStore(path, options), { name: 'RangeError', message });
      assert.equal(existsSync(path), false);
    });
  }
});
