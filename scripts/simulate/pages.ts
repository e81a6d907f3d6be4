import { isDeepStrictEqual } from 'node:util';
import { type Entry, fieldsOf, type Row } from './history.ts';
import { beginOf, during, endOf, type Life, type Violation } from './life.ts';
import type { Query } from './plan.ts';

/** Orders rows as a sort asks for, texts by code point. */
function comparator({ sort = 'id' }: Query): (a: Row, b: Row) => number {
  const keys = sort.split(',');
  keys.push(keys.at(-1)?.startsWith('-') ? '-id' : 'id');
  return (a, b) => {
    for (const key of keys) {
      const [x, y] = [a, b].map((row) => Reflect.get(row, key.replace('-', '')) ?? '');
      const order = typeof x === 'number' ? x - y : Buffer.compare(Buffer.from(x), Buffer.from(y));
      if (order !== 0) return key.startsWith('-') ? -order : order;
    }
    return 0;
  };
}

/**
 * Checks a page: its order and filter, that it follows the page before, that it has every row that existed during
 * the whole request, and that at some moment all its rows had these values.
 */
export function* checkPage(page: Entry, lives: readonly Life[]): Generator<Violation> {
  const { rows = [], query = {}, after, total, next } = page;
  const { limit = Number.POSITIVE_INFINITY, role, prefix = '', id: ids } = query;
  const compare = comparator(query);
  const culprits = [page];
  const isWanted = (row: Row | undefined) =>
    row !== undefined &&
    [undefined, row.role].includes(role) &&
    (row.name ?? row.title ?? '').startsWith(prefix) &&
    ids?.includes(row.id) !== false;
  for (const [i, row] of rows.entries()) {
    const text = JSON.stringify(row);
    const previous = rows[i - 1] ?? after;
    if (!isWanted(row)) yield { rule: 'wrong filter', message: `${text} does not fit`, culprits };
    if (previous === undefined || compare(previous, row) < 0) continue;
    yield { rule: 'wrong order', message: `${text} follows ${JSON.stringify(previous)}`, culprits };
  }
  if (rows.length > limit || (next !== undefined && rows.length < limit)) {
    yield { rule: 'wrong page', message: `${rows.length} rows of ${limit}, next ${next}`, culprits };
  }

  const last = rows.at(-1);
  /** Whether a row belongs on this page of the walk. Where a page by number begins depends on other rows. */
  const isHere = (row: Row | undefined) =>
    row !== undefined &&
    (query.page ?? 1) === 1 &&
    (after === undefined || compare(after, row) < 0) &&
    (next === undefined || (last !== undefined && compare(row, last) <= 0));
  let [least, most] = [0, 0];
  let [from, to] = [page.start, page.end];
  for (const life of lives) {
    const { id, states } = life;
    const possible = during(states, page);
    const values = possible.map(({ fields }): Row | undefined => fields && { id, ...fields });
    if (values.every(isWanted)) least += 1;
    if (values.some(isWanted)) most += 1;
    const row = rows.find((one) => one.id === id);
    if (row === undefined && values.every(isWanted) && values.every(isHere)) {
      const message = `${JSON.stringify(values[0])} existed and is missing`;
      yield { rule: 'skipped row', message, culprits, evidence: life };
    }
    // The service reads a list without a limit in several parts.
    if (row === undefined || query.limit === undefined) continue;
    const fitting = possible.filter(({ fields }) => isDeepStrictEqual(fields, fieldsOf(row)));
    if (fitting.length === 0) continue;
    from = Math.max(from, Math.min(...fitting.map(beginOf)));
    to = Math.min(to, Math.max(...fitting.map(endOf)));
  }
  if (total !== undefined && (total < least || total > most)) {
    yield { rule: 'wrong count', message: `counted ${total}, of ${least} to ${most}`, culprits };
  }
  if (from <= to) return;
  const message = `its rows had these values only after ${from} ms, and only before ${to} ms`;
  yield { rule: 'torn page', message, culprits };
}
