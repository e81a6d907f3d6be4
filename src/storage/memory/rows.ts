import {
  type ListQuery,
  type Page,
  type Position,
  positionOf,
  type Sort,
  toPage,
} from '../../domain/list-query.ts';
import { compareText } from '../../domain/text.ts';
import type { Row } from '../store.ts';
import { filterColumns, type Table } from '../tables.ts';

/** The page of a query. Rows after a position are found even if the row of the position was deleted. */
export function pageOf<Row extends object>(rows: readonly Row[], query: ListQuery<string>): Page<Row> {
  const { sort, start, limit } = query;
  const sorted = rows.toSorted((a, b) => compare(sort, positionOf(a, sort), positionOf(b, sort)));
  const rest =
    'offset' in start
      ? sorted.slice(start.offset)
      : sorted.filter((row) => compare(sort, positionOf(row, sort), start.after) > 0);
  return toPage(rest.slice(0, limit + 1), query);
}

function compare(sort: Sort<string>, a: Position, b: Position): number {
  for (const [i, { descending }] of sort.entries()) {
    const [x, y] = [a[i] ?? '', b[i] ?? ''];
    const order = typeof x === 'number' ? x - Number(y) : compareText(x, String(y));
    if (order !== 0) return descending ? -order : order;
  }
  return 0;
}

/** The rows of a list with this filter. */
export function matching(table: Table, rows: ReadonlyMap<number, Row>, filter: object): Row[] {
  const wanted = filterColumns(table, filter);
  return [...rows.values()].filter((row) =>
    wanted.every(([{ field, byPrefix }, value]) => {
      const has: unknown = Reflect.get(row, field);
      if (typeof value === 'object') return value.some((one) => one === has);
      return byPrefix === undefined ? has === value : String(has).startsWith(String(value));
    }),
  );
}

/** A row with the changes of a merge patch; `null` removes a field. */
export function patched<One extends Row>(row: One, patch: object): One {
  const entries = Object.entries({ ...row, ...patch }).filter(([, value]) => value !== null);
  return Object.fromEntries(entries) as unknown as One;
}

export function withoutVersion({ version: _, ...row }: Row) {
  return row;
}
