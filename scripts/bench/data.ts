import { hash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openSqliteStore } from '../../src/storage/sqlite/store.ts';
import { report } from './progress.ts';

export const listedRole = 'editor';

const chunk = 100_000;

// The same rows on every machine. The order of names differs from the order of ids, as with real data. One
// user in ten is an editor, for lists with a filter.
const insertUsers = `
  INSERT INTO users (id, name, role)
  WITH RECURSIVE ids (id) AS (SELECT :first UNION ALL SELECT id + 1 FROM ids WHERE id < :last)
  SELECT id,
    printf('%s %s %06d',
      json_extract('["Ada","Alan","Barbara","Donald","Edsger","Frances","Grace","John","Ken","Margaret"]',
        '$[' || ((id * 48271) % 99991 % 10) || ']'),
      json_extract('["Allen","Dijkstra","Hamilton","Hopper","Knuth","Liskov","Lovelace","McCarthy","Turing"]',
        '$[' || ((id * 48271) % 99989 % 9) || ']'),
      (id * 48271) % 999983),
    CASE WHEN id % 10 = 1 THEN '${listedRole}' WHEN id % 100 = 2 THEN 'admin' WHEN id % 3 = 0 THEN 'member' ELSE '' END
  FROM ids`;

const insertPosts = `
  INSERT INTO posts (id, user_id, title, body)
  WITH RECURSIVE ids (id) AS (SELECT :first UNION ALL SELECT id + 1 FROM ids WHERE id < :last)
  SELECT id, 1, printf('Post %07d', id), printf('%.100c', 'x') FROM ids`;

/** The file with this many users, and posts of user 1. It is created if it is missing. */
export async function dataFile(folder: string, users: number, posts = 0): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const unfinished = join(folder, `unfinished-${process.pid}.db`);
  // The schema of the service.
  await (await openSqliteStore(unfinished)).close();
  const db = new DatabaseSync(unfinished);
  // The name of the file depends on the schema.
  const schema = db.prepare('SELECT group_concat(sql) AS sql FROM sqlite_schema').get()?.['sql'];
  const version = hash('sha256', String(schema)).slice(0, 8);
  const path = join(folder, `users-${users}-posts-${posts}-${version}.db`);
  if (existsSync(path)) {
    db.close();
    for (const suffix of ['', '-wal', '-shm']) rmSync(unfinished + suffix, { force: true });
    return path;
  }
  db.exec('PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000');
  const indexes = db
    .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    .all()
    .map(({ name, sql }) => ({ name: String(name), sql: String(sql) }));
  // Sorting once is much faster than inserting each row into the indexes.
  for (const { name } of indexes) db.exec(`DROP INDEX ${name}`);
  report(`making ${users.toLocaleString('en')} users and ${posts.toLocaleString('en')} posts`);
  insert(db, insertUsers, users);
  insert(db, insertPosts, posts);
  for (const { sql } of indexes) db.exec(sql);
  db.exec("UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(id), 0) FROM users) WHERE name = 'users'");
  db.exec("UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(id), 0) FROM posts) WHERE name = 'posts'");
  db.exec('PRAGMA journal_mode = WAL');
  db.close();
  renameSync(unfinished, path);
  return path;
}

function insert(db: DatabaseSync, sql: string, count: number): void {
  const statement = db.prepare(sql);
  for (let first = 1; first <= count; first += chunk) {
    const last = Math.min(first + chunk - 1, count);
    // Numbers would be bound as floats, and values computed from them would be floats too.
    statement.run({ first: BigInt(first), last: BigInt(last) });
  }
}

/** This many ids, spread over all users. */
export function spreadIds(users: number, count: number): number[] {
  // With a multiplier without common factors, no id is repeated before all were used.
  return Array.from({ length: Math.min(count, users) }, (_, i) => ((i * 7_368_787) % users) + 1);
}
