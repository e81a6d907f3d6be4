import { importPosition } from '../../domain/change.ts';
import { changePrevented, keyInUse, keyReused, preconditionFailed } from '../../domain/errors.ts';
import type { Row } from '../../domain/kinds.ts';
import { maxVersion, recordKinds } from '../../domain/record.ts';
import type { ChangeOptions } from '../../domain/repository.ts';
import { findSql, keySql } from '../sql.ts';
import type { StoreBackend, TableOperations } from '../store.ts';
import {
  childTables,
  columnNames,
  fromNames,
  type NamedRow,
  patchValues,
  recordValues,
  type Table,
  tables,
} from '../tables.ts';
import { restartFeed } from './changes.ts';
import { firstOf, prepared, type Send, type Sql } from './connection.ts';
import { contended } from './errors.ts';
import { onceSql } from './idempotency.ts';
import type { PostgresPool } from './pool.ts';

/** The result of an insert. With an idempotency key it has an outcome. If that is `busy`, the other fields are NULL. */
interface Inserted extends NamedRow {
  readonly outcome?: 'created' | 'replayed' | 'busy';
  readonly fingerprint?: string;
  readonly record: NamedRow;
}

/** Maximum number of attempts of an update. An attempt fails if another change of the record came first. */
const maxUpdates = 100;

/** The writes of a table, each one statement with its change. Sends `beforeFirst` first, calls `written` after each. */
export function tableWrites(
  pool: PostgresPool,
  table: Table,
  keyTtlMs: number,
  hasFeed: boolean,
  beforeFirst: Sql | undefined,
  written: () => void,
): Pick<TableOperations, 'create' | 'update' | 'delete'> {
  const { columns, draftColumns, patchColumns } = table;
  const hasParent = table.keys.length > 1;
  /** Returns the record as JSON. With a feed, the last two parameters of a write are the origin of its change. */
  const returning = (verb: 'created' | 'updated', write: string) =>
    `WITH ${verb} AS (${write})
    ${hasFeed ? addChange(table, verb) : `SELECT row_to_json(${verb}) AS record FROM ${verb}`}`;
  const insert = withOrigin(returning('created', insertSql(table, 1)));
  const insertOnce = withOrigin(onceSql(insertSql(table, 4, 'turn'), hasFeed && addChange(table, 'created')));
  const update = withOrigin(returning('updated', updateSql(table)));
  // The lock makes it a write: with synchronous replication, its commit waits until a standby has the record.
  const findLocked = prepared(`${findSql(table, '$')} FOR KEY SHARE`);
  const remove = withOrigin(hasFeed ? withDeletions(table) : deleteSql(table));
  const find = prepared(findSql(table, '$'));
  let remaining = beforeFirst;
  const write = async <R extends NamedRow>(sql: Sql, values: unknown[], { origin }: ChangeOptions) => {
    if (remaining !== undefined) await pool.write(remaining, []);
    remaining = undefined;
    const given = hasFeed ? [...values, origin?.requestId, origin?.key] : values;
    const rows = await pool.write<R>(sql, given);
    written();
    return rows;
  };
  const toRecord = (row: NamedRow) => fromNames<Row>(columns, row);
  return {
    async create(record, options = {}) {
      const values = recordValues(draftColumns, record);
      const { key, fingerprint } = options.idempotency ?? {};
      const [row] = await (key === undefined
        ? write<Inserted>(insert, values, options)
        : write<Inserted>(insertOnce, [key, fingerprint, keyTtlMs, ...values], options));
      if (row === undefined && !hasParent) throw changePrevented();
      if (row === undefined) return undefined;
      if (row.outcome === 'busy') throw keyInUse();
      if (row.fingerprint !== fingerprint) throw keyReused();
      // A copy of an earlier release stores posts without a version, and may still be running.
      return { value: toRecord({ version: 1, ...row.record }), replayed: row.outcome === 'replayed' };
    },

    async update(key, patch, options = {}) {
      const values = [...key, options.expected, ...patchValues(patchColumns, patch)];
      let seen: number | undefined;
      // A retry is necessary only if another write came between the two statements.
      for (let attempt = 1; ; attempt += 1) {
        const [row] = await write<{ readonly record: NamedRow }>(update, values, options);
        if (row !== undefined) return toRecord(row.record);
        const [found] = await pool.write<NamedRow>(findLocked, key);
        if (found === undefined) return undefined;
        const record = toRecord(found);
        table.checkVersion(record, options.expected);
        if (table.patched(record, patch) === record) return record;
        // No other write came between the attempts.
        if (record.version === seen) throw changePrevented();
        if (attempt === maxUpdates) throw contended(new Error('the record changed before each attempt'));
        seen = record.version;
      }
    },

    async delete(key, options = {}) {
      const [row] = await write<NamedRow>(remove, [...key, options.expected], options);
      if (row !== undefined) return true;
      // Fail without reading the version, which another write may have changed to an expected one in the meantime.
      if (options.expected !== undefined && (await pool.read(find, key)).length > 0) {
        throw preconditionFailed(table.record, key[0]);
      }
      return false;
    },
  };
}

