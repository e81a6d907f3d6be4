import type { PageStart } from '../../domain/list-query.ts';
import type { Sort } from '../../domain/position.ts';
import { type List, orderSql, rangesFrom, selectSql } from '../list-sql.ts';

/** A statement and its parameters in order. */
interface Statement {
  readonly sql: string;
  readonly parameters: readonly (string | number)[];
}

/**
 * The statement for so many rows of a list from its start on; one, because each costs a journey. The
 * limit is part of its text, since the planner cannot guess how few a parameter asks for.
 */
export function listStatement(list: List, sort: Sort<string>, limit: number, start: PageStart): Statement {
  const parameters: (string | number)[] = [];
  const bind = (value: string | number): string => `$${parameters.push(value)}`;
  const order = indexed(sort, list.filter);
  const ranges = rangesFrom(order, start).map(
    (range) => `${selectSql(list, range, bind)} ORDER BY ${orderSql(order)} LIMIT ${limit}`,
  );
  const [only] = ranges;
  if (ranges.length === 1 && only !== undefined) {
    const offset = 'offset' in start && start.offset > 0 ? ` OFFSET ${bind(start.offset)}` : '';
    return { sql: only + offset, parameters };
  }
  const union = ranges.map((sql, i) => `SELECT * FROM (${sql}) AS range_${i}`).join(' UNION ALL ');
  const sql = `SELECT * FROM (${union}) AS page ORDER BY ${orderSql(order)} LIMIT ${limit}`;
  return { sql, parameters };
}

/** The sort by the expressions of the indexes, in which only a list of everything by id uses the id itself. */
function indexed(sort: Sort<string>, filter: List['filter']): Sort<string> {
  if (sort[0]?.field === 'id' && Object.keys(filter).length === 0) return sort;
  return sort.map((key) => (key.field === 'id' ? { ...key, field: '(id::bigint)' } : key));
}
