import { userNotFound } from '../domain/errors.ts';
import { type Page, type PostQuery, parsePostQuery } from '../domain/list-query.ts';
import { type Position, positionOf } from '../domain/position.ts';
import { type Post, parsePostDraft } from '../domain/post.ts';
import { parseId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { json, jsonText } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { readCursor } from './cursor.ts';
import { idempotencyKey, replayedHeader } from './idempotency.ts';
import { countHeaders, pageHeaders, wantsCount } from './paging.ts';

// Rows fetched at a time while all posts stream, fewer when they are long: more rows would take more memory
// and hardly less time.
const maxStreamedRows = 100;

export interface PostHandlers {
  readonly list: Handler;
  readonly create: Handler;
}

export function postHandlers(repository: Repository): PostHandlers {
  async function fetchPage(request: HttpRequest, userId: number, query: PostQuery): Promise<Page<Post>> {
    const page = await repository.listPosts(userId, query, request);
    if (page === undefined) throw userNotFound(userId);
    return page;
  }

  // While it waits for the client it holds one chunk, outside the heap, and no rows: those that did not fit
  // are fetched again.
  function streamAll(request: HttpRequest, userId: number, query: PostQuery, first: Rows) {
    let chunk: Chunk | undefined = toChunk('[', first);
    async function* chunks() {
      while (chunk !== undefined) {
        const { bytes, end, perByte } = chunk;
        chunk = undefined;
        yield bytes;
        if (end === undefined) break;
        await request.turn();
        const { chunkBytes } = request;
        const limit = Math.min(Math.ceil(perByte * chunkBytes), maxStreamedRows);
        const page = await fetchPage(request, userId, { ...query, limit, start: { after: end } });
        chunk = toChunk(',', toRows(page, query, chunkBytes));
      }
      yield ']';
    }
    return chunks();
  }

  return {
    async list(request) {
      const userId = parseId('user', request.param('id'));
      const { all, ...paged } = parsePostQuery(userId, request.parameters, readCursor);
      const query = all ? { ...paged, limit: maxStreamedRows } : paged;
      const page = await fetchPage(request, userId, query);
      const rows = toRows(page, query, all ? request.chunkBytes : Number.POSITIVE_INFINITY);
      const total = wantsCount(request) ? await repository.countPosts(userId, request) : undefined;
      const headers = countHeaders(total);
      if (all && rows.end !== undefined) {
        return jsonText(200, { chunks: streamAll(request, userId, query, rows) }, headers);
      }
      const links = all ? {} : pageHeaders(request, query, { userId }, page.next);
      return jsonText(200, `[${rows.text}]`, { ...links, ...headers });
    },

    async create(request) {
      const userId = parseId('user', request.param('id'));
      const draft = parsePostDraft((await request.json()).value);
      const idempotency = idempotencyKey(request, draft);
      const created = await repository.createPost(userId, draft, { ...(idempotency && { idempotency }) });
      if (created === undefined) throw userNotFound(userId);
      // A post has no address of its own: it is reached through its user's posts.
      const location = `${request.basePath}/users/${userId}/posts`;
      return json(201, postView(created.value), { location, ...replayedHeader(created.replayed) });
    },
  };
}

/** Rows as JSON, without the brackets around them. */
interface Rows {
  readonly text: string;
  readonly count: number;
  /** Where the rows behind them start; `undefined` when there are none. */
  readonly end: Position | undefined;
}

/** Rows as they are sent. */
interface Chunk {
  readonly bytes: Buffer;
  readonly end: Position | undefined;
  /** Rows for each byte, by which the next ones are fetched. */
  readonly perByte: number;
}

function toChunk(mark: '[' | ',', { text, count, end }: Rows): Chunk {
  // Rows that were there may have been deleted since.
  const bytes = Buffer.from(count === 0 ? '' : mark + text);
  return { bytes, end, perByte: bytes.length === 0 ? 1 : count / bytes.length };
}

/** The first rows of a page, until they are as long as a chunk. */
function toRows({ items, next }: Page<Post>, { sort }: PostQuery, chunkLength: number): Rows {
  let text = '';
  let count = 0;
  for (const post of items) {
    text += `${count === 0 ? '' : ','}${JSON.stringify(postView(post))}`;
    count += 1;
    if (text.length >= chunkLength && count < items.length) {
      return { text, count, end: positionOf(post, sort) };
    }
  }
  return { text, count, end: next };
}

// Exactly the fields of the contract, in its order: a store may keep more of them.
function postView({ id, userId, title, body }: Post) {
  return { id, userId, title, body };
}
