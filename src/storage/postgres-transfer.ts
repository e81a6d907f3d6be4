import { DomainError } from '../domain/errors.ts';
import type { Post } from '../domain/post.ts';
import type { StoreSummary } from '../domain/transfer.ts';
import type { StoredUser } from '../domain/user.ts';
import type { PostgresPool, Send } from './postgres-pool.ts';
import { postColumns, userColumns } from './postgres-sql.ts';

/** How the rows of one table come in as a batch: one array a column, in the order of `columns`. */
interface Batch {
  readonly table: 'users' | 'posts';
  readonly columns: string;
  /** Types of the arrays, by which the server reads them. */
  readonly types: readonly string[];
  readonly values: readonly (readonly (string | number)[])[];
}

const lastId = (table: Batch['table']) =>
  `(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ${table}_id_seq)::integer`;

export async function summarize(pool: PostgresPool): Promise<StoreSummary> {
  const text = `SELECT
    (SELECT count(*) FROM users)::integer AS "users",
    (SELECT count(*) FROM posts)::integer AS "posts",
    ${lastId('users')} AS "lastUserId",
    ${lastId('posts')} AS "lastPostId"`;
  const [row] = await pool.read<StoreSummary>({ text }, []);
  if (row === undefined) throw new Error('a SELECT without FROM has a row');
  return { ...row };
}

export function importUsers(pool: PostgresPool, users: readonly StoredUser[]): Promise<number> {
  return addBatch(pool, {
    table: 'users',
    columns: userColumns,
    types: ['integer', 'text', 'text', 'integer'],
    values: [
      users.map((user) => user.id),
      users.map((user) => user.name),
      users.map((user) => user.role ?? ''),
      users.map((user) => user.version),
    ],
  });
}

export function importPosts(pool: PostgresPool, posts: readonly Post[]): Promise<number> {
  return addBatch(pool, {
    table: 'posts',
    columns: postColumns,
    types: ['integer', 'integer', 'text', 'text'],
    values: [
      posts.map((post) => post.id),
      posts.map((post) => post.userId),
      posts.map((post) => post.title),
      posts.map((post) => post.body),
    ],
  });
}

export function continueIds(
  pool: PostgresPool,
  { lastUserId, lastPostId }: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>,
): Promise<void> {
  return pool.transaction(async (send) => {
    await lock(send, 'users, posts');
    await raiseSequence(send, 'users', lastUserId);
    await raiseSequence(send, 'posts', lastPostId);
  });
}

function addBatch(pool: PostgresPool, { table, columns, types, values }: Batch): Promise<number> {
  const unnest = `unnest(${types.map((type, i) => `$${i + 1}::${type}[]`).join(', ')})`;
  const add = `INSERT INTO ${table} (${columns}) SELECT * FROM ${unnest} ON CONFLICT (id) DO NOTHING RETURNING id`;
  const row = (of: string) => `(${columns.split(', ').map((column) => `${of}.${column}`).join(', ')})`;
  const differ = `
    SELECT given.id FROM ${unnest} AS given (${columns}) JOIN ${table} AS kept ON kept.id = given.id
    WHERE ${row('given')} IS DISTINCT FROM ${row('kept')} ORDER BY given.id LIMIT 1`;
  return pool.transaction(async (send) => {
    await lock(send, table);
    const added = await send<{ id: number }>({ text: add }, values);
    const [other] = await send<{ id: number }>({ text: differ }, values);
    if (other !== undefined) {
      throw new DomainError('conflict', `${table.slice(0, -1)} ${other.id} is there already and differs`);
    }
    await raiseSequence(
      send,
      table,
      added.reduce((last, { id }) => Math.max(last, id), 0),
    );
    return added.length;
  });
}

/** Keeps others from giving ids meanwhile: between reading a sequence and setting it, it must not move. */
async function lock(send: Send, tables: string): Promise<void> {
  await send({ text: `LOCK TABLE ${tables} IN SHARE ROW EXCLUSIVE MODE` });
}

async function raiseSequence(send: Send, table: Batch['table'], last: number): Promise<void> {
  await send({ text: `SELECT setval('${table}_id_seq', $1) WHERE $1 > ${lastId(table)}` }, [last]);
}
