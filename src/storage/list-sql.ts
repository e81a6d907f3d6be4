import type { PageStart } from '../domain/list-query.ts';
import type { Sort } from '../domain/position.ts';

/** Of which table a list shows which columns, in the SQL both databases share. */
export interface List {
  readonly table: string;
  readonly columns: string;
  /** Equality filters, by column. */
  readonly filter: Readonly<Record<string, string | number>>;
}

/** A comparison of columns with as many values, as rows: `(name, id) > (?, ?)`. */
export interface Condition {
  readonly fields: readonly string[];
  readonly operator: '=' | '<' | '>';
  readonly values: readonly (string | number)[];
}

/** Takes a parameter and gives its place in the text: `?` for SQLite, `$n` for PostgreSQL. */
export type Bind = (value: string | number) => string;

/** The rows of a list that meet conditions. Parameters are bound in the order of the text. */
export function selectSql({ table, columns, filter }: List, conditions: readonly Condition[], bind: Bind) {
  const fixed = Object.entries(filter).map(
    ([field, value]): Condition => ({ fields: [field], operator: '=', values: [value] }),
  );
  const where = [...fixed, ...conditions].map(({ fields, operator, values }) => {
    const places = values.map(bind);
    return fields.length === 1
      ? `${fields[0]} ${operator} ${places[0]}`
      : `(${fields.join(', ')}) ${operator} (${places.join(', ')})`;
  });
  return `SELECT ${columns} FROM ${table}${where.length > 0 ? ` WHERE ${where.join(' AND ')}` : ''}`;
}

export function orderSql(sort: Sort<string>): string {
  return sort.map((key) => `${key.field}${key.descending ? ' DESC' : ''}`).join(', ');
}

/**
 * The rows from a start on, as ranges of an index. By `k1, k2` those after (a, b, id) are the rest of
 * the tie, `k1 = a AND k2 = b AND id > i`, and all that follow it, `(k1, k2) > (a, b)`. Where the keys
 * turn direction there is a range for each: by `k1, -k2` the tie, `k1 = a AND k2 < b`, and `k1 > a`.
 * So a page costs the same at any depth. The id stands alone since no row comparison of SQLite takes it.
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
