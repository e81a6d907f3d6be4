import {
  type ListQuery,
  maxLimit,
  type Page,
  type PostField,
  toPage,
  type UserField,
} from '../../domain/list-query.ts';
import type { Sort, Sortable } from '../../domain/position.ts';
import type { Post, StoredPost } from '../../domain/post.ts';
import { byKind, recordKinds, type Store } from '../../domain/repository.ts';
import type { StoredUser, User } from '../../domain/user.ts';
import { type Bind, type List, orderSql, rangesFrom, selectSql } from '../list-sql.ts';
import { columnNames, filterConditions, listColumns, posts, type Table, tables, users } from '../tables.ts';
import { type PostgresPool, prepared, type Sql } from './pool.ts';
import { type CountRow, fromRow, isKey, type Row } from './rows.ts';

const getUser = prepared(getSql(users));
const getPost = prepared(getSql(posts));

// Locks and changes nothing, and yet is refused by a server that takes no writes: a standby, say.
const ping = prepared('SELECT id FROM users WHERE false FOR UPDATE');

const summary: Sql = {
  text: `SELECT ${recordKinds
    .map(
      (kind) => `
      (SELECT count(*) FROM ${kind})::integer AS "${kind}",
      (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ${kind}_id_seq)::integer AS "${kind}_last"`,
    )
    .join(',')}`,
};

type Reads =
  | 'getUser'
  | 'listUsers'
  | 'countUsers'
  | 'getPost'
  | 'listPosts'
  | 'countPosts'
  | 'ping'
  | 'summary'
  | 'exportRows';

/** The reads, each of one statement, but for the question whether a user without posts exists. */
export function postgresReads(pool: Pick<PostgresPool, 'read' | 'ping'>): Pick<Store, Reads> {
  const page = async <Item extends Sortable<Field>, Field extends string>(
    table: Table,
    filter: object,
    query: ListQuery<Field>,
    signal: AbortSignal | undefined,
  ): Promise<Page<Item>> => {
    const columns = listColumns(table);
    const list = {
      table: table.name,
      columns: columnNames(columns),
      filter: filterConditions(table, filter),
    };
    const { sql, values } = listStatement(list, query);
    const rows = await pool.read<Row>(sql, values, signal);
    return toPage(
      rows.map((row) => fromRow<Item>(columns, row)),
      query,
    );
  };
  return {
    async getUser(id, { signal } = {}) {
      const [row] = await pool.read<Row>(getUser, [id], signal);
      return row && fromRow<StoredUser>(users.columns, row);
    },

    async listUsers(query, { signal } = {}) {
      return page<User, UserField>(users, query.filter, query, signal);
    },

    async countUsers(filter, { signal } = {}) {
      const values: Value[] = [];
      const sql = prepared(countSql(users, filter, values));
      const [row] = await pool.read<CountRow>(sql, values, signal);
      return Number(row?.count);
    },

    async listPosts(userId, query, { signal } = {}) {
      const found = await page<Post, PostField>(posts, { userId, ...query.filter }, query, signal);
      if (found.items.length > 0) return found;
      const [user] = await pool.read(getUser, [userId], signal);
      return user && found;
    },

    async countPosts(userId, filter, { signal } = {}) {
      const values: Value[] = [];
      const count = countSql(posts, { userId, ...filter }, values);
      const sql = prepared(`SELECT (${count}) AS count FROM users WHERE id = ${binder(values)(userId)}`);
      const [row] = await pool.read<CountRow>(sql, values, signal);
      return row?.count;
    },

    async getPost(userId, id, { signal } = {}) {
      const [row] = await pool.read<Row>(getPost, [id, userId], signal);
      return row && fromRow<StoredPost>(posts.columns, row);
    },

    async ping({ signal } = {}) {
      await pool.ping(ping, signal);
    },

    async summary() {
      const [row] = await pool.read<Record<string, number>>(summary, []);
      return byKind((kind) => ({ count: Number(row?.[kind]), lastId: Number(row?.[`${kind}_last`]) }));
    },

    async exportRows(kind, afterId, limit) {
      const { columns } = tables[kind];
      const sql = prepared(`SELECT ${columnNames(columns)} FROM ${kind} WHERE id > $1 ORDER BY id LIMIT $2`);
      const rows = await pool.read<Row>(sql, [afterId, limit]);
      return rows.map((row) => fromRow(columns, row));
    },
  };
}

function getSql(table: Table): string {
  return `SELECT ${columnNames(table.columns)} FROM ${table.name} WHERE ${isKey(table)}`;
}

type Value = string | number | readonly (string | number)[];

function binder(values: Value[]): Bind {
  return (value) => {
    const place = `$${values.push(value)}`;
    return typeof value === 'object' ? `= ANY (${place}::integer[])` : place;
  };
}

function countSql(table: Table, filter: object, values: Value[]): string {
  const list = {
    table: table.name,
    columns: 'count(*)::integer AS count',
    filter: filterConditions(table, filter),
  };
  return selectSql(list, [], binder(values));
}

/**
 * The rows of a page and one more, in one statement since each is a round trip. The limit is a
 * parameter, so that there are few texts, and all stay prepared. For a parameter alone the planner would
 * expect a tenth of the table, and plan each call: hence the constant limit inside.
 */
function listStatement(list: List, { sort, limit, start }: ListQuery<string>) {
  const values: Value[] = [];
  const bind = binder(values);
  const most = Math.max(limit, maxLimit) + 1;
  const rows = `LIMIT ${bind(limit + 1)}`;
  const order = indexed(sort, list.filter);
  const by = `ORDER BY ${orderSql(order)}`;
  const ranges = rangesFrom(order, start).map((range, i) => {
    const skipped = 'offset' in start && start.offset > 0 ? ` OFFSET ${bind(start.offset)}` : '';
    const inner = `${selectSql(list, range, bind)} ${by} LIMIT ${most}${skipped}`;
    return `SELECT * FROM (${inner}) AS range_${i} ${rows}`;
  });
  const [only = ''] = ranges;
  const union = ranges.map((range) => `(${range})`).join(' UNION ALL ');
  const text = ranges.length === 1 ? only : `SELECT * FROM (${union}) AS page ${by} ${rows}`;
  return { sql: prepared(text), values };
}

/** The sort by the expressions of the indexes, in which only a list of everything by id uses the id itself. */
function indexed(sort: Sort<string>, filter: List['filter']): Sort<string> {
  if (sort[0]?.field === 'id' && filter.length === 0) return sort;
  return sort.map((key) => (key.field === 'id' ? { ...key, field: '(id::bigint)' } : key));
}
