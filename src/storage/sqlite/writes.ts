import type { DatabaseSync } from 'node:sqlite';
import type { Origin } from '../../domain/change.ts';
import { preconditionFailed } from '../../domain/errors.ts';
import { byKind, type RecordKind, recordKinds, versionsExhausted } from '../../domain/record.ts';
import type { Created } from '../../domain/repository.ts';
import type { Row } from '../store.ts';
import {
  childTables,
  columnNames,
  columnValues,
  editableColumns,
  givenColumns,
  type Key,
  recordValues,
  rowDiffers,
  type Table,
  tables,
  toRecord,
  userMissing,
} from '../tables.ts';
import { deleteSql, expectedVersions, updateSql } from '../write-sql.ts';
import { type ChangeLog, changeLog } from './change-log.ts';
import { isMissingParent } from './errors.ts';
import { createOnce, type TimedKey } from './idempotency.ts';
import { findSql, prepareRows } from './reads.ts';

export type SqliteWrites = ReturnType<typeof sqliteWrites>;

type Expected = readonly number[] | undefined;

/**
 * The writes. Each is called inside a transaction that several writes share. A write that throws has no effect: it is
 * a single statement, or it undoes its own changes.
 */
export function sqliteWrites(db: DatabaseSync, changesKept: number) {
  const log = changeLog(db, changesKept);
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
  const writes = byKind((kind) => recordWrites(db, tables[kind], log));
  const hasChildren = byKind((kind) => childTables(tables[kind]).length > 0);

  return {
    create(kind: RecordKind, record: object, key?: TimedKey, origin?: Origin): Created<Row> | undefined {
      const { value, replayed } = once(key, () => writes[kind].insert(record, origin));
      return value && { value, replayed };
    },
    update: (kind: RecordKind, key: Key, patch: object, expected?: Expected, origin?: Origin) =>
      writes[kind].update(key, patch, expected, origin),
    delete(kind: RecordKind, key: Key, expected?: Expected, origin?: Origin): boolean {
      const remove = () => writes[kind].delete(key, expected, origin);
      if (!hasChildren[kind]) return remove();
      return undoable(() => {
        // Read the child records before they are deleted together with this record.
        log.addDeletionsBelow(kind, key[0], origin);
        return remove();
      });
    },

    importRows(kind: RecordKind, rows: readonly Row[]): number {
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
        if (added > 0) log.restart();
        return added;
      });
    },

    /** Writes without a change, to check whether writes succeed. */
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

/** The writes of a record of one table, each with its change. */
function recordWrites(db: DatabaseSync, table: Table, log: ChangeLog) {
  const given = givenColumns(table);
  const edited = editableColumns(table);
  const insert = db.prepare(insertSql(table));
  const update = prepareRows(db, updateSql(table, '?', isExpected(table)));
  const remove = prepareRows(db, deleteSql(table, '?', isExpected(table)));
  const find = prepareRows(db, findSql(table));
  /** Finds the record after a write that changed no row; `undefined` if it is missing. Fails for another version. */
  const unchanged = (key: Key, expected: Expected): Row | undefined => {
    const row = find.get(...key);
    const record = row && toRecord<Row>(table.columns, row);
    if (record && expected?.includes(record.version) === false)
      throw preconditionFailed(table.record, key[0]);
    return record;
  };
  return {
    /** `undefined` when it would belong to a missing record. */
    insert(draft: object, origin?: Origin): Row | undefined {
      const values = recordValues(given, draft);
      const { changes, lastInsertRowid } = insert.run(...values);
      if (changes === 0) return undefined;
      const record = toRecord<Row>(table.columns, [Number(lastInsertRowid), ...values, 1]);
      log.add(`${table.record}.created`, record, origin);
      return record;
    },

    update(key: Key, patch: object, expected: Expected, origin?: Origin): Row | undefined {
      const values = columnValues(edited, patch).map((value) => value ?? null);
      const row = update.get(...key, jsonOf(expected), ...values);
      if (row === undefined) {
        const record = unchanged(key, expected);
        const current = record && recordValues(edited, record);
        if (current?.every((value, i) => value === (values[i] ?? value)) === false) {
          throw versionsExhausted(table.record, key[0]);
        }
        return record;
      }
      const record = toRecord<Row>(table.columns, row);
      log.add(`${table.record}.updated`, record, origin);
      return record;
    },

    delete(key: Key, expected: Expected, origin?: Origin): boolean {
      const row = remove.get(...key, jsonOf(expected));
      if (row !== undefined) log.add(`${table.record}.deleted`, toRecord<Row>(table.columns, row), origin);
      else unchanged(key, expected);
      return row !== undefined;
    },
  };
}

/** Inserts a row with the given columns, unless the record that it would belong to is missing. */
function insertSql(table: Table): string {
  const given = givenColumns(table);
  const parents = given.flatMap(({ parent }, i) =>
    parent === undefined ? [] : `EXISTS (SELECT 1 FROM ${parent} WHERE id = ?${i + 1})`,
  );
  const places = given.map((_, i) => `?${i + 1}`).join(', ');
  const rows =
    parents.length === 0 ? `VALUES (${places})` : `SELECT ${places} WHERE ${parents.join(' AND ')}`;
  return `INSERT INTO ${table.name} (${columnNames(given)}) ${rows}`;
}

function isExpected(table: Table): string {
  const versions = expectedVersions(table, '?');
  return `(${versions} IS NULL OR version IN (SELECT value FROM json_each(${versions})))`;
}

function jsonOf(expected: Expected): string | null {
  return expected === undefined ? null : JSON.stringify(expected);
}
