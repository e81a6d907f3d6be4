import type { PageStart } from '../domain/list-query.ts';
import type { Sort } from '../domain/position.ts';
import { compareText } from '../domain/text.ts';

/** The table, columns and conditions of a list, for the SQL that both databases share. */
export interface List {
  readonly table: string;
  readonly columns: string;
  readonly filter: readonly Condition[];
}

/** A row comparison of columns with as many values: `(name, id) > (?, ?)`. `in` compares one column with any value. */
export interface Condition {
  readonly fields: readonly string[];
  readonly operator: '=' | '<' | '>' | '>=' | 'in';
  readonly values: readonly (string | number)[];
}

/**
 * Adds a parameter and returns its placeholder: `?` for SQLite, `$n` for PostgreSQL. For a list it
 * returns the comparison with any of its values, which differs between the databases.
 */
export type Bind = (value: string | number | readonly (string | number)[]) => string;

/** Selects the rows of a list that meet conditions. Parameters are bound in the order of the text. */
export function selectSql({ table, columns, filter }: List, conditions: readonly Condition[], bind: Bind) {
  const [named] = filter.filter(({ operator }) => operator === 'in');
  const source = named === undefined ? table : namedRows(table, named, bind);
  const needed = filter.filter(
    (one) => one !== named && !conditions.some((condition) => implies(condition, one)),
  );
  const where = [...needed, ...conditions].map(({ fields, operator, values }) => {
    const places = values.map(bind);
    return fields.length === 1
      ? `${fields[0]} ${operator} ${places[0]}`
      : `(${fields.join(', ')}) ${operator} (${places.join(', ')})`;
  });
  return `SELECT ${columns} FROM ${source}${where.length > 0 ? ` WHERE ${where.join(' AND ')}` : ''}`;
}

/**
 * Selects the rows with one of some ids. The limit keeps this a separate query. Without it, a database might use the
 * index of another condition, or of the order, and read most of the table for a few rows.
 */
function namedRows(table: string, { fields, values }: Condition, bind: Bind): string {
  return `(SELECT * FROM ${table} WHERE ${fields[0]} ${bind(values)} LIMIT ${bind(values.length)}) AS ${table}`;
}

/**
 * Whether a position makes a bound of a prefix unnecessary. With both conditions, a database may use the wider one
 * for the start of its range, and read all rows before the position.
 */
function implies({ fields, operator, values }: Condition, bound: Condition): boolean {
  const [value, limit] = [values[0], bound.values[0]];
  if (fields[0] !== bound.fields[0] || typeof value !== 'string' || typeof limit !== 'string') return false;
  const order = compareText(value, limit);
  if (bound.operator === '>=') return operator !== '<' && order >= 0;
  return bound.operator === '<' && operator !== '>' && order < 0;
}

export function orderSql(sort: Sort<string>): string {
  return sort.map((key) => `${key.field}${key.descending ? ' DESC' : ''}`).join(', ');
}

/**
 * The rows after a start, as ranges of an index. By `k1, k2` the rows after (a, b, id) are the rest of
 * the tie, `k1 = a AND k2 = b AND id > i`, and all following rows, `(k1, k2) > (a, b)`. If the keys
 * change direction, each part is a range: by `k1, -k2` the tie, `k1 = a AND k2 < b`, and `k1 > a`.
 * So a page costs the same at any depth. The id is separate, since row comparisons of SQLite cannot use it.
 */
export function rangesFrom(sort: Sort<string>, start: PageStart): Condition[][] {
  if ('offset' in start) return [[]];
  const ranges: Condition[][] = [];
  const before: Condition[] = [];
  for (let i = 0; i < sort.length; ) {
    const { descending } = sort[i] ?? {};
    let end = i + 1;
    while (end < sort.length - 1 && sort[end]?.descending === descending) end += 1;
    const fields = sort.slice(i, end).map((key) => key.field);
    const values = start.after.slice(i, end);
    ranges.push([...before, { fields, operator: descending ? '<' : '>', values }]);
    before.push({ fields, operator: '=', values });
    i = end;
  }
  return ranges;
}
