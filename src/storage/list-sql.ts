import type { Position } from '../domain/cursor.ts';
import type { Sort } from '../domain/list-query.ts';

/** A statement in the SQL both databases share, and its parameters in order. */
export interface Statement {
  readonly sql: string;
  readonly parameters: readonly (string | number)[];
}

export interface ListPlan {
  readonly table: string;
  readonly columns: string;
  /** Equality filters, by column. */
  readonly filter: Readonly<Record<string, string | number>>;
  readonly sort: Sort<string>;
  readonly limit: number;
  /** Whether the text has the limit, not a parameter: for a planner that cannot guess how few it asks for. */
  readonly inlineLimit?: boolean;
  readonly start: { readonly offset: number } | { readonly after: Position };
}

/** Writes the n-th parameter, from 1: `?` for SQLite, `$n` for PostgreSQL. */
export type Placeholder = (n: number) => string;

/**
 * The statement for one page of a list.
 *
 * The rows behind a position (a, b, id) are not asked for as one OR, which no index answers, but as
 * one range a sort key, the last first: `k1 = a AND k2 = b AND id > i`, `k1 = a AND k2 > b`,
 * `k1 > a`. Each is an index range of at most `limit` rows, so a page costs the same at any depth.
 */
export function listSql(plan: ListPlan, placeholder: Placeholder): Statement {
  const parameters: (string | number)[] = [];
  const bind = (value: string | number) => placeholder(parameters.push(value));
  const { sort, start } = plan;
  const order = sort.map((key) => `${key.field}${key.descending ? ' DESC' : ''}`).join(', ');
  const filter = Object.entries(plan.filter);

  // Parameters are bound in the order of the text, since `?` knows no other.
  const select = (range: readonly Condition[], tail: () => string): string => {
    const conditions = [...filter.map(([field, value]) => ({ field, operator: '=', value })), ...range];
    const where = conditions.map((c) => `${c.field} ${c.operator} ${bind(c.value)}`).join(' AND ');
    const from = `SELECT ${plan.columns} FROM ${plan.table}${where && ` WHERE ${where}`}`;
    return `${from} ORDER BY ${order} ${tail()}`;
  };

  const limit = () => `LIMIT ${plan.inlineLimit ? plan.limit : bind(plan.limit)}`;

  if ('offset' in start) {
    const offset = () => (start.offset === 0 ? '' : ` OFFSET ${bind(start.offset)}`);
    return { sql: select([], () => limit() + offset()), parameters };
  }
  const ranges = rangesAfter(sort, start.after).map((range, i) => {
    return `SELECT * FROM (${select(range, limit)}) AS range_${i}`;
  });
  if (ranges.length === 1) return { sql: ranges.join(), parameters };
  const union = ranges.join(' UNION ALL ');
  return { sql: `SELECT * FROM (${union}) AS page ORDER BY ${order} ${limit()}`, parameters };
}

interface Condition {
  readonly field: string;
  readonly operator: string;
  readonly value: string | number;
}

function rangesAfter(sort: Sort<string>, position: Position): Condition[][] {
  const equal: Condition[] = [];
  const ranges: Condition[][] = [];
  for (const [i, { field, descending }] of sort.entries()) {
    const value = position[i];
    if (value === undefined) throw new Error('a position has a value for each sort key');
    ranges.unshift([...equal, { field, operator: descending ? '<' : '>', value }]);
    equal.push({ field, operator: '=', value });
  }
  return ranges;
}
