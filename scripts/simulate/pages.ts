import { fieldsOf, type Violation } from './evidence.ts';
import type { Entry, Query, Row } from './history.ts';
import type { Timeline } from './timeline.ts';

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

function isWanted({ role, prefix = '', id }: Query, row: Row): boolean {
  const text = row.name ?? row.title ?? '';
  return [undefined, row.role].includes(role) && text.startsWith(prefix) && (id?.includes(row.id) ?? true);
}

/**
 * Checks a page: its order and filter, that it follows the page before, that it has every row that existed during
 * the whole request, and that at some moment all its rows had these values. `strays` counts the creations without
 * a response.
 */
export function checkPage(page: Entry, timelines: readonly Timeline[], strays: number): Violation[] {
  const { rows = [], query = {}, walk, total, next } = page;
  const { limit = Number.POSITIVE_INFINITY } = query;
  const violations: Violation[] = [];
  const fail = (rule: string, message: string) => violations.push({ rule, message, culprits: [page] });
  const compare = comparator(query);
  for (const [i, row] of rows.entries()) {
    const previous = rows[i - 1] ?? walk?.after;
    if (!isWanted(query, row)) fail('wrong filter', `${JSON.stringify(row)} does not fit the filter`);
    if (previous !== undefined && compare(previous, row) >= 0) {
      fail('wrong order', `${JSON.stringify(row)} follows ${JSON.stringify(previous)}`);
    }
  }
  if (rows.length > limit || (next !== undefined && rows.length < limit)) {
    fail('wrong page', `${rows.length} rows of ${limit}${next === undefined ? '' : ' with a next page'}`);
  }

  const last = rows.at(-1);
  /** Whether a row belongs on this page of the walk. */
  const isHere = (row: Row) =>
    (walk?.after === undefined || compare(walk.after, row) < 0) &&
    (next === undefined || (last !== undefined && compare(row, last) <= 0));
  let [least, most] = [0, strays];
  for (const timeline of timelines) {
    const { id } = timeline.evidence;
    const possible = timeline.possible(page).map((version) => timeline.fields[version]);
    const values = possible.flatMap((fields): Row[] => (fields === undefined ? [] : [{ id, ...fields }]));
    const wanted = values.filter((row) => isWanted(query, row));
    const isKnown = values.length > 0 && values.length === possible.length;
    const isOpen = !isKnown || timeline.isOpen(page);
    if (timeline.mayBe(page) && (wanted.length > 0 || isOpen)) most += 1;
    if (isOpen || wanted.length < values.length || !timeline.isSure(page)) continue;
    least += 1;
    // Where a page by number begins depends on other rows.
    if ((query.page ?? 1) > 1 || !values.every(isHere) || rows.some((row) => row.id === id)) continue;
    const message = `${JSON.stringify(values[0])} existed and is missing`;
    violations.push({ rule: 'skipped row', message, culprits: [page], record: timeline.name });
  }
  if (total !== undefined && (total < least || total > most)) {
    fail('wrong count', `counted ${total}, of ${least} to ${most}`);
  }

  let [from, to] = [page.start, page.end];
  // The service reads a list without a limit in several parts.
  for (const row of query.limit === undefined ? [] : rows) {
    const timeline = timelines.find(({ evidence }) => evidence.id === row.id);
    const matching = timeline?.matching({ entry: page, fields: fieldsOf(row) }) ?? [];
    if (timeline === undefined || matching.length === 0) continue;
    from = Math.max(from, timeline.begin(Math.min(...matching)).lo);
    to = Math.min(to, timeline.end(Math.max(...matching)).hi);
  }
  if (from > to) {
    const message = 'at no moment did all its rows have these values';
    fail('torn page', `${message}: after ${from.toFixed(1)} ms, before ${to.toFixed(1)} ms`);
  }
  return violations;
}
