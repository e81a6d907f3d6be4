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
import type { List } from '../list-sql.ts';
import { listStatement } from './lists.ts';
import type { PostgresPool, Sql } from './pool.ts';
import type { CountRow, PostRow, StoredUserRow } from './rows.ts';
import { postColumns, storedUserColumns, toPost, toStoredUser, toUser, userColumns } from './rows.ts';

const getUser: Sql = {
  name: 'get-user',
  text: `SELECT ${storedUserColumns} FROM users WHERE id = $1`,
};

const countUsers: Sql = {
  name: 'count-users',
  text: 'SELECT count(*)::integer AS count FROM users',
};

const countRole: Sql = {
  name: 'count-role',
  text: 'SELECT count(*)::integer AS count FROM users WHERE role = $1',
};

const countPosts: Sql = {
  name: 'count-posts',
  text: `
    SELECT (SELECT count(*) FROM posts WHERE user_id = $1)::integer AS count FROM users WHERE id = $1`,
};

// Locks and changes nothing, and yet is refused by a server that takes no writes: a standby, say.
const ping: Sql = {
  name: 'ping',
  text: 'SELECT id FROM users WHERE false FOR UPDATE',
};

const summary: Sql = {
  text: `
    SELECT
      (SELECT count(*) FROM users)::integer AS "users",
      (SELECT count(*) FROM posts)::integer AS "posts",
      (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM users_id_seq)::integer AS "lastUserId",
      (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM posts_id_seq)::integer AS "lastPostId"`,
};

const exportUsers: Sql = {
  text: `SELECT ${storedUserColumns} FROM users WHERE id > $1 ORDER BY id LIMIT $2`,
};

const exportPosts: Sql = {
  text: `SELECT ${postColumns} FROM posts WHERE id > $1 ORDER BY id LIMIT $2`,
};

// Each connection keeps the plans of these on the server, some 20 KB each; others are planned each time.
const maxPreparedLists = 256;

/** The reads, each of one statement, but for the question whether a user without posts exists. */
export class PostgresReads {
  readonly #pool: Pick<PostgresPool, 'read' | 'probe'>;
  /** By text: the combinations of table, filter, sort, start and limit that came first. */
  readonly #lists = new Map<string, Sql>();

  constructor(pool: Pick<PostgresPool, 'read' | 'probe'>) {
    this.#pool = pool;
  }

  async getUser(id: number, signal?: AbortSignal): Promise<StoredUser | undefined> {
    const [row] = await this.#pool.read<StoredUserRow>(getUser, [id], signal);
    return row && toStoredUser(row);
  }

  async listUsers(query: UserQuery, signal?: AbortSignal): Promise<Page<User>> {
    const { role } = query.filter;
    const list = { table: 'users', columns: userColumns, filter: role === undefined ? {} : { role } };
    return this.#page(query, list, toUser, signal);
  }

  async countUsers({ role }: UserFilter, signal?: AbortSignal): Promise<number> {
    const [statement, values] = role === undefined ? [countUsers, []] : [countRole, [role]];
    const [row] = await this.#pool.read<CountRow>(statement, values, signal);
    return Number(row?.count);
  }

  async listPosts(userId: number, query: PostQuery, signal?: AbortSignal): Promise<Page<Post> | undefined> {
    const list = { table: 'posts', columns: postColumns, filter: { user_id: userId } };
    const page = await this.#page(query, list, toPost, signal);
    return page.items.length > 0 || (await this.getUser(userId, signal)) ? page : undefined;
  }

  async countPosts(userId: number, signal?: AbortSignal): Promise<number | undefined> {
    const [row] = await this.#pool.read<CountRow>(countPosts, [userId], signal);
    return row?.count;
  }

  async ping(signal?: AbortSignal): Promise<void> {
    await this.#pool.probe(ping, signal);
  }

  async summary(): Promise<StoreSummary> {
    const [row] = await this.#pool.read<StoreSummary>(summary, []);
    if (row === undefined) throw new Error('a SELECT without FROM has a row');
    return { ...row };
  }

  async exportUsers(afterId: number, limit: number): Promise<StoredUser[]> {
    return (await this.#pool.read<StoredUserRow>(exportUsers, [afterId, limit])).map(toStoredUser);
  }

  async exportPosts(afterId: number, limit: number): Promise<Post[]> {
    return (await this.#pool.read<PostRow>(exportPosts, [afterId, limit])).map(toPost);
  }

  async #page<Row extends object, Field extends string, Item extends Sortable<Field>>(
    query: ListQuery<Field>,
    list: List,
    toItem: (row: Row) => Item,
    signal: AbortSignal | undefined,
  ): Promise<Page<Item>> {
    const { sort, limit, start } = query;
    const { sql, parameters } = listStatement(list, sort, limit + 1, start);
    const rows = await this.#pool.read<Row>(this.#list(sql), parameters, signal);
    return toPage(rows.map(toItem), query);
  }

  #list(text: string): Sql {
    const known = this.#lists.get(text);
    if (known !== undefined) return known;
    if (this.#lists.size >= maxPreparedLists) return { text };
    const list = { name: `list-${this.#lists.size + 1}`, text };
    this.#lists.set(text, list);
    return list;
  }
}
