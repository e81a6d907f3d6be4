import { postNotFound, userNotFound } from '../domain/errors.ts';
import { type Page, type PostQuery, parsePostQuery } from '../domain/list-query.ts';
import { type Position, positionOf } from '../domain/position.ts';
import {
  type Post,
  type PostPatch,
  parsePostDraft,
  parsePostPatch,
  parsePostReplacement,
  type StoredPost,
} from '../domain/post.ts';
import { parseId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { jsonText } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { readCursor } from './cursor.ts';
import { idempotencyKey, replayedHeader } from './idempotency.ts';
import { countHeaders, linkHeader, monitorLinks, pageLinks, wantsCount } from './paging.ts';
import { originOf, type ResourceHandlers, recordReply, resourceHandlers } from './resource.ts';

// Rows fetched at a time while all posts stream, fewer when they are long: more rows would take more memory
// and hardly less time.
const maxStreamedRows = 100;

export interface PostHandlers extends ResourceHandlers {
  readonly list: Handler;
  readonly create: Handler;
}

export function postHandlers(repository: Repository, requirePreconditions: boolean): PostHandlers {
  const single = resourceHandlers<{ userId: number; id: number }, StoredPost, PostPatch>(
    {
      record: 'post',
      parseKey: (request) => ({
        userId: parseId('user', request.param('id')),
        id: parseId('post', request.param('postId'), 'postId'),
      }),
      notFound: ({ userId, id }) => postNotFound(userId, id),
      get: ({ userId, id }, options) => repository.getPost(userId, id, options),
      update: ({ userId, id }, patch, options) => repository.updatePost(userId, id, patch, options),
      delete: ({ userId, id }, options) => repository.deletePost(userId, id, options),
      parseReplacement: parsePostReplacement,
      parsePatch: parsePostPatch,
      view: postView,
    },
    requirePreconditions,
  );

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
    ...single,

    async list(request) {
      const userId = parseId('user', request.param('id'));
      const { all, ...paged } = parsePostQuery(userId, request.parameters, readCursor);
      const query = all ? { ...paged, limit: maxStreamedRows } : paged;
      const monitor = await monitorLinks(repository, request, userId);
      const page = await fetchPage(request, userId, query);
      const rows = toRows(page, query, all ? request.chunkBytes : Number.POSITIVE_INFINITY);
      const total = wantsCount(request)
        ? await repository.countPosts(userId, query.filter, request)
        : undefined;
      const pages = all ? [] : pageLinks(request, query, { userId, ...query.filter }, page.next);
      const headers = { ...linkHeader([...pages, ...monitor]), ...countHeaders(total) };
      if (all && rows.end !== undefined) {
        return jsonText(200, { chunks: streamAll(request, userId, query, rows) }, headers);
      }
      return jsonText(200, `[${rows.text}]`, headers);
    },

    async create(request) {
      const userId = parseId('user', request.param('id'));
      const draft = parsePostDraft((await request.json()).value);
      const idempotency = idempotencyKey(request, draft);
      const created = await repository.createPost(userId, draft, {
        origin: originOf(request),
        ...(idempotency && { idempotency }),
      });
      if (created === undefined) throw userNotFound(userId);
      const { value, replayed } = created;
      const location = `${request.basePath}/users/${userId}/posts/${value.id}`;
      return recordReply(201, postView(value), value.version, { location, ...replayedHeader(replayed) });
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
export function postView({ id, userId, title, body }: Post) {
  return { id, userId, title, body };
}
