import { keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import { maxVersion, type RecordKind, recordKinds, versionsExhausted } from '../../domain/record.ts';
import type { ChangeOptions } from '../../domain/repository.ts';
import type { Collection, Row, StoreBackend } from '../store.ts';
import {
  columnNames,
  fromNames,
  type NamedRow,
  patchValues,
  recordValues,
  rowDiffers,
  type Table,
  tables,
} from '../tables.ts';
import { restartFeed } from './change-sql.ts';
import type { PostgresChanges } from './changes.ts';
import type { Send, Sql } from './connection.ts';
import type { PostgresPool } from './pool.ts';
import { type OnceRow, writeStatements } from './write-sql.ts';

interface RecordRow extends NamedRow {
  readonly record: NamedRow;
}

interface UnchangedRow extends NamedRow {
  readonly version: number;
  readonly is_expected: boolean;
  readonly is_same: boolean;
}

/**
 * The writes of a table. Each is one statement, which is a transaction by itself, and adds its change to the feed, if
 * there is one.
 */
export function postgresWrites(
  pool: PostgresPool,
  table: Table,
  idempotencyTtlMs: number,
  feed: PostgresChanges | undefined,
): Pick<Collection, 'create' | 'update' | 'delete'> {
  const { columns, given, edited } = table;
  const { insert, insertOnce, update, unchanged, remove, find } = writeStatements(table, feed !== undefined);
  const write = async <R extends NamedRow>(
    sql: Sql,
    values: readonly unknown[],
    { origin }: ChangeOptions,
  ) => {
    if (feed === undefined) return pool.write<R>(sql, values);
    const rows = await pool.write<R>(sql, [...values, origin?.requestId, origin?.key]);
    feed.written();
    return rows;
  };
  const toRecord = (row: NamedRow) => fromNames<Row>(columns, row);
  return {
    async create(record, options = {}) {
      const values = recordValues(given, record);
      if (options.idempotency === undefined) {
        const [row] = await write<RecordRow>(insert, values, options);
        return row && { value: toRecord(row.record), replayed: false };
      }
      const { key, fingerprint } = options.idempotency;
      const once = [key, fingerprint, idempotencyTtlMs, ...values];
      const [kept] = await write<OnceRow<NamedRow>>(insertOnce, once, options);
      if (kept === undefined) return undefined;
      if (kept.outcome === 'busy') throw keyInUse();
      if (kept.fingerprint !== fingerprint) throw keyReused();
      // A copy of an earlier release stores posts without a version, and may still be running.
      return { value: toRecord({ version: 1, ...kept.response }), replayed: kept.outcome === 'replayed' };
    },

    async update(key, patch, options = {}) {
      const values = [...key, options.expected, ...patchValues(edited, patch)];
      // A retry is necessary only if another write came between the two statements.
      for (;;) {
        const [row] = await write<RecordRow>(update, values, options);
        if (row !== undefined) return toRecord(row.record);
        const [found] = await pool.write<UnchangedRow>(unchanged, values);
        if (found === undefined) return undefined;
        if (!found.is_expected) throw preconditionFailed(table.record, key[0]);
        if (found.is_same) return toRecord(found);
        if (found.version >= maxVersion) throw versionsExhausted(table.record, key[0]);
      }
    },

    async delete(key, options = {}) {
      const [row] = await write<NamedRow>(remove, [...key, options.expected], options);
      if (row !== undefined) return true;
      // Another write may have changed the version to an expected one in the meantime.
      if (options.expected !== undefined && (await pool.read(find, key)).length > 0) {
        throw preconditionFailed(table.record, key[0]);
      }
      return false;
    },
  };
}

interface Added extends NamedRow {
  readonly count: number;
  /** The greatest id of a new row; 0 if there is none. */
  readonly last: number;
}

/** The writes that import a whole store, each batch in one transaction. */
export function postgresImport(pool: PostgresPool): Pick<StoreBackend, 'importRows' | 'continueIds'> {
  return {
    async importRows(kind, rows) {
      // As arrays, one for each column.
      const columns = tables[kind].columns;
      const names = columnNames(columns);
      const records = rows.map((row) => recordValues(columns, row));
      const values = columns.map((_, i) => records.map((record) => record[i]));
      const given = `unnest(${columns.map(({ type }, i) => `$${i + 1}::${type}[]`).join(', ')}) AS given (${names})`;
      const add = `
        WITH added AS (
          INSERT INTO ${kind} (${names}) SELECT ${names} FROM ${given} ON CONFLICT (id) DO NOTHING RETURNING id
        ) SELECT count(*)::integer AS count, COALESCE(max(id), 0) AS last FROM added`;
      const findOther = `
        SELECT id FROM ${given} LEFT JOIN ${kind} AS kept USING (${names}) WHERE kept IS NULL LIMIT 1`;
      return pool.transaction(async (send) => {
        await lock(send, kind);
        const [{ count, last } = { count: 0, last: 0 }] = await send<Added>({ text: add }, values);
        const [other] = count === rows.length ? [] : await send<{ id: number }>({ text: findOther }, values);
        if (other !== undefined) throw rowDiffers(kind, other.id);
        await raiseLastId(send, kind, last);
        if (count > 0) await send(restartFeed);
        return count;
      });
    },

    async continueIds(last) {
      await pool.transaction(async (send) => {
        await lock(send, ...recordKinds);
        for (const kind of recordKinds) await raiseLastId(send, kind, last[kind]);
      });
    },
  };
}

/** Prevents others from assigning ids, because a sequence must not change between reading and setting it. */
async function lock(send: Send, ...tables: string[]): Promise<void> {
  await send({ text: `LOCK TABLE ${tables.join(', ')} IN SHARE ROW EXCLUSIVE MODE` });
}

async function raiseLastId(send: Send, kind: RecordKind, id: number): Promise<void> {
  const text = `
    SELECT setval('${kind}_id_seq', $1) FROM ${kind}_id_seq
    WHERE $1 > CASE WHEN is_called THEN last_value ELSE 0 END`;
  await send({ text }, [id]);
}
