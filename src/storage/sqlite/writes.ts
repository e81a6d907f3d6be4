import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { DomainError, keyReused, preconditionFailed } from '../../domain/errors.ts';
import type { Post, PostDraft } from '../../domain/post.ts';
import type { Created, IdempotencyKey, StoreSummary } from '../../domain/repository.ts';
import type { StoredUser, UserDraft, UserPatch } from '../../domain/user.ts';
import { isMissingParent } from './errors.ts';
import { prepareRows, storedUserColumns, toStoredUser } from './rows.ts';

export interface TimedKey extends IdempotencyKey {
  readonly now: number;
  readonly expiresAt: number;
}

// Ten for each one added: the table shrinks after a burst, and no single write pays for all of it.
const expiredKeysPerWrite = 10;

/**
 * The writes, each called inside a transaction that others share. One that throws leaves no trace:
 * it is a single statement, or it undoes its own.
 */
export class SqliteWrites {
  readonly #db: DatabaseSync;
  readonly #insertUser: StatementSync;
  readonly #changeUser: StatementSync;
  readonly #deleteUser: StatementSync;
  readonly #findUser: StatementSync;
  readonly #insertPost: StatementSync;
  readonly #findKey: StatementSync;
  readonly #keepKey: StatementSync;
  readonly #dropExpiredKeys: StatementSync;

  constructor(db: DatabaseSync) {
    const isExpected = '(:expected IS NULL OR version IN (SELECT value FROM json_each(:expected)))';
    const changeUser = `
      UPDATE users
      SET name = coalesce(:name, name), role = coalesce(:role, role),
        version = version + (name IS NOT coalesce(:name, name) OR role IS NOT coalesce(:role, role))
      WHERE id = :id AND ${isExpected}
      RETURNING ${storedUserColumns}`;
    this.#db = db;
    this.#insertUser = db.prepare('INSERT INTO users (name, role) VALUES (?, ?)');
    this.#changeUser = prepareRows(db, changeUser);
    this.#deleteUser = db.prepare(`DELETE FROM users WHERE id = :id AND ${isExpected}`);
    this.#findUser = db.prepare('SELECT id FROM users WHERE id = ?');
    this.#insertPost = db.prepare(
      'INSERT INTO posts (user_id, title, body) SELECT id, :title, :body FROM users WHERE id = :userId',
    );
    this.#findKey = db.prepare(
      'SELECT fingerprint, response FROM idempotency_keys WHERE key = ? AND expires_at > ?',
    );
    this.#keepKey = db.prepare(
      'INSERT OR REPLACE INTO idempotency_keys (key, fingerprint, response, expires_at) VALUES (?, ?, ?, ?)',
    );
    this.#dropExpiredKeys = db.prepare(`
      DELETE FROM idempotency_keys WHERE rowid IN (
        SELECT rowid FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ${expiredKeysPerWrite})`);
  }

  createUser({ name, role }: UserDraft, key?: TimedKey): Created<StoredUser> {
    return this.#once(key, () => {
      const id = Number(this.#insertUser.run(name, role ?? '').lastInsertRowid);
      return role === undefined ? { id, name, version: 1 } : { id, name, role, version: 1 };
    });
  }

  createPost(userId: number, { title, body }: PostDraft, key?: TimedKey): Created<Post> | undefined {
    const { value, replayed } = this.#once(key, () => {
      const { changes, lastInsertRowid } = this.#insertPost.run({ userId, title, body });
      return changes === 0 ? undefined : { id: Number(lastInsertRowid), userId, title, body };
    });
    return value && { value, replayed };
  }

  updateUser(id: number, { name, role }: UserPatch, expected?: readonly number[]): StoredUser | undefined {
    const row = this.#changeUser.get({
      id,
      name: name ?? null,
      role: role === undefined ? null : (role ?? ''),
      expected: expected === undefined ? null : JSON.stringify(expected),
    });
    if (row !== undefined) return toStoredUser(row);
    if (this.#findUser.get(id) !== undefined) throw preconditionFailed(id);
    return undefined;
  }

  deleteUser(id: number, expected?: readonly number[]): boolean {
    const versions = expected === undefined ? null : JSON.stringify(expected);
    if (this.#deleteUser.run({ id, expected: versions }).changes !== 0) return true;
    if (this.#findUser.get(id) !== undefined) throw preconditionFailed(id);
    return false;
  }

  importUsers(users: readonly StoredUser[]): number {
    const rows = users.map(({ id, name, role, version }) => [id, name, role ?? '', version]);
    return this.#import('user', 'users', ['id', 'name', 'role', 'version'], rows);
  }

  importPosts(posts: readonly Post[]): number {
    const rows = posts.map(({ id, userId, title, body }) => [id, userId, title, body]);
    return this.#import('post', 'posts', ['id', 'user_id', 'title', 'body'], rows);
  }

  continueIds({ lastUserId, lastPostId }: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>): void {
    this.#db
      .prepare("UPDATE sqlite_sequence SET seq = max(seq, CASE name WHEN 'users' THEN ? ELSE ? END)")
      .run(lastUserId, lastPostId);
  }

  #import(what: string, table: string, columns: readonly string[], rows: readonly SQLInputValue[][]): number {
    const values = columns.map(() => '?').join(', ');
    const insert = this.#db.prepare(
      `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${values}) ON CONFLICT (id) DO NOTHING`,
    );
    const findSame = this.#db.prepare(
      `SELECT id FROM ${table} WHERE ${columns.map((column) => `${column} = ?`).join(' AND ')}`,
    );
    return this.#undoable(() => {
      let added = 0;
      for (const row of rows) {
        if (insert.run(...row).changes !== 0) added += 1;
        else if (findSame.get(...row) === undefined) {
          throw new DomainError('conflict', `${what} ${row[0]} is there already and differs`);
        }
      }
      return added;
    });
  }

  #once<T extends object | undefined>(key: TimedKey | undefined, create: () => T): Created<T> {
    if (key === undefined) return { value: create(), replayed: false };
    return this.#undoable(() => {
      const kept = this.#findKey.get(key.key, key.now);
      if (kept !== undefined) {
        const { fingerprint, response } = kept;
        if (fingerprint !== key.fingerprint) throw keyReused();
        return { value: JSON.parse(String(response)), replayed: true };
      }
      const value = create();
      if (value !== undefined) {
        this.#dropExpiredKeys.run(key.now);
        this.#keepKey.run(key.key, key.fingerprint, JSON.stringify(value), key.expiresAt);
      }
      return { value, replayed: false };
    });
  }

  #undoable<T>(write: () => T): T {
    this.#db.exec('SAVEPOINT write');
    try {
      const result = write();
      this.#db.exec('RELEASE write');
      return result;
    } catch (caught) {
      // On a full disk or an I/O error SQLite may have ended the whole transaction by itself.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK TO write; RELEASE write');
      throw isMissingParent(caught) ? new DomainError('conflict', 'a post has no user') : caught;
    }
  }
}
