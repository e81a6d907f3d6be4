import type { PageStart, Sort } from '../domain/list-query.ts';
import { afterPrefix, compareText } from '../domain/text.ts';
import { columnNames, type Table } from './tables.ts';

/** The table, columns and conditions of a list, for the SQL that both databases share. */
export type List = ReturnType<typeof listOf>;

export function listOf(table: Table, filter: object, columns = columnNames(table.listColumns)) {
  const conditions = table.entriesOf(filter).flatMap(([{ name: field, byPrefix }, value]): Condition[] => {
    if (typeof value === 'object') return [{ field, operator: 'in', value }];
    if (byPrefix === undefined) return [{ field, operator: '=', value }];
    const start: Condition = { field, operator: '>=', value };
    const end = afterPrefix(String(value));
    return end === undefined ? [start] : [start, { field, operator: '<', value: end }];
  });
  return { table: table.name, columns, filter: conditions };
}

/** A comparison of a column with a value. `in` compares it with any of several values. */
export type Condition = { readonly field: string } & (
  | { readonly operator: '=' | '<' | '>' | '>='; readonly value: string | number }
  | { readonly operator: 'in'; readonly value: readonly number[] }
);

/** Adds a parameter and returns its placeholder; for a list, the comparison with any of its values. */
export type Bind = (value: string | number | readonly (string | number)[]) => string;

/** Selects the rows of a list that meet conditions. Parameters are bound in the order of the text. */
export function selectSql({ table, columns, filter }: List, conditions: readonly Condition[], bind: Bind) {
  const byIds = filter.find((one) => one.operator === 'in');
  // Its limit makes a database evaluate this subquery first, and not read most of the table along another index.
  const source =
    byIds === undefined
      ? table
      : `(SELECT * FROM ${table} WHERE ${byIds.field} ${bind(byIds.value)} ${limitSql(bind(byIds.value.length))}) AS ${table}`;
  const needed = filter.filter((one) => one !== byIds && !conditions.some((other) => implies(other, one)));
  const where = [...needed, ...conditions].map((one) => `${one.field} ${one.operator} ${bind(one.value)}`);
  return `SELECT ${columns} FROM ${source}${where.length > 0 ? ` WHERE ${where.join(' AND ')}` : ''}`;
}

/** Whether a position makes a bound of a prefix redundant. With both, a database may begin at the wider one. */
function implies({ field, operator, value }: Condition, bound: Condition): boolean {
  if (field !== bound.field || typeof value !== 'string' || typeof bound.value !== 'string') return false;
  const order = compareText(value, bound.value);
  if (bound.operator === '>=') return operator !== '<' && order >= 0;
  return bound.operator === '<' && operator !== '>' && order < 0;
}

/** A limit, written as an expression: with a plain parameter, SQLite would plan the statement again for each call. */
export function limitSql(parameter: string): string {
  return `LIMIT ${parameter} + 0`;
}

export function orderSql(sort: Sort<string>): string {
  return sort.map((key) => `${key.field}${key.descending ? ' DESC' : ''}`).join(', ');
}

/**
 * The rows after a start, as ranges of an index. By `k1, -k2, id`, the rows after (a, b, i) are the rest of the tie,
 * `k1 = a AND k2 = b AND id > i`, then `k1 = a AND k2 < b`, and then `k1 > a`. So a page costs the same at any depth.
 */
export function rangesFrom(sort: Sort<string>, start: PageStart): Condition[][] {
  if ('offset' in start) return [[]];
  const tie: Condition[] = [];
  return sort.map(({ field, descending }, i) => {
    const value = start.after[i] ?? '';
    const range: Condition[] = [...tie, { field, operator: descending ? '<' : '>', value }];
    tie.push({ field, operator: '=', value });
    return range;
  });
}

/** The prefix of a parameter number: `?` in SQLite, `$` in PostgreSQL. */
export type Mark = '?' | '$';

/** The condition that finds one record; the first parameters are its key. */
export function keySql(table: Table, mark: Mark): string {
  return table.keys.map(({ name }, i) => `${name} = ${mark}${i + 1}`).join(' AND ');
}

export function findSql(table: Table, mark: Mark): string {
  return `SELECT ${columnNames(table.columns)} FROM ${table.name} WHERE ${keySql(table, mark)}`;
}
