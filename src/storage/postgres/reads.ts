import { invalid } from '../../domain/errors.ts';
import type { Row } from '../../domain/kinds.ts';
import { maxLimit, type Sort } from '../../domain/list-query.ts';
import { byKind, type RecordKind, recordKinds } from '../../domain/record.ts';
import type { AnyQuery, CallOptions } from '../../domain/repository.ts';
import { type Bind, findSql, type List, listOf, orderSql, rangesFrom, selectSql } from '../sql.ts';
import type { TableOperations } from '../store.ts';
import { columnNames, fromNames, type NamedRow, type Table, tables } from '../tables.ts';
import { firstOf, prepared, type Sql } from './connection.ts';
import type { PostgresPool } from './pool.ts';

// Locks and changes nothing, but a server that accepts no writes, such as a standby, rejects it.
const ping = prepared('SELECT id FROM users WHERE false FOR UPDATE');

const summaries = recordKinds.map(
  (kind) => `
    (SELECT count(*) FROM ${kind})::integer AS "${kind}",
    (SELECT GREATEST(CASE WHEN is_called THEN last_value ELSE 0 END, (SELECT max(id) FROM ${kind}))
      FROM ${kind}_id_seq)::integer AS "${kind}_last"`,
);
const summary: Sql = { text: `SELECT ${summaries.join(',')}` };

/** The reads from `pool`, each in one statement. Only the primary accepts the ping. */
export function postgresReads(pool: Pick<PostgresPool, 'read'>, primary: Pick<PostgresPool, 'ping'>) {
  return {
    operations: byKind((kind): Pick<TableOperations, 'get' | 'list' | 'count'> => {
      const table = tables[kind];
      const { columns, listColumns } = table;
      const find = prepared(findSql(table, '$'));
      return {
        async get(key, { signal } = {}) {
          const [row] = await pool.read<NamedRow>(find, key, signal);
          return row && fromNames<Row>(columns, row);
        },

        async list(query, { signal } = {}) {
          const { sql, values } = pageStatement(table, query);
          const rows = await pool.read<NamedRow>(sql, values, signal);
          return rows.map((row) => fromNames<Row>(listColumns, row));
        },

        async count(filter, { signal } = {}) {
          const values: Value[] = [];
          const list = listOf(table, filter, 'count(*)::integer AS count');
          const sql = prepared(selectSql(list, [], binder(values)));
          return firstOf(await pool.read<{ count: number }>(sql, values, signal)).count;
        },
      };
    }),

    async ping({ signal }: CallOptions = {}) {
      await primary.ping(ping, signal);
    },

    async summary() {
      const row = firstOf(await pool.read<Record<string, number>>(summary, []));
      return byKind((kind) => ({ count: Number(row[kind]), lastId: Number(row[`${kind}_last`]) }));
    },

    async exportRows(kind: RecordKind, afterId: number, limit: number) {
      const { columns } = tables[kind];
      const sql = prepared(`SELECT ${columnNames(columns)} FROM ${kind} WHERE id > $1 ORDER BY id LIMIT $2`);
      const rows = await pool.read<NamedRow>(sql, [afterId, limit]);
      return rows.map((row) => fromNames<Row>(columns, row));
    },
  };
}

type Value = string | number | readonly (string | number)[];

function binder(values: Value[]): Bind {
  return (value) => {
    // A cursor of another store may have it. PostgreSQL would report an error that is not the client's.
    if (typeof value === 'string' && value.includes('\0')) throw invalid('a text', 'must not contain U+0000');
    const placeholder = `$${values.push(value)}`;
    return typeof value === 'object' ? `= ANY (${placeholder}::integer[])` : placeholder;
  };
}

/**
 * The statement for the rows of a page and one more. Its limit is a parameter, so that few statements exist, and stay
 * prepared. Without the constant inner limit, the planner would expect a tenth of the table, and plan each call again.
 */
function pageStatement(table: Table, { filter, sort, limit, start }: AnyQuery) {
  const list = listOf(table, filter);
  const values: Value[] = [];
  const bind = binder(values);
  const maxRows = Math.max(limit, maxLimit) + 1;
  const rows = `LIMIT ${bind(limit + 1)}`;
  const order = indexed(sort, list.filter);
  const by = `ORDER BY ${orderSql(order)}`;
  const ranges = rangesFrom(order, start).map((range, i) => {
    const skipped = 'offset' in start && start.offset > 0 ? ` OFFSET ${bind(start.offset)}` : '';
    const inner = `${selectSql(list, range, bind)} ${by} LIMIT ${maxRows}${skipped}`;
    return `SELECT * FROM (${inner}) AS range_${i} ${rows}`;
  });
  const [only = ''] = ranges;
  const union = ranges.map((range) => `(${range})`).join(' UNION ALL ');
  const text = ranges.length === 1 ? only : `SELECT * FROM (${union}) AS page ${by} ${rows}`;
  return { sql: prepared(text), values };
}

/** The sort with the expression of the indexes, `id::bigint`. Only a list of all rows by id uses the primary key. */
function indexed(sort: Sort<string>, filter: List['filter']): Sort<string> {
  if (sort[0]?.field === 'id' && filter.length === 0) return sort;
  return sort.map((key) => (key.field === 'id' ? { ...key, field: '(id::bigint)' } : key));
}
