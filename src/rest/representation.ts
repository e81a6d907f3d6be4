import type { Post } from '../domain/post.ts';
import type { User } from '../domain/user.ts';

// Written out rather than left to JSON.stringify: the fields that are part of the contract, in its
// order, and none that a store may carry besides.

export function userJson(user: User): string {
  const role = user.role === undefined ? '' : `,"role":"${user.role}"`;
  return `{"id":${user.id},"name":${JSON.stringify(user.name)}${role}}`;
}

export function postJson(post: Post): string {
  const { id, userId, title, body } = post;
  return `{"id":${id},"userId":${userId},"title":${JSON.stringify(title)},"body":${JSON.stringify(body)}}`;
}

export function arrayJson<T>(items: readonly T[], itemJson: (item: T) => string): string {
  return `[${items.map(itemJson).join(',')}]`;
}
