import { isDeepStrictEqual } from 'node:util';
import { type ListQuery, type Page, toPage } from '../../domain/list-query.ts';
import { type Position, positionOf, type Sort, type Sortable } from '../../domain/position.ts';
import type { RecordKind } from '../../domain/repository.ts';
import { compareText } from '../../domain/text.ts';
import { filterColumns, rowDiffers, tables } from '../tables.ts';

/** The page of a query: rows after a position are found whether or not the row it was made of is still there. */
export function pageOf<Field extends string, Row extends Sortable<Field>>(
  rows: readonly Row[],
  query: ListQuery<Field>,
): Page<Row> {
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

interface Row {
  readonly id: number;
}

/** The rows of a list with this filter. */
export function matching<R extends Row>(kind: RecordKind, rows: ReadonlyMap<number, R>, filter: object): R[] {
  const wanted = filterColumns(tables[kind], filter);
  return [...rows.values()].filter((row) =>
    wanted.every(([{ field, byPrefix }, value]) => {
      const has: unknown = row[field as keyof R];
      if (typeof value === 'object') return value.some((one) => one === has);
      return byPrefix === undefined ? has === value : String(has).startsWith(String(value));
    }),
  );
}

/** A row with the changes of a merge patch; `null` removes. */
export function patched<R extends Row>(row: R, patch: object): R {
  const entries = Object.entries({ ...row, ...patch }).filter(([, value]) => value !== null);
  return Object.fromEntries(entries) as unknown as R;
}

export function withoutVersion<R extends object>({ version: _, ...row }: R & { readonly version: number }) {
  return row;
}

export function rowsById<R extends Row>(rows: ReadonlyMap<number, R>, afterId: number, limit: number): R[] {
  const after = [...rows.values()].filter((row) => row.id > afterId);
  return after.sort((a, b) => a.id - b.id).slice(0, limit);
}

/** The rows not there yet; one that is there and differs is a conflict. */
export function newRows<R extends Row>(
  kind: RecordKind,
  there: ReadonlyMap<number, R>,
  rows: readonly R[],
): R[] {
  const added = new Map<number, R>();
  for (const row of rows) {
    const known = there.get(row.id) ?? added.get(row.id);
    if (known === undefined) added.set(row.id, row);
    else if (!isDeepStrictEqual(known, row)) throw rowDiffers(kind, row.id);
  }
  return [...added.values()];
}
