import { setImmediate } from 'node:timers';
import { DomainError } from '../domain/errors.ts';
import { formatCursor, type ListQuery, type Page, type Position, positionOf } from '../domain/list-query.ts';
import type { Repository } from '../domain/repository.ts';
import type { ByteStream, Headers } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';

// Cursors and longer queries are rarely repeated.
const maxKeptLength = 256;
const maxKept = 256;

/** Caches the results of `parse`, because clients request the same lists repeatedly. */
export function memoize<Parsed>(parse: (request: HttpRequest) => Parsed): typeof parse {
  const known = new Map<string, Parsed>();
  return (request) => {
    const { basePath, target } = request;
    const text = `${basePath}${target.path}?${target.query}`;
    const found = known.get(text);
    if (found !== undefined) return found;
    const parsed = parse(request);
    if (text.length > maxKeptLength || text.includes('cursor=')) return parsed;
    if (known.size >= maxKept) known.clear();
    known.set(text, parsed);
    return parsed;
  };
}

/** The links (RFC 8288) of a page: `first`, `prev` for numbered pages, and `next` if there are more rows. */
export function pageLinks(request: HttpRequest, query: ListQuery<string>, filter: object) {
  // Without Host, because a client can set it to any value.
  const path = `${request.basePath}${request.target.path}`;
  const kept = request.parameters
    .filter(([name]) => name !== 'page' && name !== 'cursor')
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  const link = (rel: string, ...added: string[]): string => {
    const search = [...kept, ...added].join('&');
    return `<${path}${search === '' ? '' : `?${search}`}>; rel="${rel}"`;
  };
  // Without these parameters, a list of posts has all of them.
  const links = [kept.length < request.parameters.length ? link('first', 'page=1') : link('first')];
  const page = 'offset' in query.start ? query.start.offset / query.limit + 1 : 1;
  if (page > 1) links.push(link('prev', `page=${page - 1}`));
  return (next: Position | undefined): readonly string[] =>
    next === undefined ? links : [...links, link('next', `cursor=${formatCursor(filter, query.sort, next)}`)];
}

/**
 * Returns a function for the link to the changes of a list (RFC 5989). Create the link before you read the list: then
 * the changes after its position include everything that the list lacks. An earlier position is correct too, so the
 * requests of a turn of the event loop share one. There is no link without a feed, or while its position is
 * unavailable: a standby serves lists but has no position, and many readers of changes may delay it.
 */
export function monitorLinks({ changes }: Repository) {
  let reading: Promise<number | undefined> | undefined;
  return async ({ basePath }: HttpRequest, userId?: number): Promise<readonly string[]> => {
    if (changes === undefined) return [];
    if (reading === undefined) {
      reading = changes.position().catch((caught: unknown) => {
        const { kind } = DomainError.from(caught);
        if (['unavailable', 'overloaded', 'deadline-exceeded'].includes(kind)) return undefined;
        throw caught;
      });
      setImmediate(() => {
        reading = undefined;
      });
    }
    const position = await reading;
    const user = userId === undefined ? '' : `&user=${userId}`;
    return position === undefined ? [] : [`<${basePath}/changes?after=${position}${user}>; rel="monitor"`];
  };
}

/** Whether the client requests the number of all rows: `Prefer: count=exact` (RFC 7240), perhaps among others. */
export function wantsCount(request: HttpRequest): boolean {
  return /(?:^|,)\s*count\s*=\s*"?exact"?\s*(?:[;,]|$)/i.test(request.header('prefer') ?? '');
}

/** The headers of a list, with the number of all rows if the client requested it. Every list varies by Prefer. */
export function listHeaders(links: readonly string[], total: number | undefined): Headers {
  return {
    ...(links.length > 0 && { link: links.join(', ') }),
    vary: 'prefer',
    ...(total !== undefined && { 'x-total-count': String(total), 'preference-applied': 'count=exact' }),
  };
}

/** Formats the items that fit in `maxLength` characters, at least one. `last` is the last of them if others remain. */
export function fitting<Item>(
  items: readonly Item[],
  format: (item: Item) => string,
  maxLength: number,
): { readonly texts: readonly string[]; readonly last?: Item } {
  const texts: string[] = [];
  let length = 0;
  for (const item of items) {
    const text = format(item);
    length += text.length;
    const last = items[texts.length - 1];
    if (last !== undefined && length > maxLength) return { texts, last };
    texts.push(text);
  }
  return { texts };
}

// The most rows that a long reply fetches at a time. More would need more memory and block other requests for longer.
export const maxReadRows = 100;

/**
 * All rows of a list as JSON: as text if they fit into one page and one chunk, else as a stream. `first` is the first
 * page. While the stream waits for its client, it keeps one chunk and no rows. Rows that did not fit are fetched again.
 */
export function allRows<Row extends object, Query extends ListQuery<string>>(
  request: HttpRequest,
  query: Query,
  first: Page<Row>,
  fetchPage: (query: Query) => Promise<Page<Row>>,
  view: (row: Row) => object,
): string | ByteStream {
  const read = ({ items, next }: Page<Row>) => {
    const { texts, last } = fitting(items, (item) => JSON.stringify(view(item)), request.chunkBytes);
    return { texts, after: last === undefined ? next : positionOf(last, query.sort) };
  };
  // As bytes outside the heap of V8, in which a text may take two bytes for each character.
  const toChunk = (mark: string, { texts, after }: ReturnType<typeof read>) => {
    // The rows of a next page may have been deleted in the meantime.
    return { bytes: Buffer.from(texts.length === 0 ? '' : mark + texts.join()), count: texts.length, after };
  };
  async function* chunks(chunk: ReturnType<typeof toChunk>) {
    for (;;) {
      const { bytes, count, after } = chunk;
      yield bytes;
      if (after === undefined) break;
      // Without the mark.
      const fits = Math.floor((request.chunkBytes * count) / (bytes.length - 1));
      const limit = Math.min(Math.max(fits, 1), maxReadRows);
      chunk = toChunk(',', read(await fetchPage({ ...query, limit, start: { after } })));
    }
    yield ']';
  }
  const rows = read(first);
  return rows.after === undefined ? `[${rows.texts.join()}]` : { chunks: chunks(toChunk('[', rows)) };
}
