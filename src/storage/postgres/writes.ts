import { DomainError, keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import type { Post, PostDraft } from '../../domain/post.ts';
import type { Created, CreateOptions, StoreSummary } from '../../domain/repository.ts';
import type { StoredUser, UserDraft, UserPatch } from '../../domain/user.ts';
import { type OnceRow, once } from './idempotency.ts';
import type { PostgresPool, Send, Sql } from './pool.ts';
import type { StoredUserRow } from './rows.ts';
import { postColumns, storedUserColumns, toPost, toStoredUser } from './rows.ts';

const createUser: Sql = {
  name: 'create-user',
  text: `INSERT INTO users (name, role) VALUES ($1, $2) RETURNING ${storedUserColumns}`,
};

const createUserOnce: Sql = {
  name: 'create-user-once',
  text: once(`
    INSERT INTO users (name, role) SELECT $4, $5 FROM turn
    RETURNING ${storedUserColumns}`),
};

// The lock makes it wait for a deletion of the user under way, and then find none. Ids are given only
// to posts that are made: nobody can use them up on users that are not there.
const createPost: Sql = {
  name: 'create-post',
  text: `
    INSERT INTO posts (user_id, title, body) SELECT id, $2, $3 FROM users WHERE id = $1 FOR KEY SHARE
    RETURNING ${postColumns}`,
};

const createPostOnce: Sql = {
  name: 'create-post-once',
  text: once(`
    INSERT INTO posts (user_id, title, body)
    SELECT id, $5, $6 FROM users, turn WHERE id = $4 FOR KEY SHARE OF users
    RETURNING ${postColumns}`),
};

// As float8, an expected version may be any number a client can write without being out of range.
const isExpected = (n: number) => `($${n}::float8[] IS NULL OR version = ANY ($${n}::float8[]))`;

const changeUser: Sql = {
  name: 'change-user',
  text: `
    UPDATE users SET
      name = COALESCE($2, name),
      role = COALESCE($3, role),
      version = version + ((COALESCE($2, name), COALESCE($3, role)) IS DISTINCT FROM (name, role))::integer
    WHERE id = $1 AND ${isExpected(4)}
    RETURNING ${storedUserColumns}`,
};

const deleteUser: Sql = {
  name: 'delete-user',
  text: `DELETE FROM users WHERE id = $1 AND ${isExpected(2)} RETURNING id`,
};

const findUser: Sql = {
  name: 'find-user',
  text: 'SELECT id FROM users WHERE id = $1',
};

interface IdRow {
  readonly id: number;
}

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

/** The writes. Each is one statement, which is its own transaction, but for those of a transfer. */
export class PostgresWrites {
  readonly #pool: PostgresPool;
  readonly #idempotencyTtlMs: number;

  constructor(pool: PostgresPool, idempotencyTtlMs: number) {
    this.#pool = pool;
    this.#idempotencyTtlMs = idempotencyTtlMs;
  }

  async createUser({ name, role }: UserDraft, options?: CreateOptions): Promise<Created<StoredUser>> {
    const statements = { plain: createUser, once: createUserOnce };
    const created = await this.#create(statements, [name, role ?? ''], toStoredUser, options);
    if (created === undefined) throw new Error('an INSERT without a condition has a row');
    return created;
  }

  async createPost(
    userId: number,
    { title, body }: PostDraft,
    options?: CreateOptions,
  ): Promise<Created<Post> | undefined> {
    return this.#create({ plain: createPost, once: createPostOnce }, [userId, title, body], toPost, options);
  }

  async updateUser(
    id: number,
    { name, role }: UserPatch,
    expected?: readonly number[],
  ): Promise<StoredUser | undefined> {
    const values = [id, name, role === null ? '' : role, expected];
    const [row] = await this.#pool.write<StoredUserRow>(changeUser, values);
    if (row !== undefined) return toStoredUser(row);
    await this.#requireExpected(id, expected);
    return undefined;
  }

  async deleteUser(id: number, expected?: readonly number[]): Promise<boolean> {
    const [row] = await this.#pool.write<IdRow>(deleteUser, [id, expected]);
    if (row === undefined) await this.#requireExpected(id, expected);
    return row !== undefined;
  }

  importUsers(rows: readonly StoredUser[]): Promise<number> {
    const values = [
      rows.map((user) => user.id),
      rows.map((user) => user.name),
      rows.map((user) => user.role ?? ''),
      rows.map((user) => user.version),
    ];
    return this.#import(users, values);
  }

  importPosts(rows: readonly Post[]): Promise<number> {
    const values = [
      rows.map((post) => post.id),
      rows.map((post) => post.userId),
      rows.map((post) => post.title),
      rows.map((post) => post.body),
    ];
    return this.#import(posts, values);
  }

  continueIds({ lastUserId, lastPostId }: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>): Promise<void> {
    return this.#pool.transaction(async (send) => {
      await lock(send, users.name, posts.name);
      await raiseLastId(send, users, lastUserId);
      await raiseLastId(send, posts, lastPostId);
    });
  }

  async #create<Row, T>(
    statements: { readonly plain: Sql; readonly once: Sql },
    values: readonly unknown[],
    toValue: (row: Row) => T,
    { idempotency }: CreateOptions = {},
  ): Promise<Created<T> | undefined> {
    if (idempotency === undefined) {
      const [row] = await this.#pool.write<Row & object>(statements.plain, values);
      return row && { value: toValue(row), replayed: false };
    }
    const { key, fingerprint } = idempotency;
    const keyed = [key, fingerprint, this.#idempotencyTtlMs, ...values];
    const [kept] = await this.#pool.write<OnceRow<Row>>(statements.once, keyed);
    if (kept === undefined) return undefined;
    if (kept.outcome === 'busy') throw keyInUse();
    if (kept.fingerprint !== fingerprint) throw keyReused();
    return { value: toValue(kept.response), replayed: kept.outcome === 'replayed' };
  }

  /** Tells why a change met no row. Ids are never given again: a user there now was there before. */
  async #requireExpected(id: number, expected: readonly number[] | undefined): Promise<void> {
    if (expected === undefined) return;
    const [row] = await this.#pool.read<IdRow>(findUser, [id]);
    if (row !== undefined) throw preconditionFailed(id);
  }

  #import(table: Table, values: readonly (readonly unknown[])[]): Promise<number> {
    const { name, columns, types } = table;
    const given = `unnest(${types.map((type, i) => `$${i + 1}::${type}[]`).join(', ')}) AS given (${columns})`;
    const add = `
      INSERT INTO ${name} (${columns}) SELECT ${columns} FROM ${given} ON CONFLICT (id) DO NOTHING RETURNING id`;
    const findOther = `
      SELECT id FROM ${given} WHERE NOT EXISTS (
        SELECT FROM ${name} AS kept WHERE ${row('kept', columns)} = ${row('given', columns)}) LIMIT 1`;
    return this.#pool.transaction(async (send) => {
      await lock(send, name);
      const added = await send<IdRow>({ text: add }, values);
      const isAllNew = added.length === values[0]?.length;
      const [other] = isAllNew ? [] : await send<IdRow>({ text: findOther }, values);
      if (other !== undefined) {
        const what = `${name.slice(0, -1)} ${other.id}`;
        throw new DomainError('conflict', `${what} is there already and differs`);
      }
      await raiseLastId(
        send,
        table,
        added.reduce((last, { id }) => Math.max(last, id), 0),
      );
      return added.length;
    });
  }
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
