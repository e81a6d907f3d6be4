import {
  type Post,
  type PostDraft,
  type PostQuery,
  parsePostDraft,
  parsePostPatch,
  parsePostQuery,
  parsePostReplacement,
  type StoredPost,
} from '../domain/post.ts';
import type { Repository } from '../domain/repository.ts';
import type { Resource } from './resource.ts';

export function postResource(repository: Repository): Resource<StoredPost, PostDraft, PostQuery> {
  return {
    kind: 'posts',
    isNested: true,
    parseQuery: parsePostQuery,
    parseDraft: parsePostDraft,
    view: postView,
    list: (userId, query, options) => repository.listPosts(userId, query, options),
    count: (userId, { filter }, options) => repository.countPosts(userId, filter, options),
    create: (userId, draft, options) => repository.createPost(userId, draft, options),
    get: ({ userId, id }, options) => repository.getPost(userId, id, options),
    replace: ({ userId, id }, body, options) =>
      repository.updatePost(userId, id, parsePostReplacement(body, { userId, id }), options),
    update: ({ userId, id }, body, options) =>
      repository.updatePost(userId, id, parsePostPatch(body), options),
    delete: ({ userId, id }, options) => repository.deletePost(userId, id, options),
  };
}

// Exactly the fields of the API, in their order, because a store may return more.
export function postView({ id, userId, title, body }: Post) {
  return { id, userId, title, body };
}
