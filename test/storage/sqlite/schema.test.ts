import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { byKind } from '../../../src/domain/record.ts';
import { connect, migrate } from '../../../src/storage/sqlite/schema.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import { checkMigrated } from '../migrated.ts';

const version1 = readFileSync(new URL('version-1.sql', import.meta.url), 'utf8');
const versions: Readonly<Record<number, string>> = {
  1: version1,
  2: `${version1}; DROP INDEX users_by_role_desc; PRAGMA user_version = 2`,
  3: `${version1}; DROP INDEX users_by_role_desc; DROP TABLE meta; PRAGMA user_version = 3`,
};

function schemaOf(path: string): string[] {
  const db = new DatabaseSync(path);
  const schema = db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY type, name').all();
  const version = db.prepare('PRAGMA user_version').all();
  db.close();
  return [...version, ...schema].map((row) => JSON.stringify(row).replace(/( |\\n)+/g, ' '));
}

it('a new SQLite file has a row in sqlite_sequence for each kind of record, whose last id can then be raised', () => {
  const path = join(temporaryFolder(), 'users.db');
  writeFileSync(path, '');
  using db = connect(path, migrate);
  const rows = db.prepare('SELECT name, seq FROM sqlite_sequence').all();
  assert.deepEqual(rows, Object.entries(byKind(() => 0)));
});

it('a SQLite file on a full disk is not opened, with the code of SQLite in the error', async (t) => {
  const path = join(temporaryFolder(), 'users.db');
  const full = Object.assign(new Error('database or disk is full'), { errcode: 13 });
  t.mock.method(DatabaseSync.prototype, 'exec', () => {
    throw full;
  });
  await assert.rejects(openSqliteStore(path), /: database or disk is full \(code 13 of SQLite\)$/);
});

it('a SQLite file with the current schema is opened while another process writes', () => {
  const path = join(temporaryFolder(), 'users.db');
  writeFileSync(path, '');
  using writer = connect(path, migrate);
  writer.exec('PRAGMA query_only = OFF; BEGIN IMMEDIATE');
  using db = connect(path, migrate);
  assert.deepEqual(db.prepare('SELECT id FROM users').all(), []);
});

describe('a SQLite file of an earlier version', () => {
  for (const [version, sql] of Object.entries(versions)) {
    it(`of version ${version} keeps its rows and gets the current schema`, async (t) => {
      const folder = temporaryFolder();
      const [path, fresh] = [join(folder, 'old.db'), join(folder, 'fresh.db')];
      const db = new DatabaseSync(path);
      db.exec(sql);
      db.close();
      const warnings: string[] = [];
      const onWarning = (message: string) => warnings.push(message);
      const store = await openSqliteStore(path, { onWarning, mustExist: true });
      t.after(() => store.close());
      const from = `the schema is migrated from version ${version} to `;
      assert.deepEqual([warnings.length, warnings[0]?.startsWith(from)], [1, true]);
      await checkMigrated(store);
      for (const file of [fresh, path]) await (await openSqliteStore(file, { onWarning })).close();
      assert.equal(warnings.length, 1, 'a new file and a current one need no migration');
      assert.deepEqual(schemaOf(path), schemaOf(fresh));
    });
  }

  it('is unchanged and unlocked after a migration that fails', async () => {
    const path = join(temporaryFolder(), 'users.db');
    using db = new DatabaseSync(path);
    // The last migration creates this table.
    db.exec(`${versions[3]}; CREATE TABLE changes (id)`);
    const before = schemaOf(path);
    const error = await openSqliteStore(path).catch((caught) => caught);
    assert.match(error.message, /table changes already exists$/);
    assert.equal(error.cause?.code, 'ERR_SQLITE_ERROR', 'the log also gets the error of SQLite');
    assert.deepEqual(schemaOf(path), before);
    db.exec('BEGIN IMMEDIATE');
  });

  it('is only read by the connection that has migrated it', () => {
    const path = join(temporaryFolder(), 'users.db');
    writeFileSync(path, '');
    using db = connect(path, migrate);
    assert.throws(() => db.exec(`INSERT INTO users (name) VALUES ('Ada')`), /readonly database/);
  });
});
