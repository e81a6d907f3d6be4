import { keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import type { StoredPost } from '../../domain/post.ts';
import { maxVersion, versionsExhausted } from '../../domain/record.ts';
import type { ChangeOptions, Created, CreateOptions, Repository } from '../../domain/repository.ts';
import type { StoredUser } from '../../domain/user.ts';
import {
  columnNames,
  columnValues,
  editableColumns,
  givenColumns,
  keyColumns,
  posts,
  recordValues,
  type Table,
  users,
} from '../tables.ts';
import { type OnceRow, once } from './idempotency.ts';
import { type PostgresPool, prepared } from './pool.ts';
import { fromRow, type IdRow, isKey, type Row } from './rows.ts';

type Writes = 'createUser' | 'updateUser' | 'deleteUser' | 'createPost' | 'updatePost' | 'deletePost';

/** The writes. Each is one statement, which is a transaction by itself. */
export function postgresWrites(pool: PostgresPool, idempotencyTtlMs: number): Pick<Repository, Writes> {
  const user = recordWrites<StoredUser>(pool, users, idempotencyTtlMs);
  const post = recordWrites<StoredPost>(pool, posts, idempotencyTtlMs);
  return {
    async createUser(draft, options) {
      const created = await user.insert(draft, options);
      if (created === undefined) throw new Error('an INSERT without a condition has a row');
      return created;
    },
    updateUser: (id, patch, options) => user.update([id], patch, options),
    deleteUser: (id, options) => user.delete([id], options),
    createPost: (userId, draft, options) => post.insert({ ...draft, userId }, options),
    updatePost: (userId, id, patch, options) => post.update([id, userId], patch, options),
    deletePost: (userId, id, options) => post.delete([id, userId], options),
  };
}

/** The values of a table's key columns. */
type Key = readonly [id: number, ...others: number[]];

/** The writes of one record of a table. */
function recordWrites<T>(pool: PostgresPool, table: Table, idempotencyTtlMs: number) {
  const { columns } = table;
  const given = givenColumns(table);
  const edited = editableColumns(table);
  const insert = prepared(insertSql(table, 1));
  const insertOnce = prepared(once(insertSql(table, 4, 'turn')));
  const update = prepared(updateSql(table));
  const remove = prepared(
    `DELETE FROM ${table.name} WHERE ${isKey(table)} AND ${isExpected(table)} RETURNING id`,
  );
  const findVersion = prepared(`SELECT version FROM ${table.name} WHERE ${isKey(table)}`);
  /** Finds out why a change met no row; a record that has been made since was not there. */
  const refuse = async (key: Key, expected: readonly number[] | undefined) => {
    const [row] = await pool.read<{ version: number }>(findVersion, key);
    if (row === undefined) return;
    if (row.version >= maxVersion && expected?.includes(row.version) !== false) {
      throw versionsExhausted(table.record, key[0]);
    }
    // Even if its version is an expected one by now.
    if (expected !== undefined) throw preconditionFailed(table.record, key[0]);
  };
  return {
    /** `undefined` when it would belong to a record that is not there. */
    async insert(record: object, { idempotency }: CreateOptions = {}): Promise<Created<T> | undefined> {
      const values = recordValues(given, record);
      if (idempotency === undefined) {
        const [row] = await pool.write<Row>(insert, values);
        return row && { value: fromRow(columns, row), replayed: false };
      }
      const { key, fingerprint } = idempotency;
      const [kept] = await pool.write<OnceRow<Row>>(insertOnce, [
        key,
        fingerprint,
        idempotencyTtlMs,
        ...values,
      ]);
      if (kept === undefined) return undefined;
      if (kept.outcome === 'busy') throw keyInUse();
      if (kept.fingerprint !== fingerprint) throw keyReused();
      return { value: fromRow(columns, kept.response), replayed: kept.outcome === 'replayed' };
    },

    async update(key: Key, patch: object, { expected }: ChangeOptions = {}): Promise<T | undefined> {
      const [row] = await pool.write<Row>(update, [...key, expected, ...columnValues(edited, patch)]);
      if (row === undefined) await refuse(key, expected);
      return row && fromRow(columns, row);
    },

    async delete(key: Key, { expected }: ChangeOptions = {}): Promise<boolean> {
      const [row] = await pool.write<IdRow>(remove, [...key, expected]);
      if (row === undefined) await refuse(key, expected);
      return row !== undefined;
    },
  };
}

/**
 * Adds the given columns, $n from `first` on, for each row of `source` if there is one. The lock makes it
 * wait for a deletion under way of the record that it would belong to, and then find none. Ids are given
 * only to records that are made, so requests below what is not there cannot use them up.
 */
function insertSql(table: Table, first: number, source?: string): string {
  const given = givenColumns(table).map((column, i) => ({
    ...column,
    place: `$${first + i}::${column.type}`,
  }));
  const parents = given.filter(({ parent }) => parent !== undefined);
  const sources = [...parents.map(({ parent }) => parent), ...(source === undefined ? [] : [source])];
  const conditions = parents.map(({ parent, place }) => `${parent}.id = ${place}`);
  return `
    INSERT INTO ${table.name} (${columnNames(given)}) SELECT ${given.map(({ place }) => place).join(', ')}
    ${sources.length > 0 ? `FROM ${sources.join(', ')}` : ''}
    ${parents.length > 0 ? `WHERE ${conditions.join(' AND ')} FOR KEY SHARE OF ${parents.map(({ parent }) => parent)}` : ''}
    RETURNING ${columnNames(table.columns)}`;
}

/** Takes the key, the versions that are expected, and the values of the editable columns, of which NULL is left. */
function updateSql(table: Table): string {
  const first = keyColumns(table).length + 2;
  const edits = editableColumns(table).map(({ name }, i) => ({
    name,
    next: `COALESCE($${first + i}, ${name})`,
  }));
  const isChange = `(${edits.map(({ next }) => next).join(', ')}) IS DISTINCT FROM (${columnNames(editableColumns(table))})`;
  return `
    UPDATE ${table.name} SET ${edits.map(({ name, next }) => `${name} = ${next}`).join(', ')},
      version = version + (${isChange})::integer
    WHERE ${isKey(table)} AND ${isExpected(table)} AND (version < ${maxVersion} OR NOT (${isChange}))
    RETURNING ${columnNames(table.columns)}`;
}

/** Whether the version is one of those after the key. As float8 they may be any number a client can write. */
function isExpected(table: Table): string {
  const versions = `$${keyColumns(table).length + 1}::float8[]`;
  return `(${versions} IS NULL OR version = ANY (${versions}))`;
}
