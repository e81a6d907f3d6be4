import type { Post } from '../domain/post.ts';
import type { User } from '../domain/user.ts';

// The fields that are part of the contract, in its order, and none that a store may carry besides. One
// JSON.stringify for all of a list takes half the time of text put together row by row.

export function userView({ id, name, role }: User) {
  return { id, name, role };
}

export function postView({ id, userId, title, body }: Post) {
  return { id, userId, title, body };
}
