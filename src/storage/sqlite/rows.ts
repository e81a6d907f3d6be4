import type { DatabaseSync, SQLOutputValue, StatementSync } from 'node:sqlite';
import type { Post } from '../../domain/post.ts';
import type { StoredUser, User } from '../../domain/user.ts';

/** A row of a statement made by `prepareRows`: its values by the places of their columns. */
export type SqliteRow = Readonly<Record<number, SQLOutputValue>>;

export const userColumns = 'id, name, role';
export const storedUserColumns = 'id, name, role, version';
export const postColumns = 'id, user_id, title, body';

/**
 * Prepares a statement that gives its rows without names. An object with names is made name by name
 * for each row: it took 0.3 us more for one user, 3.5 us of 17 for a page of 20.
 */
export function prepareRows(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

export function toUser({ 0: id, 1: name, 2: role }: SqliteRow): User {
  return role === ''
    ? { id: Number(id), name: String(name) }
    : { id: Number(id), name: String(name), role: String(role) };
}

export function toStoredUser({ 0: id, 1: name, 2: role, 3: version }: SqliteRow): StoredUser {
  return role === ''
    ? { id: Number(id), name: String(name), version: Number(version) }
    : { id: Number(id), name: String(name), role: String(role), version: Number(version) };
}

export function toPost({ 0: id, 1: userId, 2: title, 3: body }: SqliteRow): Post {
  return { id: Number(id), userId: Number(userId), title: String(title), body: String(body) };
}
