import type { Post } from '../../domain/post.ts';
import type { StoredUser, User } from '../../domain/user.ts';

export interface UserRow {
  readonly id: number;
  readonly name: string;
  /** Empty when there is none. */
  readonly role: string;
}

export interface StoredUserRow extends UserRow {
  readonly version: number;
}

export interface PostRow {
  readonly id: number;
  readonly user_id: number;
  readonly title: string;
  readonly body: string;
}

export interface IdRow {
  readonly id: number;
}

export interface CountRow {
  readonly count: number;
}

export const userColumns = 'id, name, role';
export const storedUserColumns = 'id, name, role, version';
export const postColumns = 'id, user_id, title, body';

export function toUser({ id, name, role }: UserRow): User {
  return role === '' ? { id, name } : { id, name, role };
}

export function toStoredUser({ id, name, role, version }: StoredUserRow): StoredUser {
  return role === '' ? { id, name, version } : { id, name, role, version };
}

export function toPost({ id, user_id, title, body }: PostRow): Post {
  return { id, userId: user_id, title, body };
}
