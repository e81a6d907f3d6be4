import { keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import { maxVersion, versionsExhausted } from '../../domain/record.ts';
import type { ChangeOptions } from '../../domain/repository.ts';
import { deleteSql, expectedVersions, isChange, isKey, updateSql } from '../sql.ts';
import type { Collection, Row } from '../store.ts';
import { columnNames, fromNames, type NamedRow, patchValues, recordValues, type Table } from '../tables.ts';
import { addChange, originValues, withChange, withDeletions } from './change-sql.ts';
import type { PostgresChanges } from './changes.ts';
import { type OnceRow, once } from './idempotency.ts';
import { type PostgresPool, prepared, type Sql } from './pool.ts';

export interface WriteSettings {
  readonly idempotencyTtlMs: number;
  /** Absent: no changes are kept. */
  readonly feed: PostgresChanges | undefined;
}

/** The writes of a table. Each is one statement, which is a transaction by itself, and adds its change. */
export function postgresWrites(
  pool: PostgresPool,
  table: Table,
  { idempotencyTtlMs, feed }: WriteSettings,
): Pick<Collection, 'create' | 'update' | 'delete'> {
  const { columns, given, edited } = table;
  const { insert, insertOnce, update, remove } = statements(table, feed !== undefined);
  const write = async <R extends NamedRow>(
    sql: Sql,
    values: readonly unknown[],
    { origin }: ChangeOptions,
  ) => {
    if (feed === undefined) return pool.write<R>(sql, values);
    const rows = await pool.write<R>(sql, [...values, ...originValues(origin)]);
    feed.written();
    return rows;
  };
  /** Converts the row that a write has returned. With a feed, it contains the record as JSON. */
  const toRecord = (row: NamedRow) =>
    fromNames<Row>(columns, feed === undefined ? row : Object(row['record']));
  const unchanged = prepared(unchangedSql(table));
  const find = prepared(`SELECT FROM ${table.name} WHERE ${isKey(table, '$')}`);
  return {
    async create(record, options = {}) {
      const values = recordValues(given, record);
      if (options.idempotency === undefined) {
        const [row] = await write<NamedRow>(insert, values, options);
        return row && { value: toRecord(row), replayed: false };
      }
      const { key, fingerprint } = options.idempotency;
      const once = [key, fingerprint, idempotencyTtlMs, ...values];
      const [kept] = await write<OnceRow<NamedRow>>(insertOnce, once, options);
      if (kept === undefined) return undefined;
      if (kept.outcome === 'busy') throw keyInUse();
      if (kept.fingerprint !== fingerprint) throw keyReused();
      // A copy of an earlier release stores posts without a version, and may still be running.
      const row = { version: 1, ...kept.response };
      return { value: fromNames<Row>(columns, row), replayed: kept.outcome === 'replayed' };
    },

    async update(key, patch, options = {}) {
      const values = [...key, options.expected, ...patchValues(edited, patch)];
      // A retry is necessary only if another write came between the two statements.
      for (;;) {
        const [row] = await write<NamedRow>(update, values, options);
        if (row !== undefined) return toRecord(row);
        const [found] = await pool.write<UnchangedRow>(unchanged, values);
        if (found === undefined) return undefined;
        if (!found.is_expected) throw preconditionFailed(table.record, key[0]);
        if (found.is_same) return fromNames<Row>(columns, found);
        if (found.version >= maxVersion) throw versionsExhausted(table.record, key[0]);
      }
    },

    async delete(key, options = {}) {
      const [row] = await write<NamedRow>(remove, [...key, options.expected], options);
      if (row !== undefined) return true;
      // Even if its version is an expected one by now. A record that was made since was not there.
      if (options.expected !== undefined && (await pool.read(find, key)).length > 0) {
        throw preconditionFailed(table.record, key[0]);
      }
      return false;
    },
  };
}

/**
 * Adds the given columns, $n from `first` on, for each row of `source` if there is one. The lock makes it
 * wait for a deletion under way of the record that it would belong to, and then find none. Ids are given
 * only to records that are made, so requests below what is not there cannot use them up.
 */
function insertSql(table: Table, first: number, source?: string): string {
  const given = table.given.map((column, i) => ({
    ...column,
    place: `$${first + i}::${column.type}`,
  }));
  const parents = given.filter(({ parent }) => parent !== undefined);
  const sources = [...parents.map(({ parent }) => parent), ...(source === undefined ? [] : [source])];
  const conditions = parents.map(({ parent, place }) => `${parent}.id = ${place}`);
  return `
    INSERT INTO ${table.name} (${columnNames(given)}) SELECT ${given.map(({ place }) => place).join(', ')}
    ${sources.length > 0 ? `FROM ${sources.join(', ')}` : ''}
    ${parents.length > 0 ? `WHERE ${conditions.join(' AND ')} FOR KEY SHARE OF ${parents.map(({ parent }) => parent)}` : ''}
    RETURNING ${columnNames(table.columns)}`;
}

interface UnchangedRow extends NamedRow {
  readonly version: number;
  readonly is_expected: boolean;
  readonly is_same: boolean;
}

/**
 * Finds out why an update, which takes the same parameters, met no row. The lock makes its transaction one that
 * writes: with synchronous replication, its commit waits until a standby has the record that it returns.
 */
function unchangedSql(table: Table): string {
  return `
    SELECT ${columnNames(table.columns)}, ${isExpected(table)} AS is_expected,
      NOT (${isChange(table, '$')}) AS is_same
    FROM ${table.name} WHERE ${isKey(table, '$')} FOR KEY SHARE`;
}

/** The writes; with a feed they add their changes, and the last two parameters of each are the origin. */
function statements(table: Table, hasFeed: boolean) {
  const given = table.given.length;
  const expected = table.keys.length + 1;
  const edited = table.edited.length;
  const insert = insertSql(table, 1);
  const insertOnce = insertSql(table, 4, 'turn');
  const update = updateSql(table, '$', isExpected(table));
  const remove = deleteSql(table, '$', isExpected(table));
  if (!hasFeed) {
    return {
      insert: prepared(insert),
      insertOnce: prepared(once(insertOnce)),
      update: prepared(update),
      remove: prepared(remove),
    };
  }
  return {
    insert: prepared(withChange(table, 'created', insert, given + 1)),
    insertOnce: prepared(once(insertOnce, addChange(table, 'created', given + 4))),
    update: prepared(withChange(table, 'updated', update, expected + edited + 1)),
    remove: prepared(withDeletions(table, remove, expected + 1)),
  };
}

/** Whether the version is one of those after the key. As float8 they may be any number a client can write. */
function isExpected(table: Table): string {
  const versions = `${expectedVersions(table, '$')}::float8[]`;
  return `(${versions} IS NULL OR version = ANY (${versions}))`;
}
