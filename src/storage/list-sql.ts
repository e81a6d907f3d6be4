import type { CursorSealer, Position } from '../domain/cursor.ts';
import type { ListQuery, Sort } from '../domain/list-query.ts';

/** Of which table a list shows which columns, in the SQL both databases share. */
export interface List {
  readonly table: string;
  readonly columns: string;
  /** Equality filters, by column. */
  readonly filter: Readonly<Record<string, string | number>>;
}

export type ListStart = { readonly offset: number } | { readonly after: Position };

/** Where a query starts, with its cursor opened; fails with `invalid` when that is of another list. */
export function startOf(sealer: CursorSealer, scope: string, { sort, start }: ListQuery<string>): ListStart {
  return 'offset' in start ? start : { after: sealer.open(scope, sort, start.cursor) };
}

export interface Condition {
  readonly field: string;
  readonly operator: '=' | '<' | '>';
  readonly value: string | number;
}

/** Takes a parameter and gives its place in the text: `?` for SQLite, `$n` for PostgreSQL. */
export type Bind = (value: string | number) => string;

/** The rows of a list that meet conditions, in order. Parameters are bound in the order of the text. */
export function selectSql(list: List, conditions: readonly Condition[], sort: Sort<string>, bind: Bind) {
  const filter = Object.entries(list.filter).map(([field, value]) => equal(field, value));
  const where = [...filter, ...conditions]
    .map((c) => `${c.field} ${c.operator} ${bind(c.value)}`)
    .join(' AND ');
  return `SELECT ${list.columns} FROM ${list.table}${where && ` WHERE ${where}`} ORDER BY ${orderSql(sort)}`;
}

export function orderSql(sort: Sort<string>): string {
  return sort.map((key) => `${key.field}${key.descending ? ' DESC' : ''}`).join(', ');
}

/**
 * The rows from a start on as ranges, the first in order first.
 *
 * Those behind a position (a, b, id) are not asked for as one OR, which no index answers, but as one
 * range a sort key: `k1 = a AND k2 = b AND id > i`, then `k1 = a AND k2 > b`, then `k1 > a`. Each is
 * a range of an index, of which a page takes as many rows as it lacks: it costs the same at any depth.
 */
export function rangesFrom(sort: Sort<string>, start: ListStart): Condition[][] {
  if ('offset' in start) return [[]];
  const before: Condition[] = [];
  const ranges: Condition[][] = [];
  for (const [i, { field, descending }] of sort.entries()) {
    const value = start.after[i];
    if (value === undefined) throw new Error('a position has a value for each sort key');
    ranges.unshift([...before, { field, operator: descending ? '<' : '>', value }]);
    before.push(equal(field, value));
  }
  return ranges;
}

export function equal(field: string, value: string | number): Condition {
  return { field, operator: '=', value };
}
