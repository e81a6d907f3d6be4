import { userNotFound } from '../domain/errors.ts';
import { type Page, type PostQuery, parsePostQuery } from '../domain/list-query.ts';
import { type Post, parsePostDraft } from '../domain/post.ts';
import { parseId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { json, jsonText } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { readCursor } from './cursor.ts';
import { idempotencyKey, replayedHeader } from './idempotency.ts';
import { countHeaders, pageHeaders, wantsCount } from './paging.ts';

// Rows fetched at a time while all posts stream: at 10,000 characters a post, a few MB at the most. A
// million posts then take 46 MiB more, with 250 rows 77, for a tenth less CPU time.
const streamedRows = 100;

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

  async function* streamAll(request: HttpRequest, userId: number, query: PostQuery, first: Page<Post>) {
    let page = first;
    // Without the brackets, of which the whole has one pair.
    const rows = (items: readonly Post[]): string => JSON.stringify(items.map(postView)).slice(1, -1);
    yield `[${rows(page.items)}`;
    while (page.next !== undefined) {
      page = await fetchPage(request, userId, { ...query, start: { after: page.next } });
      if (page.items.length > 0) yield `,${rows(page.items)}`;
    }
    yield ']';
  }

  return {
    async list(request) {
      const userId = parseId('user', request.param('id'));
      const { all, ...paged } = parsePostQuery(userId, request.parameters, readCursor);
      const query = all ? { ...paged, limit: streamedRows } : paged;
      const page = await fetchPage(request, userId, query);
      const total = wantsCount(request) ? await repository.countPosts(userId, request) : undefined;
      const headers = countHeaders(total);
      if (all && page.next !== undefined) {
        return jsonText(200, { chunks: streamAll(request, userId, query, page) }, headers);
      }
      const links = all ? {} : pageHeaders(request, query, { userId }, page.next);
      return json(200, page.items.map(postView), { ...links, ...headers });
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

// Exactly the fields of the contract, in its order: a store may keep more of them.
function postView({ id, userId, title, body }: Post) {
  return { id, userId, title, body };
}
