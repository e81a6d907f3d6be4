import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { CursorSealer, type Sortable } from '../../domain/cursor.ts';
import type { ListQuery, PostQuery, UserQuery } from '../../domain/list-query.ts';
import type { Post } from '../../domain/post.ts';
import type { Page } from '../../domain/repository.ts';
import type { StoreSummary } from '../../domain/transfer.ts';
import type { StoredUser, User } from '../../domain/user.ts';
import { startOf } from '../list-sql.ts';
import { type SqliteList, SqliteLists } from './lists.ts';
import {
  postColumns,
  prepareRows,
  storedUserColumns,
  toPost,
  toStoredUser,
  toUser,
  userColumns,
} from './rows.ts';

/** The reads. Each sees all that was committed before it; none holds a lock beyond its call. */
export class SqliteReads {
  readonly #sealer: CursorSealer;
  readonly #lists: SqliteLists;
  readonly #getUser: StatementSync;
  readonly #countUsers: StatementSync;
  readonly #countRole: StatementSync;
  readonly #countPosts: StatementSync;
  readonly #exportUsers: StatementSync;
  readonly #exportPosts: StatementSync;
  readonly #summary: StatementSync;

  constructor(db: DatabaseSync) {
    const secret = db.prepare("SELECT value FROM meta WHERE name = 'cursor_secret'").get()?.['value'];
    if (!(secret instanceof Uint8Array)) throw new Error('the file has no cursor secret');
    this.#sealer = new CursorSealer(secret);
    this.#lists = new SqliteLists(db);
    this.#getUser = prepareRows(db, `SELECT ${storedUserColumns} FROM users WHERE id = ?`);
    this.#countUsers = db.prepare('SELECT count(*) AS count FROM users');
    this.#countRole = db.prepare('SELECT count(*) AS count FROM users WHERE role = ?');
    this.#countPosts = db.prepare('SELECT count(*) AS count FROM posts WHERE user_id = ?');
    this.#exportUsers = prepareRows(
      db,
      `SELECT ${storedUserColumns} FROM users WHERE id > ? ORDER BY id LIMIT ?`,
    );
    this.#exportPosts = prepareRows(db, `SELECT ${postColumns} FROM posts WHERE id > ? ORDER BY id LIMIT ?`);
    this.#summary = db.prepare(`
      SELECT (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM posts) AS posts,
        (SELECT seq FROM sqlite_sequence WHERE name = 'users') AS last_user_id,
        (SELECT seq FROM sqlite_sequence WHERE name = 'posts') AS last_post_id`);
  }

  getUser(id: number): StoredUser | undefined {
    const row = this.#getUser.get(id);
    return row && toStoredUser(row);
  }

  listUsers(query: UserQuery): Page<User> {
    const { role } = query;
    if (role === undefined) {
      return this.#page(query, 'users ', { table: 'users', columns: userColumns, filter: {}, toRow: toUser });
    }
    return this.#page(query, `users ${role}`, {
      table: 'users',
      // The role is known: to read it as well took a tenth longer.
      columns: 'id, name',
      filter: { role },
      toRow: ({ 0: id, 1: name }) => ({ id: Number(id), name: String(name), role }),
    });
  }

  countUsers(role: string | undefined): number {
    return toCount(role === undefined ? this.#countUsers.get() : this.#countRole.get(role));
  }

  listPosts(userId: number, query: PostQuery): Page<Post> | undefined {
    const list = { table: 'posts', columns: postColumns, filter: { user_id: userId }, toRow: toPost };
    const page = this.#page(query, `posts ${userId}`, list);
    return page.items.length > 0 || this.#hasUser(userId) ? page : undefined;
  }

  countPosts(userId: number): number | undefined {
    const count = toCount(this.#countPosts.get(userId));
    return count > 0 || this.#hasUser(userId) ? count : undefined;
  }

  ping(): void {
    this.#getUser.get(1);
  }

  summary(): StoreSummary {
    const { users, posts, last_user_id, last_post_id } = { ...this.#summary.get() };
    return {
      users: Number(users),
      posts: Number(posts),
      lastUserId: Number(last_user_id),
      lastPostId: Number(last_post_id),
    };
  }

  exportUsers(afterId: number, limit: number): StoredUser[] {
    return this.#exportUsers.all(afterId, limit).map(toStoredUser);
  }

  exportPosts(afterId: number, limit: number): Post[] {
    return this.#exportPosts.all(afterId, limit).map(toPost);
  }

  #hasUser(id: number): boolean {
    return this.#getUser.get(id) !== undefined;
  }

  #page<Field extends string, Row extends Sortable<Field>>(
    query: ListQuery<Field>,
    scope: string,
    list: SqliteList<Row>,
  ): Page<Row> {
    const { sort, limit } = query;
    const start = startOf(this.#sealer, scope, query);
    return this.#sealer.page(scope, query, this.#lists.read(list, sort, limit + 1, start));
  }
}

function toCount(row: Readonly<Record<string, unknown>> | undefined): number {
  return Number(row?.['count']);
}
