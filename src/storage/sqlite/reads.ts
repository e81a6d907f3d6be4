import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { Row } from '../../domain/kinds.ts';
import { byKind, type RecordKind, recordKinds } from '../../domain/record.ts';
import type { AnyQuery } from '../../domain/repository.ts';
import { type Bind, findSql, limitSql, listOf, orderSql, rangesFrom, selectSql } from '../sql.ts';
import { columnNames, type Key, type Table, tables, toRecord } from '../tables.ts';

// More than the number of statements that clients commonly use.
const maxCached = 256;

/** The reads. Each of them sees all earlier commits, and releases its lock before it returns. */
export function sqliteReads(db: DatabaseSync) {
  const statements = createCache<StatementSync>();
  const prepare = (sql: string) => statements(sql, () => db.prepare(sql));
  const planPage = (table: Table, query: AnyQuery) => {
    const { sql, parameters } = pageStatement(table, query);
    return { statement: prepare(sql), parameters };
  };
  // The same pages by number are read repeatedly, but a page after a position is usually read once.
  const numberedPages = createCache<ReturnType<typeof planPage>>();
  return {
    operations: byKind((kind) => {
      const table = tables[kind];
      const find = db.prepare(findSql(table, '?'));
      return {
        get(key: Key): Row | undefined {
          const row = find.get(...key);
          return row && toRecord<Row>(table.columns, row);
        },
        list(query: AnyQuery) {
          const { filter, start, sort, limit } = query;
          const plan = () => planPage(table, query);
          const { statement, parameters } =
            'after' in start
              ? plan()
              : numberedPages(JSON.stringify([kind, filter, start.offset, sort, limit]), plan);
          return statement.all(...parameters).map((row) => toRecord<Row>(table.listColumns, row));
        },
        count(filter: object): number {
          const parameters: SQLInputValue[] = [];
          const sql = selectSql(listOf(table, filter, 'count(*)'), [], binder(parameters));
          return Number(prepare(sql).get(...parameters)?.[0]);
        },
      };
    }),
    summary() {
      const counts = recordKinds.map((kind) => `(SELECT count(*) FROM ${kind})`);
      const lastIds = recordKinds.map(
        (kind) => `max(ifnull((SELECT max(id) FROM ${kind}), 0),
          ifnull((SELECT seq FROM sqlite_sequence WHERE name = '${kind}'), 0))`,
      );
      // In one statement, so that all numbers are from one moment.
      const row = prepare(`SELECT ${[...counts, ...lastIds].join(', ')}`).get();
      return byKind((_, i) => ({ count: Number(row?.[i]), lastId: Number(row?.[i + recordKinds.length]) }));
    },
    exportRows(kind: RecordKind, afterId: number, limit: number) {
      const { columns } = tables[kind];
      const sql = `SELECT ${columnNames(columns)} FROM ${kind} WHERE id > ? ORDER BY id ${limitSql('?')}`;
      const rows = prepare(sql).all(afterId, limit);
      return rows.map((row) => toRecord<Row>(columns, row));
    },
  };
}

function createCache<Value>() {
  const cached = new Map<string, Value>();
  return (key: string, make: () => Value): Value => {
    const known = cached.get(key);
    if (known !== undefined) return known;
    if (cached.size >= maxCached) cached.clear();
    const made = make();
    cached.set(key, made);
    return made;
  };
}

function binder(parameters: SQLInputValue[]): Bind {
  return (value) => {
    const isList = typeof value === 'object';
    parameters.push(isList ? JSON.stringify(value) : value);
    return isList ? 'IN (SELECT value FROM json_each(?))' : '?';
  };
}

// SQLite keeps all skipped rows of a sort in memory. After more rows than these, only ids are sorted.
const deepOffset = 200;

/** The statement for the rows of a page and one more. It merges several ranges, each in the order of its index. */
function pageStatement(table: Table, { filter, sort, start, limit }: AnyQuery) {
  const list = listOf(table, filter);
  const parameters: SQLInputValue[] = [];
  const bind = binder(parameters);
  const offset = 'offset' in start ? start.offset : 0;
  const isDeep = offset > deepOffset;
  const sorted = isDeep ? { ...list, columns: 'id' } : list;
  const ranges = rangesFrom(sort, start).map((range) => selectSql(sorted, range, bind));
  parameters.push(limit + 1, offset);
  const order = `ORDER BY ${orderSql(sort)}`;
  const page = `${ranges.join(' UNION ALL ')} ${order} ${limitSql('?')} OFFSET ?`;
  const rowsOf = (ids: string) => `SELECT ${list.columns} FROM ${list.table} WHERE id IN (${ids}) ${order}`;
  return { sql: isDeep ? rowsOf(page) : page, parameters };
}
