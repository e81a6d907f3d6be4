import { keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import { maxVersion, versionsExhausted } from '../../domain/record.ts';
import type { Created, CreateOptions, Repository } from '../../domain/repository.ts';
import { type OnceRow, once } from './idempotency.ts';
import { type PostgresPool, prepared, type Sql } from './pool.ts';
import {
  type IdRow,
  postColumns,
  type StoredUserRow,
  storedUserColumns,
  toPost,
  toStoredUser,
} from './rows.ts';

/** An insert, and the same to happen once for a key. */
interface Insert<Row, T> {
  readonly plain: Sql;
  readonly once: Sql;
  readonly toValue: (row: Row) => T;
}

const createUser = {
  plain: prepared(`INSERT INTO users (name, role) VALUES ($1, $2) RETURNING ${storedUserColumns}`),
  once: prepared(
    once(`
      INSERT INTO users (name, role) SELECT $4, $5 FROM turn
      RETURNING ${storedUserColumns}`),
  ),
  toValue: toStoredUser,
};

// The lock makes it wait for a deletion of the user under way, and then find none. Ids are given only
// to posts that are made, so requests for users that are not there cannot use them up.
const createPost = {
  plain: prepared(`
    INSERT INTO posts (user_id, title, body) SELECT id, $2, $3 FROM users WHERE id = $1 FOR KEY SHARE
    RETURNING ${postColumns}`),
  once: prepared(
    once(`
      INSERT INTO posts (user_id, title, body)
      SELECT id, $5, $6 FROM users, turn WHERE id = $4 FOR KEY SHARE OF users
      RETURNING ${postColumns}`),
  ),
  toValue: toPost,
};

// As float8, an expected version may be any number a client can write without being out of range.
const isExpected = (n: number) => `($${n}::float8[] IS NULL OR version = ANY ($${n}::float8[]))`;

const isChange = '(COALESCE($2, name), COALESCE($3, role)) IS DISTINCT FROM (name, role)';

const updateUser = prepared(`
  UPDATE users SET
    name = COALESCE($2, name),
    role = COALESCE($3, role),
    version = version + (${isChange})::integer
  WHERE id = $1 AND ${isExpected(4)} AND (version < ${maxVersion} OR NOT ${isChange})
  RETURNING ${storedUserColumns}`);

const deleteUser = prepared(`DELETE FROM users WHERE id = $1 AND ${isExpected(2)} RETURNING id`);
const findVersion = prepared('SELECT version FROM users WHERE id = $1');

type Writes = 'createUser' | 'updateUser' | 'deleteUser' | 'createPost';

/** The writes. Each is one statement, which is a transaction by itself. */
export function postgresWrites(pool: PostgresPool, idempotencyTtlMs: number): Pick<Repository, Writes> {
  const create = async <Row extends object, T>(
    { plain, once, toValue }: Insert<Row, T>,
    values: readonly unknown[],
    { idempotency }: CreateOptions = {},
  ): Promise<Created<T> | undefined> => {
    if (idempotency === undefined) {
      const [row] = await pool.write<Row>(plain, values);
      return row && { value: toValue(row), replayed: false };
    }
    const { key, fingerprint } = idempotency;
    const [kept] = await pool.write<OnceRow<Row>>(once, [key, fingerprint, idempotencyTtlMs, ...values]);
    if (kept === undefined) return undefined;
    if (kept.outcome === 'busy') throw keyInUse();
    if (kept.fingerprint !== fingerprint) throw keyReused();
    return { value: toValue(kept.response), replayed: kept.outcome === 'replayed' };
  };
  /** Finds out why a change met no row. Ids are never given again: a user there now was there before. */
  const refuse = async (id: number, expected: readonly number[] | undefined) => {
    const [row] = await pool.read<{ version: number }>(findVersion, [id]);
    if (row === undefined) return;
    throw expected?.includes(row.version) === false ? preconditionFailed(id) : versionsExhausted('user', id);
  };
  return {
    async createUser({ name, role }, options) {
      const created = await create(createUser, [name, role ?? ''], options);
      if (created === undefined) throw new Error('an INSERT without a condition has a row');
      return created;
    },

    async updateUser(id, { name, role }, { expected } = {}) {
      const values = [id, name, role === null ? '' : role, expected];
      const [row] = await pool.write<StoredUserRow>(updateUser, values);
      if (row === undefined) await refuse(id, expected);
      return row && toStoredUser(row);
    },

    async deleteUser(id, { expected } = {}) {
      const [row] = await pool.write<IdRow>(deleteUser, [id, expected]);
      if (row === undefined) await refuse(id, expected);
      return row !== undefined;
    },

    async createPost(userId, { title, body }, options) {
      return create(createPost, [userId, title, body], options);
    },
  };
}
