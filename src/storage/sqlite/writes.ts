import type { DatabaseSync, SQLInputValue, StatementResultingChanges, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import type { Origin } from '../../domain/change.ts';
import { changePrevented, keyReused } from '../../domain/errors.ts';
import type { Row } from '../../domain/kinds.ts';
import { byKind, type RecordKind, recordKinds } from '../../domain/record.ts';
import type { Created, IdempotencyKey } from '../../domain/repository.ts';
import { findSql } from '../sql.ts';
import { childTables, columnNames, type Key, recordValues, type Table, tables, toRecord } from '../tables.ts';
import { type ChangeLog, changeLog } from './changes.ts';

export type SqliteWrites = ReturnType<typeof sqliteWrites>;

/** An idempotency key with the time of its use. */
export type TimedKey = IdempotencyKey & { readonly now: number; readonly expiresAt: number };

type Expected = readonly number[] | undefined;

/**
 * The writes. Each is called inside a transaction that several writes share. A write that throws has no effect: its
 * first statement fails, or it undoes its own changes. If its change cannot be added, `changeLog` rolls back the group.
 */
export function sqliteWrites(db: DatabaseSync, changesKept: number) {
  const log = changeLog(db, changesKept);
  const once = createOnce(db);
  const inSavepoint = <T>(write: () => T): T => {
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
  const writes = byKind((kind) => tableWrites(db, tables[kind], log));

  return {
    create(kind: RecordKind, record: object, key?: TimedKey, origin?: Origin): Created<Row> | undefined {
      const insert = () => writes[kind].insert(record, origin);
      if (key !== undefined) return inSavepoint(() => once(key, insert));
      const value = insert();
      return value && { value, replayed: false };
    },
    update: (kind: RecordKind, key: Key, patch: object, expected?: Expected, origin?: Origin) =>
      writes[kind].update(key, patch, expected, origin),
    delete: (kind: RecordKind, key: Key, expected?: Expected, origin?: Origin) =>
      inSavepoint(() => writes[kind].delete(key, expected, origin)),

    importRows(kind: RecordKind, rows: readonly Row[]): number {
      return inSavepoint(() => {
        const added = rows.filter((row) => writes[kind].importRow(row)).length;
        if (added > 0) log.restart();
        return added;
      });
    },

    /** Writes without a change, to check whether writes succeed. */
    touch(): void {
      db.exec(`PRAGMA user_version = ${db.prepare('PRAGMA user_version').get()?.[0]}`);
    },

    continueIds(last: Readonly<Record<RecordKind, number>>): void {
      inSavepoint(() => {
        const raise = db.prepare('UPDATE sqlite_sequence SET seq = ?1 WHERE seq < ?1 AND name = ?2');
        const raised = recordKinds.filter((kind) => raise.run(last[kind], kind).changes > 0);
        if (raised.length > 0) log.restart();
      });
    },
  };
}

/** Runs a statement that changes one row. Fails if a trigger of another program prevents the change. */
function changeOne(statement: StatementSync, values: readonly SQLInputValue[]): StatementResultingChanges {
  const result = statement.run(...values);
  if (result.changes === 0) throw changePrevented();
  return result;
}

// Many rows are scattered over the whole index by title. With the usual cache, deleting them takes twice as long.
const manyRows = 100_000;
const manyRowsCacheKib = 32_768;

/** The writes to one table. Each adds its change to the feed. */
function tableWrites(db: DatabaseSync, table: Table, log: ChangeLog) {
  const { name, columns, draftColumns, patchColumns } = table;
  const insertSql = (into: Table['columns']) =>
    `INSERT INTO ${name} (${columnNames(into)}) VALUES (${into.map(() => '?').join(', ')})`;
  const insert = db.prepare(insertSql(draftColumns));
  const importing = db.prepare(`${insertSql(columns)} ON CONFLICT (id) DO NOTHING`);
  const set = patchColumns.map((column) => `${column.name} = ?`).join(', ');
  // The id is enough, because `findExpected` has checked the whole key in the same transaction.
  const update = db.prepare(`UPDATE ${name} SET ${set}, version = ? WHERE id = ?`);
  const remove = db.prepare(`DELETE FROM ${name} WHERE id = ?`);
  const find = db.prepare(findSql(table, '?'));
  const children = childTables(table).map((child) => {
    const from = `FROM ${child.name} WHERE user_id = ?`;
    const count = db.prepare(`SELECT count(*) ${from}`);
    const sql = `SELECT ${columnNames(child.columns)} ${from} ORDER BY id LIMIT -1 OFFSET ?`;
    return { ...child, count, rows: db.prepare(sql) };
  });
  /** Finds the record of a write; `undefined` if it is missing. Fails for another version. */
  const findExpected = (key: Key, expected: Expected): Row | undefined => {
    const row = find.get(...key);
    const record = row && toRecord<Row>(columns, row);
    if (record) table.checkVersion(record, expected);
    return record;
  };
  const findParent = byKind((kind) => db.prepare(`SELECT id FROM ${kind} WHERE id = ?`));
  const isOrphan = (record: object): boolean =>
    table.entriesOf(record).some(([{ parent }, id]) => parent && !findParent[parent].get(Number(id)));
  return {
    /** `undefined` if the record would belong to a missing record. */
    insert(draft: object, origin?: Origin): Row | undefined {
      if (isOrphan(draft)) return undefined;
      const values = recordValues(draftColumns, draft);
      const { lastInsertRowid } = changeOne(insert, values);
      const record = toRecord<Row>(columns, [Number(lastInsertRowid), ...values, 1]);
      log.add(`${table.record}.created`, record, origin);
      return record;
    },

    update(key: Key, patch: object, expected: Expected, origin?: Origin): Row | undefined {
      const record = findExpected(key, expected);
      if (record === undefined) return undefined;
      const next = table.patched(record, patch);
      if (next === record) return record;
      changeOne(update, [...recordValues(patchColumns, next), next.version, next.id]);
      log.add(`${table.record}.updated`, next, origin);
      return next;
    },

    delete(key: Key, expected: Expected, origin?: Origin): boolean {
      const record = findExpected(key, expected);
      if (record === undefined) return false;
      // The foreign key deletes the child records together with this one.
      for (const child of log.changesKept > 0 ? children : []) {
        const count = Number(child.count.get(record.id)?.[0]);
        if (count > manyRows) db.exec(`PRAGMA cache_size = -${manyRowsCacheKib}`);
        // The feed would remove the other changes again in this transaction.
        const unkept = Math.max(0, count - log.changesKept);
        if (unkept > 0) log.restart();
        for (const row of child.rows.iterate(record.id, unkept))
          log.add(`${child.record}.deleted`, toRecord<Row>(child.columns, row), origin);
      }
      changeOne(remove, [record.id]);
      log.add(`${table.record}.deleted`, record, origin);
      return true;
    },

    /** Whether the record is new. Fails if a different one has its id. */
    importRow(row: Row): boolean {
      const values = recordValues(columns, row);
      if (isOrphan(row)) throw table.userMissing(row.id);
      if (importing.run(...values).changes !== 0) return true;
      const kept = find.get(...recordValues(table.keys, row));
      if (!isDeepStrictEqual(kept, values)) throw table.rowDiffers(row.id);
      return false;
    },
  };
}

// Each new key removes up to ten expired ones. So the table shrinks after a burst, and no single write is slow.
const expiredKeysPerWrite = 10;

/** Makes a creation happen once for a key. The key of a creation without a result is not kept. */
function createOnce(db: DatabaseSync) {
  const find = db.prepare(
    'SELECT fingerprint, response FROM idempotency_keys WHERE key = ? AND expires_at > ?',
  );
  const keep = db.prepare(
    'INSERT OR REPLACE INTO idempotency_keys (key, fingerprint, response, expires_at) VALUES (?, ?, ?, ?)',
  );
  const dropExpired = db.prepare(`
    DELETE FROM idempotency_keys WHERE rowid IN (
      SELECT rowid FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ${expiredKeysPerWrite})`);

  return (timed: TimedKey, create: () => Row | undefined): Created<Row> | undefined => {
    const { key, fingerprint, now, expiresAt } = timed;
    const kept = find.get(key, now);
    if (kept !== undefined) {
      const { 0: keptFingerprint, 1: response } = kept;
      if (keptFingerprint !== fingerprint) throw keyReused();
      // A process of an earlier release stored posts without a version.
      return { value: { version: 1, ...JSON.parse(String(response)) }, replayed: true };
    }
    const value = create();
    if (value === undefined) return undefined;
    dropExpired.run(now);
    keep.run(key, fingerprint, JSON.stringify(value), expiresAt);
    return { value, replayed: false };
  };
}
