import { type RecordKind, recordKinds } from '../../domain/record.ts';
import type { Records, Store } from '../../domain/repository.ts';
import { columnNames, recordValues, rowDiffers, tables } from '../tables.ts';
import { restartFeed } from './change-sql.ts';
import type { PostgresPool, Send } from './pool.ts';

/** The writes that import a whole store, each batch in one transaction. */
export function postgresImport(pool: PostgresPool): Pick<Store, 'importRows' | 'continueIds'> {
  return {
    importRows: (kind, rows) => importRows(pool, kind, rows),

    async continueIds(last) {
      await pool.transaction(async (send) => {
        await lock(send, ...recordKinds);
        for (const kind of recordKinds) await raiseLastId(send, kind, last[kind]);
      });
    },
  };
}

/** Imports rows as arrays, one for each column. */
function importRows<Kind extends RecordKind>(
  pool: PostgresPool,
  kind: Kind,
  rows: readonly Records[Kind][],
): Promise<number> {
  const columns = tables[kind].columns;
  const names = columnNames(columns);
  const records = rows.map((row) => recordValues(columns, row));
  const values = columns.map((_, i) => records.map((record) => record[i]));
  const given = `unnest(${columns.map(({ type }, i) => `$${i + 1}::${type}[]`).join(', ')}) AS given (${names})`;
  const add = `
    INSERT INTO ${kind} (${names}) SELECT ${names} FROM ${given} ON CONFLICT (id) DO NOTHING RETURNING id`;
  const findOther = `
    SELECT id FROM ${given} LEFT JOIN ${kind} AS kept USING (${names}) WHERE kept IS NULL LIMIT 1`;
  return pool.transaction(async (send) => {
    await lock(send, kind);
    const added = await send<{ id: number }>({ text: add }, values);
    const isAllNew = added.length === rows.length;
    const [other] = isAllNew ? [] : await send<{ id: number }>({ text: findOther }, values);
    if (other !== undefined) throw rowDiffers(kind, other.id);
    await raiseLastId(
      send,
      kind,
      added.reduce((last, { id }) => Math.max(last, id), 0),
    );
    if (added.length > 0) await send(restartFeed);
    return added.length;
  });
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
