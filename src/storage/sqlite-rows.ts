import type { SQLOutputValue } from 'node:sqlite';
import type { Post } from '../domain/post.ts';
import type { StoredUser, User } from '../domain/user.ts';

export type SqliteRow = Readonly<Record<string, SQLOutputValue>>;

export const userColumns = 'id, name, role';
export const storedUserColumns = 'id, name, role, version';
export const postColumns = 'id, user_id, title, body';

export function toUser({ id, name, role }: SqliteRow): User {
  return role === ''
    ? { id: Number(id), name: String(name) }
    : { id: Number(id), name: String(name), role: String(role) };
}

export function toStoredUser({ id, name, role, version }: SqliteRow): StoredUser {
  return role === ''
    ? { id: Number(id), name: String(name), version: Number(version) }
    : { id: Number(id), name: String(name), role: String(role), version: Number(version) };
}

export function toPost({ id, user_id, title, body }: SqliteRow): Post {
  return { id: Number(id), userId: Number(user_id), title: String(title), body: String(body) };
}
