import { type Column, keyColumns, type Table } from '../tables.ts';

export interface IdRow {
  readonly id: number;
}

export interface CountRow {
  readonly count: number;
}

/** A row by the names of its columns, as the driver gives it. */
export type NamedRow = Readonly<Record<string, unknown>>;

/** The condition that finds one record; the parameters from $1 on are its key. */
export function isKey(table: Table): string {
  const conditions = keyColumns(table).map(({ name }, i) => `${name} = $${i + 1}`);
  return conditions.join(' AND ');
}

/** Makes a record of a row. */
export function fromRow<T>(columns: readonly Column[], row: NamedRow): T {
  const record: Record<string, unknown> = {};
  for (const { name, field, absent } of columns) {
    if (row[name] !== absent) record[field] = row[name];
  }
  // The table's description is where a record's shape and its columns meet.
  return record as T;
}