/** Replaces `:request_id` and `:key`, the origin of a change, by the two parameters after all others. */
function withOrigin(text: string): Sql {
  const last = Math.max(...Array.from(text.matchAll(/\$(\d+)/g), ([, n]) => Number(n)));
  return prepared(text.replaceAll(':request_id', `$${last + 1}`).replaceAll(':key', `$${last + 2}`));
}

/**
 * Inserts a record whose columns are the parameters from `first` on, once for each row of the `source`, if given. The
 * lock waits for a running deletion of the parent. The statement then inserts nothing, and uses no id either.
 */
function insertSql(table: Table, first: number, source?: string): string {
  const columns = table.draftColumns.map((one, i) => ({ ...one, value: `$${first + i}::${one.type}` }));
  const owner = columns.find(({ parent }) => parent !== undefined);
  const sources = [owner?.parent, source].filter((one) => one !== undefined);
  return `
    INSERT INTO ${table.name} (${columnNames(columns)}) SELECT ${columns.map(({ value }) => value).join(', ')}
    ${sources.length > 0 ? `FROM ${sources.join(', ')}` : ''}
    ${owner ? `WHERE ${owner.parent}.id = ${owner.value} FOR KEY SHARE OF ${owner.parent}` : ''}
    RETURNING ${columnNames(table.columns)}`;
}

/**
 * Updates a record unless it has the new values, so that each returned row is a change. The parameters are the key, the
 * expected versions, or NULL, and the new values of the editable columns; NULL keeps a value.
 */
function updateSql(table: Table): string {
  const { keys, patchColumns } = table;
  const names = columnNames(patchColumns);
  const next = patchColumns.map(({ name }, i) => `COALESCE($${keys.length + 2 + i}, ${name})`).join(', ');
  return `
    UPDATE ${table.name} SET (${names}, version) = (${next}, version + 1)
    WHERE ${keySql(table, '$')} AND ${expectedSql(table)} AND version < ${maxVersion}
      AND ROW(${names}) IS DISTINCT FROM ROW(${next})
    RETURNING ${columnNames(table.columns)}`;
}

function deleteSql(table: Table): string {
  return `
    DELETE FROM ${table.name} WHERE ${keySql(table, '$')} AND ${expectedSql(table)}
    RETURNING ${columnNames(table.columns)}`;
}

/** The condition that the version is one of the expected ones. As float8 they may be any number of a client. */
function expectedSql({ keys }: Table): string {
  const versions = `$${keys.length + 1}::float8[]`;
  return `(${versions} IS NULL OR version = ANY (${versions}))`;
}

const changeColumns = 'type, user_id, record, request_id, key';

/** Inserts a change for each row of the CTE. The write has locked the row, so positions have the order of changes. */
function addChange(table: Table, verb: 'created' | 'updated'): string {
  return `INSERT INTO changes (${changeColumns}) SELECT ${changeOf(table, verb, verb)} FROM ${verb} RETURNING record`;
}

/**
 * Deletes a record, and adds a change for each of its children, then its own. Its lock prevents new children. Only the
 * functions `take_…` see children that were added after the statement began.
 */
