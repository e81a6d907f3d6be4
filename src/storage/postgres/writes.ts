import { keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import { maxVersion, versionsExhausted } from '../../domain/record.ts';
import type { WriteOptions } from '../../domain/repository.ts';
import type { Collection, Row } from '../store.ts';
import {
  columnNames,
  columnValues,
  editableColumns,
  givenColumns,
  keyColumns,
  recordValues,
  type Table,
  users,
} from '../tables.ts';
import { addChange, addDeletions, originValues } from './change-sql.ts';
import type { PostgresChanges } from './changes.ts';
import { type OnceRow, once } from './idempotency.ts';
import { type PostgresPool, prepared, type Sql } from './pool.ts';
import { fromRow, isKey, type NamedRow } from './rows.ts';

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
  const { columns } = table;
  const given = givenColumns(table);
  const edited = editableColumns(table);
  const { insert, insertOnce, update, remove } = feed === undefined ? plainWrites(table) : fedWrites(table);
  const write = async <R extends NamedRow>(
    sql: Sql,
    values: readonly unknown[],
    { origin }: WriteOptions,
  ) => {
    if (feed === undefined) return pool.write<R>(sql, values);
    const rows = await pool.write<R>(sql, [...values, ...originValues(origin)]);
    feed.written();
    return rows;
  };
  /** The record that a write has returned: with its change it comes as JSON. */
  const toRecord = (row: NamedRow) => fromRow<Row>(columns, feed === undefined ? row : Object(row['record']));
  const unchanged = prepared(unchangedSql(table));
  const find = prepared(`SELECT FROM ${table.name} WHERE ${isKey(table)}`);
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
      // A copy of an earlier release kept posts without a version, and may do so until it is replaced.
      const row = { version: 1, ...kept.response };
      return { value: fromRow<Row>(columns, row), replayed: kept.outcome === 'replayed' };
    },

    async update(key, patch, options = {}) {
      const values = [...key, options.expected, ...columnValues(edited, patch)];
      // Each turn but the last meets another write between its two statements.
      for (;;) {
        const [row] = await write<NamedRow>(update, values, options);
        if (row !== undefined) return toRecord(row);
        const [found] = await pool.write<UnchangedRow>(unchanged, values);
        if (found === undefined) return undefined;
        if (!found.is_expected) throw preconditionFailed(table.record, key[0]);
        if (found.is_same) return fromRow<Row>(columns, found);
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
  const given = givenColumns(table).map((column, i) => ({
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

/**
 * Changes a record unless it is as wanted already: no other row is written, and each row it returns is a change.
 * Takes the key, the versions that are expected, and the values of the editable columns, of which NULL is left.
 */
function updateSql(table: Table): string {
  const edits = editsOf(table).map(({ name, next }) => `${name} = ${next}`);
  return `
    UPDATE ${table.name} SET ${edits.join(', ')}, version = version + 1
    WHERE ${isKey(table)} AND ${isExpected(table)} AND version < ${maxVersion} AND NOT ${isSame(table)}
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
    SELECT ${columnNames(table.columns)}, ${isExpected(table)} AS is_expected, ${isSame(table)} AS is_same
    FROM ${table.name} WHERE ${isKey(table)} FOR KEY SHARE`;
}

/** Whether a record has the wanted values already. */
function isSame(table: Table): string {
  const edits = editsOf(table);
  const row = (texts: readonly string[]) => `(${texts.join(', ')})`;
  return `(${row(edits.map(({ next }) => next))} IS NOT DISTINCT FROM ${row(edits.map(({ name }) => name))})`;
}

function editsOf(table: Table): { name: string; next: string }[] {
  const first = keyColumns(table).length + 2;
  return editableColumns(table).map(({ name }, i) => ({ name, next: `COALESCE($${first + i}, ${name})` }));
}

function deleteSql(table: Table): string {
  return `
    DELETE FROM ${table.name} WHERE ${isKey(table)} AND ${isExpected(table)}
    RETURNING ${columnNames(table.columns)}`;
}

function plainWrites(table: Table) {
  return {
    insert: prepared(insertSql(table, 1)),
    insertOnce: prepared(once(insertSql(table, 4, 'turn'))),
    update: prepared(updateSql(table)),
    remove: prepared(deleteSql(table)),
  };
}

/** The writes that add their changes. The last two parameters of each are the origin. */
function fedWrites(table: Table) {
  const given = givenColumns(table).length;
  const key = keyColumns(table).length;
  // The lock on the user keeps others from adding posts. Only the function sees those added since the statement began.
  const deletions =
    table === users
      ? `taken AS (SELECT post.* FROM removed, take_posts(removed.id) AS post), change AS (${addDeletions(key + 2)})`
      : `change AS (${addChange(table, 'deleted', 'removed', key + 2)})`;
  return {
    insert: prepared(
      `WITH created AS (${insertSql(table, 1)}) ${addChange(table, 'created', 'created', given + 1)}`,
    ),
    insertOnce: prepared(
      once(insertSql(table, 4, 'turn'), addChange(table, 'created', 'created', given + 4)),
    ),
    update: prepared(
      `WITH changed AS (${updateSql(table)}) ${addChange(table, 'updated', 'changed', key + editableColumns(table).length + 2)}`,
    ),
    remove: prepared(`WITH removed AS (${deleteSql(table)}), ${deletions} SELECT id FROM removed`),
  };
}

/** Whether the version is one of those after the key. As float8 they may be any number a client can write. */
function isExpected(table: Table): string {
  const versions = `$${keyColumns(table).length + 1}::float8[]`;
  return `(${versions} IS NULL OR version = ANY (${versions}))`;
}
