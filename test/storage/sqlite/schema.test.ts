import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { checkMigrated } from '../migrated.ts';
import { temporaryFolder } from '../temporary.ts';

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

describe('a SQLite file of an earlier version', () => {
  for (const [version, sql] of Object.entries(versions)) {
    it(`of version ${version} keeps its rows and gets the current schema`, async (t) => {
      const folder = temporaryFolder();
      const [path, fresh] = [join(folder, 'old.db'), join(folder, 'fresh.db')];
      const db = new DatabaseSync(path);
      db.exec(sql);
      db.close();
      const store = await openSqliteStore(path);
      t.after(() => store.close());
      await checkMigrated(store);
      await (await openSqliteStore(fresh)).close();
      assert.deepEqual(schemaOf(path), schemaOf(fresh));
    });
  }
});
