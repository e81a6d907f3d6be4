import { maxVersion } from '../domain/record.ts';
import { columnNames, editableColumns, keyColumns, type Table } from './tables.ts';

/** The prefix of a parameter number: `?` in SQLite, `$` in PostgreSQL. */
export type Mark = '?' | '$';

/** The condition that finds one record; the first parameters are its key. */
export function isKey(table: Table, mark: Mark): string {
  const conditions = keyColumns(table).map(({ name }, i) => `${name} = ${mark}${i + 1}`);
  return conditions.join(' AND ');
}

/** The parameter after the key: the versions of which the record must have one, or NULL. */
export function expectedVersions(table: Table, mark: Mark): string {
  return `${mark}${keyColumns(table).length + 1}`;
}

/**
 * Whether a record differs from the wanted values. The values of the editable columns follow the versions; NULL means
 * unchanged.
 */
export function isChange(table: Table, mark: Mark): string {
  return edits(table, mark)
    .map(({ name, next }) => `${name} IS DISTINCT FROM ${next}`)
    .join(' OR ');
}

/** Changes a record unless it already has the wanted values, so that each returned row is a change. */
export function updateSql(table: Table, mark: Mark, isExpected: string): string {
  const set = edits(table, mark).map(({ name, next }) => `${name} = ${next}`);
  return `
    UPDATE ${table.name} SET ${set.join(', ')}, version = version + 1
    WHERE ${isKey(table, mark)} AND ${isExpected} AND version < ${maxVersion} AND (${isChange(table, mark)})
    RETURNING ${columnNames(table.columns)}`;
}

export function deleteSql(table: Table, mark: Mark, isExpected: string): string {
  return `
    DELETE FROM ${table.name} WHERE ${isKey(table, mark)} AND ${isExpected}
    RETURNING ${columnNames(table.columns)}`;
}

function edits(table: Table, mark: Mark): { name: string; next: string }[] {
  const first = keyColumns(table).length + 2;
  return editableColumns(table).map(({ name }, i) => ({
    name,
    next: `COALESCE(${mark}${first + i}, ${name})`,
  }));
}
