import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { SharedStoreOptions } from '../options.ts';
import { noTables } from '../store.ts';
import { diskError, isBusy } from './errors.ts';
import { checkLog, maxIdleLogBytes } from './file.ts';

/**
 * The migrations from an empty file to the current schema. A file's `user_version` is the number of applied ones. A
 * released migration must not change.
 *
 * SQLite adds the row id to each index, and reads an index backwards for the opposite order. Neighbouring names are
 * scattered over the table. So their index also contains the role, and a page by name does not read the table.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 2147483647),
    name TEXT NOT NULL,
    role TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL DEFAULT 1
  ) STRICT;
  CREATE INDEX users_by_name ON users (name, id, role);  -- sort=name
  CREATE INDEX users_by_role ON users (role);            -- sort=role; role=x
  CREATE INDEX users_by_role_name ON users (role, name); -- sort=role,name; role=x with sort=name
  CREATE INDEX users_by_role_desc_name ON users (role DESC, name); -- sort=-role,name

  CREATE TABLE posts (
    id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 2147483647),
    user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
    title TEXT NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
  CREATE INDEX posts_by_user ON posts (user_id);              -- a user's posts by id; the cascade
  CREATE INDEX posts_by_user_title ON posts (user_id, title); -- a user's posts by title

  CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    response TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

  -- One row for each table from the start, so that raising an id is an UPDATE.
  INSERT INTO sqlite_sequence (name, seq) VALUES ('users', 0), ('posts', 0);
  `,
  '',
  // Files of versions 1 and 2, which were never released, also have an index and a secret of cursors.
  'DROP INDEX IF EXISTS users_by_role_desc; DROP TABLE IF EXISTS meta',
  'ALTER TABLE posts ADD COLUMN version INTEGER NOT NULL DEFAULT 1',
  // Positions are never reused, since the last row is never deleted. In a file with records, the feed begins after
  // position 1, because the changes of these records are unknown.
  `
  CREATE TABLE changes (
    position INTEGER PRIMARY KEY,
    type TEXT NOT NULL,    -- empty where the feed restarts
    time INTEGER NOT NULL, -- in milliseconds
    record TEXT NOT NULL,  -- as JSON
    user_id INTEGER NOT NULL,
    request_id TEXT,
    key TEXT
  ) STRICT;
  CREATE TABLE feed (gone INTEGER NOT NULL) STRICT; -- one row: changes up to this position are not kept
  INSERT INTO feed (gone) SELECT max(seq) > 0 FROM sqlite_sequence;
  INSERT INTO changes (position, type, time, record, user_id) SELECT gone, '', 0, '', 0 FROM feed;
  `,
];

export const schemaVersion = migrations.length;

// The page cache of a connection. The system caches the file too, so more gains little, even with 10,000,000 users.
const cacheKib = 4_096;
// The length of the write-ahead log at which it is copied into the file, in pages.
const checkpointPages = 4_000;

// With a write-ahead log, a read waits only while another process recovers or removes the log. It blocks the thread of
// all requests, so the limit is short. The writer has a separate limit for the write lock.
const briefWaitMs = 100;

/** Opens a file that exists. Without `mode=rw`, SQLite would create a missing one. */
function open(path: string): DatabaseSync {
  checkLog(path);
  const url = pathToFileURL(path);
  url.search = 'mode=rw';
  // Rows are arrays, because creating an object with names takes longer than reading a row.
  return new DatabaseSync(url, { timeout: briefWaitMs, returnArrays: true });
}

