import type { DatabaseSync } from 'node:sqlite';
import { preconditionFailed } from '../../domain/errors.ts';
import type { Post, PostDraft } from '../../domain/post.ts';
import { maxVersion, versionsExhausted } from '../../domain/record.ts';
import { type Created, type RecordKind, type Records, recordKinds } from '../../domain/repository.ts';
import type { StoredUser, UserDraft, UserPatch } from '../../domain/user.ts';
import {
  type Column,
  columnNames,
  columnValues,
  editableColumns,
  posts,
  recordValues,
  rowDiffers,
  type Table,
  tables,
  toRecord,
  userMissing,
  users,
} from '../tables.ts';
import { isMissingParent } from './errors.ts';
import { createOnce, type TimedKey } from './idempotency.ts';
import { prepareRows } from './reads.ts';

export type SqliteWrites = ReturnType<typeof sqliteWrites>;

type Expected = readonly number[] | undefined;

/**
 * The writes, each called inside a transaction that others share. One that throws leaves no trace:
 * it is a single statement, or it undoes its own.
 */
export function sqliteWrites(db: DatabaseSync) {
  const [userColumns, postColumns] = [givenColumns(users), givenColumns(posts)];
  const insertUser = db.prepare(`INSERT INTO users (${columnNames(userColumns)}) VALUES (?, ?)`);
  const insertPost = db.prepare(
    `INSERT INTO posts (${columnNames(postColumns)}) SELECT ?, ?, ? FROM users WHERE id = ?`,
  );
  const updateUser = prepareRows(db, updateSql(users));
  const deleteUser = db.prepare(`DELETE FROM users WHERE id = ?1 AND ${isExpected('?2')}`);
  const findVersion = prepareRows(db, 'SELECT version FROM users WHERE id = ?');
  const createOnceFor = createOnce(db);

  const undoable = <T>(write: () => T): T => {
    db.exec('SAVEPOINT write');
    try {
      const result = write();
      db.exec('RELEASE write');
      return result;
    } catch (caught) {
      // On a full disk or an I/O error SQLite may have ended the whole transaction by itself.
      if (db.isTransaction) db.exec('ROLLBACK TO write; RELEASE write');
      throw caught;
    }
  };
  const once = <T>(key: TimedKey | undefined, create: () => T): Created<T> =>
    key === undefined ? { value: create(), replayed: false } : undoable(() => createOnceFor(key, create));
  /** Why a change met no row: there is none (`undefined`), or it is of another version. */
  const refuse = (id: number, expected: Expected): undefined => {
    const version = findVersion.get(id)?.[0];
    if (version === undefined) return undefined;
    throw expected?.includes(Number(version)) === false
      ? preconditionFailed(id)
      : versionsExhausted('user', id);
  };

  return {
    createUser(draft: UserDraft, key?: TimedKey): Created<StoredUser> {
      return once(key, () => {
        const values = recordValues(userColumns, draft);
        const { lastInsertRowid } = insertUser.run(...values);
        return toRecord<StoredUser>(users.columns, [Number(lastInsertRowid), ...values, 1]);
      });
    },

    updateUser(id: number, patch: UserPatch, expected?: readonly number[]): StoredUser | undefined {
      const values = columnValues(editableColumns(users), patch).map((value) => value ?? null);
      const row = updateUser.get(...values, id, jsonOf(expected));
      return row === undefined ? refuse(id, expected) : toRecord<StoredUser>(users.columns, row);
    },

    deleteUser(id: number, expected?: readonly number[]): boolean {
      if (deleteUser.run(id, jsonOf(expected)).changes !== 0) return true;
      refuse(id, expected);
      return false;
    },

    createPost(userId: number, draft: PostDraft, key?: TimedKey): Created<Post> | undefined {
      const { value, replayed } = once(key, () => {
        const values = recordValues(postColumns, { ...draft, userId });
        const { changes, lastInsertRowid } = insertPost.run(...values, userId);
        return changes === 0
          ? undefined
          : toRecord<Post>(posts.columns, [Number(lastInsertRowid), ...values]);
      });
      return value && { value, replayed };
    },

    importRows<Kind extends RecordKind>(kind: Kind, rows: readonly Records[Kind][]): number {
      const { columns } = tables[kind];
      const places = columns.map(() => '?').join(', ');
      const insert = db.prepare(
        `INSERT INTO ${kind} (${columnNames(columns)}) VALUES (${places}) ON CONFLICT (id) DO NOTHING`,
      );
      const findSame = db.prepare(
        `SELECT id FROM ${kind} WHERE ${columns.map(({ name }) => `${name} = ?`).join(' AND ')}`,
      );
      return undoable(() => {
        let added = 0;
        for (const row of rows) {
          const values = recordValues(columns, row);
          try {
            if (insert.run(...values).changes !== 0) added += 1;
            else if (findSame.get(...values) === undefined) throw rowDiffers(kind, row.id);
          } catch (caught) {
            throw isMissingParent(caught) ? userMissing(kind, row.id) : caught;
          }
        }
        return added;
      });
    },

    /** Writes, and changes nothing: to see whether writes succeed. */
    touch(): void {
      const { user_version } = { ...db.prepare('PRAGMA user_version').get() };
      db.exec(`PRAGMA user_version = ${user_version}`);
    },

    continueIds(last: Readonly<Record<RecordKind, number>>): void {
      const raise = db.prepare('UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?');
      for (const kind of recordKinds) raise.run(last[kind], kind);
    },
  };
}

/** What a creation gives: all but what the store does. */
function givenColumns({ columns }: Table): readonly Column[] {
  return columns.filter(({ name }) => name !== 'id' && name !== 'version');
}

/** Sets what is not NULL of the editable columns, ?1 and on; then come the id and the versions that are expected. */
function updateSql(table: Table): string {
  const edits = editableColumns(table).map(({ name }, i) => ({ name, next: `coalesce(?${i + 1}, ${name})` }));
  const changes = edits.map(({ name, next }) => `${name} IS NOT ${next}`).join(' OR ');
  const [id, expected] = [`?${edits.length + 1}`, `?${edits.length + 2}`];
  return `
    UPDATE ${table.name} SET ${edits.map(({ name, next }) => `${name} = ${next}`).join(', ')},
      version = version + (${changes})
    WHERE id = ${id} AND ${isExpected(expected)} AND (version < ${maxVersion} OR NOT (${changes}))
    RETURNING ${columnNames(table.columns)}`;
}

function isExpected(versions: string): string {
  return `(${versions} IS NULL OR version IN (SELECT value FROM json_each(${versions})))`;
}

function jsonOf(expected: Expected): string | null {
  return expected === undefined ? null : JSON.stringify(expected);
}
