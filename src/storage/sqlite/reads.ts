import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  type ListQuery,
  type Page,
  type PostQuery,
  toPage,
  type UserFilter,
  type UserQuery,
} from '../../domain/list-query.ts';
import type { Sortable } from '../../domain/position.ts';
import type { Post } from '../../domain/post.ts';
import type { StoreSummary } from '../../domain/repository.ts';
import type { StoredUser, User } from '../../domain/user.ts';
import { type List, orderSql, rangesFrom, selectSql } from '../list-sql.ts';
import {
  postColumns,
  prepareRows,
  type SqliteRow,
  storedUserColumns,
  toPost,
  toStoredUser,
  toUser,
  userColumns,
} from './rows.ts';

/** A list and what its rows are. */
interface SqliteList<Row> extends List {
  readonly toRow: (row: SqliteRow) => Row;
}

// More than there are combinations of table, filter, sort and start.
const maxStatements = 256;

/** The reads. Each sees all that was committed before it; none holds a lock beyond its call. */
export class SqliteReads {
  readonly #db: DatabaseSync;
  readonly #lists = new Map<string, StatementSync>();
  readonly #getUser: StatementSync;
  readonly #countUsers: StatementSync;
  readonly #countRole: StatementSync;
  readonly #countPosts: StatementSync;
  readonly #exportUsers: StatementSync;
  readonly #exportPosts: StatementSync;
  readonly #summary: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
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
    const { role } = query.filter;
    if (role === undefined) {
      return this.#page(query, { table: 'users', columns: userColumns, filter: {}, toRow: toUser });
    }
    return this.#page(query, {
      table: 'users',
      // The role is known, and not read again.
      columns: 'id, name',
      filter: { role },
      toRow: ({ 0: id, 1: name }) => ({ id: Number(id), name: String(name), role }),
    });
  }

  countUsers({ role }: UserFilter): number {
    return toCount(role === undefined ? this.#countUsers.get() : this.#countRole.get(role));
  }

  listPosts(userId: number, query: PostQuery): Page<Post> | undefined {
    const list = { table: 'posts', columns: postColumns, filter: { user_id: userId }, toRow: toPost };
    const page = this.#page(query, list);
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
    list: SqliteList<Row>,
  ): Page<Row> {
    const { sql, parameters } = pageStatement(list, query);
    return toPage(
      this.#prepare(sql)
        .all(...parameters)
        .map(list.toRow),
      query,
    );
  }

  #prepare(sql: string): StatementSync {
    const known = this.#lists.get(sql);
    if (known !== undefined) return known;
    if (this.#lists.size >= maxStatements) this.#lists.clear();
    const statement = prepareRows(this.#db, sql);
    this.#lists.set(sql, statement);
    return statement;
  }
}

/** The statement for the rows of a page and one more. Several ranges are merged, each along its index. */
export function pageStatement(list: List, { sort, start, limit }: ListQuery<string>) {
  const parameters: (string | number)[] = [];
  const bind = (value: string | number): string => {
    parameters.push(value);
    return '?';
  };
  const ranges = rangesFrom(sort, start).map((range) => selectSql(list, range, bind));
  parameters.push(limit + 1, 'offset' in start ? start.offset : 0);
  const sql = `${ranges.join(' UNION ALL ')} ORDER BY ${orderSql(sort)} LIMIT ? OFFSET ?`;
  return { sql, parameters };
}

function toCount(row: Readonly<Record<string, unknown>> | undefined): number {
  return Number(row?.['count']);
}
