import { DomainError, preconditionFailed } from '../domain/errors.ts';
import type { Records, Row } from '../domain/kinds.ts';
import { maxVersion, nameOf, type RecordKind, recordKinds } from '../domain/record.ts';

/** A column of a table, and the field of its records that it holds. */
export interface Column {
  readonly name: string;
  readonly field: string;
  readonly type: 'integer' | 'text';
  /** The value for an absent field. Not NULL, which cannot be compared with a position; the empty text sorts first. */
  readonly absent?: '';
  /** The kind of record that this one belongs to. The column contains its id. */
  readonly parent?: RecordKind;
  /** Whether a filter contains a prefix. Otherwise it contains the whole value, or a list of values. */
  readonly byPrefix?: true;
}

/** A resource for all stores: its columns, from which statements and row mappings are derived, and its rules. */
export type Table = Readonly<ReturnType<typeof describe>>;

export const tables: Readonly<Record<RecordKind, Table>> = {
  users: describe('users', {
    id: { name: 'id', type: 'integer' },
    name: { name: 'name', type: 'text', byPrefix: true },
    role: { name: 'role', type: 'text', absent: '' },
    version: { name: 'version', type: 'integer' },
  }),
  posts: describe('posts', {
    id: { name: 'id', type: 'integer' },
    userId: { name: 'user_id', type: 'integer', parent: 'users' },
    title: { name: 'title', type: 'text', byPrefix: true },
    body: { name: 'body', type: 'text' },
    version: { name: 'version', type: 'integer' },
  }),
};

/**
 * Describes a table by the column of each field of its records. A field without a column does not compile. The keys come
 * first, then the columns that a change can set, then the version: `patched` relies on this order.
 */
function describe<Kind extends RecordKind>(
  kind: Kind,
  fields: Readonly<Record<keyof Records[Kind] & string, Omit<Column, 'field'>>>,
) {
  const entries = Object.entries<Omit<Column, 'field'>>(fields);
  const columns = entries.map(([field, column]): Column => ({ field, ...column }));
  const record = nameOf(kind);
  const keys = columns.filter(({ name, parent }) => name === 'id' || parent !== undefined);
  const draftColumns = columns.filter(({ name }) => name !== 'id' && name !== 'version');
  const patchColumns = draftColumns.filter(({ parent }) => parent === undefined);
  return {
    name: kind,
    /** The name of one record, in messages and types of changes. */
    record,
    columns,
    /** The columns that identify a record: its id and the id of the record that it belongs to, if any. */
    keys,
    /** The columns of a creation: all except the id and the version, which the store sets. */
    draftColumns,
    /** The columns that a patch can set. */
    patchColumns,
    /** The columns of a list: all except the version. */
    listColumns: columns.filter(({ name }) => name !== 'version'),

    /** Fails unless a record has one of the expected versions; `undefined` for any version. */
    checkVersion(row: Row, expected?: readonly number[]): void {
      if (expected?.includes(row.version) === false) throw preconditionFailed(record, row.id);
    },

    /** The next version of a record, with a patch; the record itself if the patch changes nothing. */
    patched(row: Row, patch: object): Row {
      const current = recordValues(patchColumns, row);
      const values = patchValues(patchColumns, patch).map((value, i) => value ?? current[i]);
      if (values.every((value, i) => value === current[i])) return row;
      if (row.version >= maxVersion) {
        const message = `${record} ${row.id} has reached the highest version and cannot be changed again`;
        throw new DomainError('conflict', message, { isFinal: true });
      }
      return toRecord(columns, [...recordValues(keys, row), ...values, row.version + 1]);
    },

    /** The values of a filter or a draft, each with its column. */
    entriesOf(filter: object): readonly (readonly [Column, FilterValue])[] {
      const values: Readonly<Record<string, FilterValue | undefined>> = { ...filter };
      return columns.flatMap((column) => {
        const value = values[column.field];
        return value === undefined ? [] : [[column, value] as const];
      });
    },

    rowDiffers: (id: number) => new DomainError('conflict', `${record} ${id} is there already and differs`),

    userMissing: (id: number) => new DomainError('conflict', `${record} ${id} has no user`),
  };
}

type FilterValue = string | number | readonly number[];

/** The values of the key columns, which identify a record. */
export type Key = readonly [id: number, ...others: number[]];

/** The tables whose records belong to those of this one, and are deleted with them. */
export function childTables({ name }: Table): readonly Table[] {
  return recordKinds
    .map((kind) => tables[kind])
    .filter(({ columns }) => columns.some(({ parent }) => parent === name));
}

export function columnNames(columns: readonly Column[]): string {
  return columns.map(({ name }) => name).join(', ');
}

/** The values of a record in the order of the columns. An absent field becomes the absent value of its column. */
export function recordValues(columns: readonly Column[], record: object): (string | number)[] {
  const fields = record as Readonly<Record<string, string | number | undefined>>;
  return columns.map(({ field, absent = '' }) => fields[field] ?? absent);
}

/** The values for an update; `null` for a field that the patch lacks. A `null` in it becomes the absent value. */
export function patchValues(columns: readonly Column[], patch: object): (string | number | null)[] {
  const fields = patch as Readonly<Record<string, string | number | null | undefined>>;
  return columns.map(({ field, absent = '' }) => (fields[field] === null ? absent : (fields[field] ?? null)));
}

/** Converts a row with values in the order of the columns into a record. */
export function toRecord<Row>(columns: readonly Column[], values: Readonly<Record<number, unknown>>): Row {
  const record: Record<string, unknown> = {};
  for (let i = 0; i < columns.length; i += 1) {
    const column = columns[i];
    if (column !== undefined && values[i] !== column.absent) record[column.field] = values[i];
  }
  // The description of the table ensures that the type of the record matches its columns.
  return record as Row;
}

export type NamedRow = Readonly<Record<string, unknown>>;

/** Converts a row with the names of its columns into a record. */
export function fromNames<Row>(columns: readonly Column[], row: NamedRow): Row {
  // A change or response that was stored before a column was added does not contain it.
  const values = columns.map(({ name, absent }) => row[name] ?? absent);
  return toRecord(columns, values);
}
