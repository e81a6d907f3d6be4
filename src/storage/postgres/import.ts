import { DomainError } from '../../domain/errors.ts';
import type { Store } from '../../domain/repository.ts';
import type { PostgresPool, Send } from './pool.ts';
import { type IdRow, postColumns, storedUserColumns } from './rows.ts';

/** How a table's rows are imported: in arrays, one a column, of these types. */
interface Table {
  readonly name: 'users' | 'posts';
  readonly columns: string;
  readonly types: readonly string[];
}

const users: Table = {
  name: 'users',
  columns: storedUserColumns,
  types: ['integer', 'text', 'text', 'integer'],
};

const posts: Table = {
  name: 'posts',
  columns: postColumns,
  types: ['integer', 'integer', 'text', 'text'],
};

/** What moves a whole store here, each batch in one transaction. */
export function postgresImport(
  pool: PostgresPool,
): Pick<Store, 'importUsers' | 'importPosts' | 'continueIds'> {
  return {
    async importUsers(rows) {
      pool.enter();
      return importRows(pool, users, [
        rows.map((user) => user.id),
        rows.map((user) => user.name),
        rows.map((user) => user.role ?? ''),
        rows.map((user) => user.version),
      ]);
    },

    async importPosts(rows) {
      pool.enter();
      return importRows(pool, posts, [
        rows.map((post) => post.id),
        rows.map((post) => post.userId),
        rows.map((post) => post.title),
        rows.map((post) => post.body),
      ]);
    },

    async continueIds({ lastUserId, lastPostId }) {
      pool.enter();
      await pool.transaction(async (send) => {
        await lock(send, users.name, posts.name);
        await raiseLastId(send, users, lastUserId);
        await raiseLastId(send, posts, lastPostId);
      });
    },
  };
}

function importRows(
  pool: PostgresPool,
  table: Table,
  values: readonly (readonly (string | number)[])[],
): Promise<number> {
  const { name, columns, types } = table;
  const given = `unnest(${types.map((type, i) => `$${i + 1}::${type}[]`).join(', ')}) AS given (${columns})`;
  const add = `
    INSERT INTO ${name} (${columns}) SELECT ${columns} FROM ${given} ON CONFLICT (id) DO NOTHING RETURNING id`;
  const findOther = `
    SELECT id FROM ${given} WHERE NOT EXISTS (
      SELECT FROM ${name} AS kept WHERE ${row('kept', columns)} = ${row('given', columns)}) LIMIT 1`;
  return pool.transaction(async (send) => {
    await lock(send, name);
    const added = await send<IdRow>({ text: add }, values);
    const isAllNew = added.length === values[0]?.length;
    const [other] = isAllNew ? [] : await send<IdRow>({ text: findOther }, values);
    if (other !== undefined) {
      throw new DomainError('conflict', `${name.slice(0, -1)} ${other.id} is there already and differs`);
    }
    await raiseLastId(
      send,
      table,
      added.reduce((last, { id }) => Math.max(last, id), 0),
    );
    return added.length;
  });
}

/** Keeps others from giving ids: between reading a sequence and setting it, it must not move. */
async function lock(send: Send, ...tables: string[]): Promise<void> {
  await send({ text: `LOCK TABLE ${tables.join(', ')} IN SHARE ROW EXCLUSIVE MODE` });
}

async function raiseLastId(send: Send, { name }: Table, id: number): Promise<void> {
  const text = `
    SELECT setval('${name}_id_seq', $1) FROM ${name}_id_seq
    WHERE $1 > CASE WHEN is_called THEN last_value ELSE 0 END`;
  await send({ text }, [id]);
}

function row(table: string, columns: string): string {
  const names = columns.split(', ').map((column) => `${table}.${column}`);
  return `(${names.join(', ')})`;
}
