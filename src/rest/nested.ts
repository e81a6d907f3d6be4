import {
  asksForPage,
  type ListQuery,
  type Page,
  type Parameters,
  type ReadCursor,
} from '../domain/list-query.ts';
import { type Position, positionOf } from '../domain/position.ts';
import { nameOf, notFound, parseId, type RecordKind } from '../domain/record.ts';
import type { CallOptions, Created, CreateOptions, Repository } from '../domain/repository.ts';
import { jsonText } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { listHeaders, monitorLinks, pageLinks, readCursor, wantsCount } from './paging.ts';
import {
  type CollectionHandlers,
  create,
  type Resource,
  resourceHandlers,
  type Versioned,
} from './resource.ts';

// Rows fetched at a time while all posts stream, fewer when they are long: more rows would take more memory
// and hardly less time.
const maxStreamedRows = 100;

interface NestedKey {
  readonly userId: number;
  readonly id: number;
}

/** A kind of record that belongs to users. */
export interface NestedResource<Row extends Versioned, Draft extends object, Patch, Query>
  extends Omit<Resource<NestedKey, Row, Patch>, 'name' | 'parseKey' | 'notFound' | 'view'> {
  readonly kind: RecordKind;
  readonly parseQuery: (userId: number, parameters: Parameters, readCursor: ReadCursor) => Query;
  readonly parseDraft: (body: unknown) => Draft;
  /** `undefined` when there is no such user, as from the next two. */
  readonly list: (userId: number, query: Query, options: CallOptions) => Promise<Page<Item<Row>> | undefined>;
  readonly count: (userId: number, query: Query, options: CallOptions) => Promise<number | undefined>;
  readonly create: (
    userId: number,
    draft: Draft,
    options: CreateOptions,
  ) => Promise<Created<Row> | undefined>;
  readonly view: (item: Item<Row>) => object;
}

/** A record in a list. */
type Item<Row> = Omit<Row, 'version'>;

/** The handlers of the records of a user, such as those at `/users/{id}/posts`. */
export function nestedHandlers<
  Row extends Versioned,
  Draft extends object,
  Patch,
  Query extends ListQuery<string> & { readonly filter: object },
>(
  resource: NestedResource<Row, Draft, Patch, Query>,
  repository: Repository,
  requirePreconditions: boolean,
): CollectionHandlers {
  const { kind, view } = resource;
  const name = nameOf(kind);
  const single = resourceHandlers<NestedKey, Row, Patch>(
    {
      ...resource,
      name,
      parseKey: (request) => ({
        userId: parseId('user', request.param('id')),
        id: parseId(name, request.param(`${name}Id`), `${name}Id`),
      }),
      notFound: ({ userId, id }) => notFound(name, id, userId),
    },
    requirePreconditions,
  );

  async function fetchPage(request: HttpRequest, userId: number, query: Query): Promise<Page<Item<Row>>> {
    const page = await resource.list(userId, query, request);
    if (page === undefined) throw notFound('user', userId);
    return page;
  }

  // Keeps one chunk and no rows while it waits for the client: rows that did not fit are fetched again.
  async function* streamAll(request: HttpRequest, userId: number, query: Query, rows: Rows) {
    for (let mark = '['; ; mark = ',') {
      const { text, count, end } = rows;
      // The rows of a next page may have been deleted in the meantime.
      yield count === 0 ? '' : mark + text;
      if (end === undefined) break;
      const { chunkBytes } = request;
      const fitting = count === 0 ? maxStreamedRows : Math.ceil((chunkBytes * count) / text.length);
      const next = { ...query, limit: Math.min(fitting, maxStreamedRows), start: { after: end } };
      rows = toRows(await fetchPage(request, userId, next), query, chunkBytes);
    }
    yield ']';
  }

  return {
    ...single,

    async list(request) {
      const userId = parseId('user', request.param('id'));
      const all = !asksForPage(request.parameters);
      const given = resource.parseQuery(userId, request.parameters, readCursor);
      const query = all ? { ...given, limit: maxStreamedRows } : given;
      const monitor = await monitorLinks(repository, request, userId);
      const page = await fetchPage(request, userId, query);
      const rows = toRows(page, query, all ? request.chunkBytes : Number.POSITIVE_INFINITY);
      const total = wantsCount(request) ? await resource.count(userId, query, request) : undefined;
      const pages = all ? [] : pageLinks(request, query, { userId, ...query.filter })(page.next);
      const headers = listHeaders([...pages, ...monitor], total);
      if (all && rows.end !== undefined) {
        return jsonText(200, { chunks: streamAll(request, userId, query, rows) }, headers);
      }
      return jsonText(200, `[${rows.text}]`, headers);
    },

    async create(request) {
      const userId = parseId('user', request.param('id'));
      const draft = resource.parseDraft((await request.json()).value);
      const make = async (options: CreateOptions): Promise<Created<Row>> => {
        const created = await resource.create(userId, draft, options);
        if (created === undefined) throw notFound('user', userId);
        return created;
      };
      return create(request, `/users/${userId}/${kind}`, draft, make, view);
    },
  };

  /** Formats the first rows of a page, until they are as long as a chunk. */
  function toRows({ items, next }: Page<Item<Row>>, { sort }: Query, chunkLength: number): Rows {
    let text = '';
    let count = 0;
    for (const item of items) {
      text += `${count === 0 ? '' : ','}${JSON.stringify(view(item))}`;
      count += 1;
      if (text.length >= chunkLength && count < items.length) {
        return { text, count, end: positionOf(item, sort) };
      }
    }
    return { text, count, end: next };
  }
}

/** Rows as JSON without the outer brackets. */
interface Rows {
  readonly text: string;
  readonly count: number;
  /** The position that the next rows start after; `undefined` when there are none. */
  readonly end: Position | undefined;
}