function withDeletions(table: Table): string {
  const children = childTables(table);
  // Not `child.*`, with which prepared statements fail after a column of the operator has been dropped.
  const taken = children.map(({ name, columns }) => {
    const names = columns.map((column) => `child.${column.name}`);
    return `, taken_${name} AS (SELECT ${names} FROM removed, take_${name}(removed.id) AS child)`;
  });
  const deleted = [...children, table].map((one, step) => {
    const rows = one === table ? 'removed' : `taken_${one.name}`;
    return `SELECT ${step} AS step, id, ${changeOf(one, 'deleted', rows)} FROM ${rows}`;
  });
  return `
    WITH removed AS (${deleteSql(table)})${taken.join('')}, change AS (
      INSERT INTO changes (${changeColumns}) SELECT ${changeColumns} FROM (${deleted.join(' UNION ALL ')}) AS deleted
      ORDER BY step, id
    ) SELECT id FROM removed`;
}

function changeOf(table: Table, verb: string, rows: string): string {
  return `'${table.record}.${verb}' AS type, ${rows}.${table.keys.at(-1)?.name} AS user_id,
    row_to_json(${rows}) AS record, :request_id::text AS request_id, :key::text AS key`;
}

/** The writes that import a whole store, each batch in one transaction. */
export function postgresImport(pool: PostgresPool): Pick<StoreBackend, 'importRows' | 'continueIds'> {
  return {
    async importRows(kind, rows) {
      const table = tables[kind];
      const { add, findOther } = importSql(table);
      const records = rows.map((row) => recordValues(table.columns, row));
      const values = table.columns.map((_, i) => records.map((record) => record[i]));
      return pool.transaction(async (send) => {
        // Otherwise a running write could commit a change whose position is before the restart.
        await send(lockAll);
        const { count, last } = firstOf(await send<{ count: number; last: number }>({ text: add }, values));
        const [other] =
          count < rows.length ? await send<{ id: number; known: boolean }>({ text: findOther }, values) : [];
        if (other !== undefined) throw other.known ? table.rowDiffers(other.id) : table.userMissing(other.id);
        await raise(send, `${kind}_id_seq`, last);
        if (count > 0) await restart(send);
        return count;
      });
    },

    async continueIds(last) {
      await pool.transaction(async (send) => {
        await send(lockAll);
        const raised: boolean[] = [];
        for (const kind of recordKinds) raised.push(await raise(send, `${kind}_id_seq`, last[kind]));
        if (raised.includes(true)) await restart(send);
      });
    },
  };
}

/** The statements of an import: `add` inserts the new rows, `findOther` finds one that the table lacks as given. */
function importSql({ name: table, columns }: Table) {
  const names = columnNames(columns);
  const given = `unnest(${columns.map(({ type }, i) => `$${i + 1}::${type}[]`).join(', ')}) AS given (${names})`;
  const hasParents = columns.map(({ name, parent }) =>
    parent === undefined ? 'true' : `EXISTS (SELECT FROM ${parent} WHERE id = given.${name})`,
  );
  return {
    add: `
      WITH added AS (
        INSERT INTO ${table} (${names}) SELECT ${names} FROM ${given} WHERE ${hasParents.join(' AND ')}
        ON CONFLICT (id) DO NOTHING RETURNING id
      ) SELECT count(*)::integer AS count, COALESCE(max(id), 0) AS last FROM added`,
    findOther: `
      SELECT id, EXISTS (SELECT FROM ${table} WHERE id = given.id) AS known
      FROM ${given} LEFT JOIN ${table} AS kept USING (${names}) WHERE kept IS NULL LIMIT 1`,
  };
}

/** Prevents other writes to all tables. So their sequences do not change between reading and setting them. */
const lockAll: Sql = { text: `LOCK TABLE ${recordKinds.join(', ')} IN SHARE ROW EXCLUSIVE MODE` };

async function restart(send: Send): Promise<void> {
  await raise(send, 'changes_position_seq', importPosition());
  await send(restartFeed);
}

/** Raises the last value of a sequence. Resolves to whether it was lower before. */
async function raise(send: Send, sequence: string, last: number): Promise<boolean> {
  const text = `
    SELECT setval('${sequence}', $1) FROM ${sequence}
    WHERE $1 > CASE WHEN is_called THEN last_value ELSE 0 END`;
  return (await send({ text }, [last])).length > 0;
}
