import { fieldsOf, type Violation } from './evidence.ts';
import type { Entry, Fields, Query, Row } from './history.ts';
import type { Timeline } from './timeline.ts';

/** Orders rows as a sort asks for, texts by code point. */
function comparator({ sort = 'id' }: Query): (a: Row, b: Row) => number {
  const keys = sort
    .split(',')
    .map((key) => ({ field: key.replace('-', ''), sign: key.startsWith('-') ? -1 : 1 }));
  keys.push({ field: 'id', sign: keys.at(-1)?.sign ?? 1 });
  return (a, b) => {
    for (const { field, sign } of keys) {
      const [x, y] = [Reflect.get(a, field) ?? '', Reflect.get(b, field) ?? ''];
      const order = typeof x === 'number' ? x - y : Buffer.compare(Buffer.from(x), Buffer.from(y));
      if (order !== 0) return order * sign;
    }
    return 0;
  };
}

function isWanted({ role, prefix = '', id }: Query, row: Row): boolean {
  const text = row.name ?? row.title ?? '';
  return (
    (role === undefined || row.role === role) && text.startsWith(prefix) && (id?.includes(row.id) ?? true)
  );
}

/**
 * Checks a page: its order and filter, its place behind the page before, that no row is missing that was there
 * all the time, and that there was a moment at which all its rows were so.
 */
export function checkPage(page: Entry, timelines: readonly Timeline[], strayCreations: number): Violation[] {
  const { rows = [], query = {}, walk, total, hasNext = false } = page;
  const violations: Violation[] = [];
  const fail = (rule: string, message: string, record?: string) =>
    violations.push({ rule, message, culprits: [page], ...(record !== undefined && { record }) });
  const compare = comparator(query);
  let previous = walk?.after;
  for (const row of rows) {
    if (!isWanted(query, row)) fail('wrong filter', `${JSON.stringify(row)} does not fit the filter`);
    if (previous !== undefined && compare(previous, row) >= 0) {
      fail('wrong order', `${JSON.stringify(row)} follows ${JSON.stringify(previous)}`);
    }
    previous = row;
  }
  const isPaged = query.limit !== undefined;
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  if (rows.length > limit || (hasNext && rows.length < limit)) {
    fail('wrong page', `${rows.length} rows of ${limit}${hasNext ? ' with a next page' : ''}`);
  }

  const byId = new Map(timelines.map((timeline) => [timeline.id, timeline]));
  const last = rows.at(-1);
  const { after } = walk ?? {};
  const isShown = (row: Row) =>
    (after === undefined || compare(after, row) < 0) &&
    (!hasNext || (last !== undefined && compare(row, last) <= 0));
  const counts = { least: 0, most: strayCreations };
  for (const timeline of timelines) {
    const possible = timeline.possible(page).map((version) => timeline.fields(version));
    const known = possible.filter((fields): fields is Fields => fields !== undefined);
    const values = known.map((fields): Row => ({ id: timeline.id, ...fields }));
    const wanted = values.filter((row) => isWanted(query, row));
    const { there, unknown } = timeline.mayBe(page);
    if (there && (wanted.length > 0 || unknown || known.length < possible.length || known.length === 0))
      counts.most += 1;
    const isSure =
      timeline.isSure(page) &&
      values.length > 0 &&
      known.length === possible.length &&
      wanted.length === values.length;
    if (!isSure) continue;
    counts.least += 1;
    // A page by number begins somewhere that other rows decide.
    if ((query.page ?? 1) > 1 || !values.every(isShown)) continue;
    if (!rows.some(({ id }) => id === timeline.id)) {
      fail(
        'skipped row',
        `${JSON.stringify(values[0])} was there and is missing`,
        `${timeline.kind} ${timeline.id}`,
      );
    }
  }
  if (total !== undefined && (total < counts.least || total > counts.most)) {
    fail('wrong count', `counted ${total}, of ${counts.least} to ${counts.most}`);
  }
  if (!isPaged) return violations;
  let [from, to] = [page.start, page.end];
  for (const row of rows) {
    const timeline = byId.get(row.id);
    const matching = timeline?.matching({ entry: page, fields: fieldsOf(row), isWhole: true }) ?? [];
    if (timeline === undefined || matching.length === 0) continue;
    from = Math.max(from, timeline.begin(Math.min(...matching)).lo);
    to = Math.min(to, timeline.end(Math.max(...matching)).hi);
  }
  if (from > to)
    fail(
      'torn page',
      `no moment at which all its rows were so: after ${from.toFixed(1)} ms, before ${to.toFixed(1)} ms`,
    );
  return violations;
}