/** Opens a connection, prepares the file, and applies the settings of all connections of the service. */
export function connect(path: string, prepare?: (db: DatabaseSync) => void): DatabaseSync {
  using opening = new DisposableStack();
  const db = opening.use(open(path));
  db.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON; -- on macOS, fsync leaves data in the cache of the drive
    PRAGMA temp_store = MEMORY; -- a temporary folder may be missing, such as in a read-only container
    PRAGMA cache_size = -${cacheKib};
    PRAGMA wal_autocheckpoint = ${checkpointPages};
    PRAGMA journal_size_limit = ${maxIdleLogBytes};
  `);
  prepare?.(db);
  opening.move();
  return db;
}

/** Whether the log of a file has no frames that SQLite knows. Uses another connection, so it may run in a transaction. */
export function isLogUnused(path: string): boolean {
  try {
    using other = connect(path);
    // Before SQLite 3.51, this is a checkpoint, and returns -1 while another process runs one.
    return Number(other.prepare('PRAGMA wal_checkpoint(NOOP)').get()?.[1]) <= 0;
  } catch {
    return false;
  }
}

/** Opens and prepares a connection to a file that other processes may use. */
export async function openShared(
  path: string,
  busyTimeoutMs: number,
  prepare: (db: DatabaseSync) => void,
): Promise<DatabaseSync> {
  const deadline = performance.now() + busyTimeoutMs;
  for (;;) {
    try {
      checkLogIndex(path);
      return connect(path, prepare);
    } catch (caught) {
      if (!isBusy(caught) || performance.now() > deadline) throw explained(path, caught);
    }
    // Another process is preparing the file. SQLite's busy timeout does not cover the switch to write-ahead logging.
    await sleep(5 + 20 * Math.random());
  }
}

/** Throws if another process uses the file without its -shm: a new one lets both overwrite each other's commits. */
function checkLogIndex(path: string): void {
  if (existsSync(`${path}-shm`)) return;
  // In this mode, SQLite needs no index, but no other process may have opened the file.
  using db = open(path);
  db.exec('PRAGMA locking_mode = EXCLUSIVE; SELECT 1 FROM sqlite_schema');
}

/** An error of SQLite with its cause, if the error itself does not say it. */
function explained(path: string, caught: unknown): unknown {
  if (!isBusy(caught) || existsSync(`${path}-shm`)) return diskError(caught) ?? caught;
  const problem = `the database is locked by another process, and ${path}-shm is missing`;
  return new Error(problem, { cause: caught });
}

/** Creates or migrates the tables. Afterwards the connection only reads. */
export function migrate(db: DatabaseSync, { mustExist, onWarning }: SharedStoreOptions = {}): void {
  // Check before the first write, so that a rejected file does not change.
  if (mustExist) requireTables(db);
  const isCurrent = findVersion(db) === schemaVersion;
  db.exec('PRAGMA journal_mode = WAL');
  if (!isCurrent) {
    // If a migration fails, `connect` closes the connection, and SQLite rolls back.
    db.exec('BEGIN IMMEDIATE');
    const version = findVersion(db);
    const text = `the schema is migrated from version ${version} to ${schemaVersion}, which may take minutes`;
    if (version > 0 && version < schemaVersion) onWarning?.(text);
    for (const migration of migrations.slice(version)) db.exec(migration);
    db.exec(`PRAGMA user_version = ${schemaVersion}; COMMIT`);
  }
  // This read ensures that the log file exists.
  db.exec('PRAGMA query_only = ON; SELECT 1 FROM sqlite_schema');
}

/** Throws when the file is not one of this service, or has no tables yet. */
export function requireTables(db: DatabaseSync): void {
  if (findVersion(db) === 0) throw noTables();
}

/** The version of the schema of a file. Throws when it is not one of this service. */
export function findVersion(db: DatabaseSync): number {
  // In one statement, so that all numbers are from the same moment. Every version has the tables counted in `ours`.
  const query = db.prepare(`
    SELECT user_version AS version, (SELECT count(*) FROM sqlite_schema) AS entries,
      (SELECT count(*) FROM sqlite_schema WHERE type = 'table'
        AND name IN ('users', 'posts', 'idempotency_keys')) AS ours
    FROM pragma_user_version`);
  const [version, entries, ours] = Object.values({ ...query.get() });
  if (version === 0 && ours === 3) {
    throw new Error('its user_version is 0, as after .dump: set it to that of the original file');
  }
  if (Number(version) < 0 || (version === 0 ? entries !== 0 : ours !== 3)) {
    throw new Error('it is the database of another program');
  }
  if (Number(version) > schemaVersion) throw new Error('a newer version of this service has written it');
  return Number(version);
}
