import {
  type Post,
  type PostDraft,
  type PostPatch,
  type PostQuery,
  parsePostDraft,
  parsePostPatch,
  parsePostQuery,
  parsePostReplacement,
  type StoredPost,
} from '../domain/post.ts';
import type { Repository } from '../domain/repository.ts';
import { nestedHandlers } from './nested.ts';
import type { CollectionHandlers } from './resource.ts';

export function postHandlers(repository: Repository, requirePreconditions: boolean): CollectionHandlers {
  return nestedHandlers<StoredPost, PostDraft, PostPatch, PostQuery>(
    {
      kind: 'posts',
      list: (userId, query, options) => repository.listPosts(userId, query, options),
      count: (userId, { filter }, options) => repository.countPosts(userId, filter, options),
      create: (userId, draft, options) => repository.createPost(userId, draft, options),
      get: ({ userId, id }, options) => repository.getPost(userId, id, options),
      update: ({ userId, id }, patch, options) => repository.updatePost(userId, id, patch, options),
      delete: ({ userId, id }, options) => repository.deletePost(userId, id, options),
      parseQuery: parsePostQuery,
      parseDraft: parsePostDraft,
      parseReplacement: parsePostReplacement,
      parsePatch: parsePostPatch,
      view: postView,
    },
    repository,
    requirePreconditions,
  );
}

// Exactly the fields of the API, in their order, because a store may return more.
export function postView({ id, userId, title, body }: Post) {
  return { id, userId, title, body };
}
