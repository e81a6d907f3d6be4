import { DomainError } from '../domain/errors.ts';
import { type RecordKind, type RecordName, recordKinds } from '../domain/record.ts';
import { afterPrefix } from '../domain/text.ts';
import type { Condition } from './list-sql.ts';

/** A column of a table, and the field of its records that it holds. */
export interface Column {
  readonly name: string;
  readonly field: string;
  readonly type: 'integer' | 'text';
  /**
   * What the column holds where the field is absent. Never NULL: the empty text sorts before every
   * other, as the contract has it, and keeps NULL out of the comparisons that pages are made of.
   */
  readonly absent?: '';
  /** The table of the record that this one belongs to, whose id the column holds. */
  readonly parent?: RecordKind;
  /** Whether a filter has the beginning of what it looks for. Otherwise it has all of it, or a list of which it is one. */
  readonly byPrefix?: true;
  /** Whether an update may change it. */
  readonly editable?: true;
}

/** All that both databases know of a resource; their statements and the mapping of their rows come from it. */
export interface Table {
  readonly name: RecordKind;
  /** One of its records, in messages and types of changes. */
  readonly record: RecordName;
  readonly columns: readonly Column[];
}

export const users: Table = {
  name: 'users',
  record: 'user',
  columns: [
    { name: 'id', field: 'id', type: 'integer' },
    { name: 'name', field: 'name', type: 'text', byPrefix: true, editable: true },
    { name: 'role', field: 'role', type: 'text', absent: '', editable: true },
    { name: 'version', field: 'version', type: 'integer' },
  ],
};

export const posts: Table = {
  name: 'posts',
  record: 'post',
  columns: [
    { name: 'id', field: 'id', type: 'integer' },
    { name: 'user_id', field: 'userId', type: 'integer', parent: 'users' },
    { name: 'title', field: 'title', type: 'text', byPrefix: true, editable: true },
    { name: 'body', field: 'body', type: 'text', editable: true },
    { name: 'version', field: 'version', type: 'integer' },
  ],
};

export const tables: Readonly<Record<RecordKind, Table>> = { users, posts };

/** What finds a record: the values of its table's key columns. */
export type Key = readonly [id: number, ...others: number[]];

/** The tables whose records belong to those of this one, and are deleted with them. */
export function childTables({ name }: Table): readonly Table[] {
  return recordKinds
    .map((kind) => tables[kind])
    .filter(({ columns }) => columns.some(({ parent }) => parent === name));
}

/** What a list shows: all but the version. */
export function listColumns({ columns }: Table): readonly Column[] {
  return columns.filter(({ name }) => name !== 'version');
}

/** What a creation gives: all but what the store does. */
export function givenColumns({ columns }: Table): readonly Column[] {
  return columns.filter(({ name }) => name !== 'id' && name !== 'version');
}

/** What a record is found by: its id and, where it belongs to another one, that one's. */
export function keyColumns({ columns }: Table): readonly Column[] {
  return columns.filter(({ name, parent }) => name === 'id' || parent !== undefined);
}

export function editableColumns({ columns }: Table): readonly Column[] {
  return columns.filter(({ editable }) => editable);
}

export function columnNames(columns: readonly Column[]): string {
  return columns.map(({ name }) => name).join(', ');
}

/** A record's values by column. Of a patch: what it does not name is `undefined`, what it removes is absent. */
export function columnValues(columns: readonly Column[], record: object): (string | number | undefined)[] {
  const fields = record as Readonly<Record<string, string | number | null | undefined>>;
  return columns.map(({ field, absent = '' }) => (fields[field] === null ? absent : fields[field]));
}

/** As `columnValues`, of a whole record, in which an absent field has its column's value. */
export function recordValues(columns: readonly Column[], record: object): (string | number)[] {
  const fields = record as Readonly<Record<string, string | number | undefined>>;
  return columns.map(({ field, absent = '' }) => fields[field] ?? absent);
}

/** Makes a record of a row; its values stand in the order of the columns. */
export function toRecord<Row>(
  columns: readonly Column[],
  values: Readonly<Record<number, unknown>>,
  known?: object,
): Row {
  const record: Record<string, unknown> = { ...known };
  for (let i = 0; i < columns.length; i += 1) {
    const column = columns[i];
    if (column !== undefined && values[i] !== column.absent) record[column.field] = values[i];
  }
  // The table's description is where a record's shape and its columns meet.
  return record as Row;
}

/** A row by the names of its columns. */
export type NamedRow = Readonly<Record<string, unknown>>;

export function fromNames<Row>(columns: readonly Column[], row: NamedRow): Row {
  return toRecord(
    columns,
    columns.map(({ name }) => row[name]),
  );
}

type FilterValue = string | number | readonly number[];

/** The columns that a filter is about, each with the value that it gives. */
export function filterColumns(
  { columns }: Table,
  filter: object,
): readonly (readonly [Column, FilterValue])[] {
  const fields: Readonly<Record<string, FilterValue | undefined>> = { ...filter };
  return columns.flatMap((column) => {
    const value = fields[column.field];
    return value === undefined ? [] : [[column, value] as const];
  });
}

/** What rows have to meet to be in a list with this filter. */
export function filterConditions(table: Table, filter: object): readonly Condition[] {
  return filterColumns(table, filter).flatMap(([{ name, byPrefix }, value]): Condition[] => {
    const fields = [name];
    if (typeof value === 'object') return [{ fields, operator: 'in', values: value }];
    if (byPrefix === undefined) return [{ fields, operator: '=', values: [value] }];
    const end = afterPrefix(String(value));
    const conditions: Condition[] = [{ fields, operator: '>=', values: [value] }];
    return end === undefined ? conditions : [...conditions, { fields, operator: '<', values: [end] }];
  });
}

/** The failure of an import of a record whose id another one has. */
export function rowDiffers(kind: RecordKind, id: number): DomainError {
  return new DomainError('conflict', `${tables[kind].record} ${id} is there already and differs`);
}

/** The failure of an import of a record of no user. */
export function userMissing(kind: RecordKind, id: number): DomainError {
  return new DomainError('conflict', `${tables[kind].record} ${id} has no user`);
}
