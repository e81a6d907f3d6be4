import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { type ListQuery, toPage } from '../../domain/list-query.ts';
import { byKind, type RecordKind, recordKinds } from '../../domain/record.ts';
import { type Bind, type List, orderSql, rangesFrom, selectSql } from '../list-sql.ts';
import type { Row } from '../store.ts';
import {
  columnNames,
  filterConditions,
  type Key,
  keyColumns,
  listColumns,
  type Table,
  tables,
  toRecord,
} from '../tables.ts';
import { fromSqlite } from './errors.ts';

// More than there are combinations of table, filter, sort and start.
const maxStatements = 256;

/** The reads. Each sees all that was committed before it; none holds a lock beyond its call. */
export function sqliteReads(db: DatabaseSync) {
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    if (statements.size >= maxStatements) statements.clear();
    const statement = prepareRows(db, sql);
    statements.set(sql, statement);
    return statement;
  };
  const rowsOf = (statement: StatementSync, parameters: readonly SQLInputValue[]) => {
    try {
      return statement.all(...parameters);
    } catch (caught) {
      throw fromSqlite(caught);
    }
  };
  const all = (sql: string, parameters: readonly SQLInputValue[]) => rowsOf(prepare(sql), parameters);
  const finder = (table: Table) => {
    const { name, columns } = table;
    const sql = `SELECT ${columnNames(columns)} FROM ${name} WHERE ${isKey(table)}`;
    const statement = prepareRows(db, sql);
    return (key: Key): Row | undefined => {
      try {
        const row = statement.get(...key);
        return row && toRecord<Row>(columns, row);
      } catch (caught) {
        throw fromSqlite(caught);
      }
    };
  };
  const planPage = (table: Table, filter: object, query: ListQuery<string>) => {
    const conditions = filterConditions(table, filter);
    // What the filter fixes is known, and not read again.
    const fixed = conditions.flatMap(({ fields, operator }) => (operator === '=' ? fields : []));
    const columns = listColumns(table).filter(({ name }) => !fixed.includes(name));
    const list = { table: table.name, columns: columnNames(columns), filter: conditions };
    const { sql, parameters } = pageStatement(list, query);
    return { statement: prepare(sql), parameters, columns };
  };
  // The same first pages are read again and again; a page after a position is read once.
  const firstPages = new Map<string, ReturnType<typeof planPage>>();
  const planOf = (table: Table, filter: object, query: ListQuery<string>) => {
    if ('after' in query.start) return planPage(table, filter, query);
    const { start, sort, limit } = query;
    const key = JSON.stringify([table.name, filter, start.offset, sort, limit]);
    const known = firstPages.get(key);
    if (known !== undefined) return known;
    if (firstPages.size >= maxStatements) firstPages.clear();
    const plan = planPage(table, filter, query);
    firstPages.set(key, plan);
    return plan;
  };
  const page = (table: Table, filter: object, query: ListQuery<string>) => {
    const { statement, parameters, columns } = planOf(table, filter, query);
    const rows = rowsOf(statement, parameters).map((row) => toRecord<Row>(columns, row, filter));
    return toPage(rows, query);
  };
  const count = (table: Table, filter: object): number => {
    const parameters: SQLInputValue[] = [];
    const list = { table: table.name, columns: 'count(*)', filter: filterConditions(table, filter) };
    const sql = selectSql(list, [], binder(parameters));
    return Number(all(sql, parameters)[0]?.[0]);
  };
  return {
    collections: byKind((kind) => {
      const table = tables[kind];
      return {
        get: finder(table),
        list: (filter: object, query: ListQuery<string>) => page(table, filter, query),
        count: (filter: object) => count(table, filter),
      };
    }),
    summary() {
      const counts = recordKinds.map((kind) => `(SELECT count(*) FROM ${kind})`);
      const lastIds = recordKinds.map((kind) => `(SELECT seq FROM sqlite_sequence WHERE name = '${kind}')`);
      // In one statement, so that all numbers are of one moment.
      const [row] = all(`SELECT ${[...counts, ...lastIds].join(', ')}`, []);
      return byKind((_, i) => ({ count: Number(row?.[i]), lastId: Number(row?.[i + recordKinds.length]) }));
    },
    exportRows(kind: RecordKind, afterId: number, limit: number) {
      const { columns } = tables[kind];
      const sql = `SELECT ${columnNames(columns)} FROM ${kind} WHERE id > ? ORDER BY id LIMIT ?`;
      return all(sql, [afterId, limit]).map((row) => toRecord<Row>(columns, row));
    },
  };
}

/**
 * Prepares a statement that gives its rows as arrays: an object with names is made name by name for
 * each row, which takes longer than to read it.
 */
export function prepareRows(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

/** The condition that finds one record; the parameters from ?1 on are its key. */
export function isKey(table: Table): string {
  const conditions = keyColumns(table).map(({ name }, i) => `${name} = ?${i + 1}`);
  return conditions.join(' AND ');
}

function binder(parameters: SQLInputValue[]): Bind {
  return (value) => {
    const isList = typeof value === 'object';
    parameters.push(isList ? JSON.stringify(value) : value);
    return isList ? 'IN (SELECT value FROM json_each(?))' : '?';
  };
}

/** The statement for the rows of a page and one more. Several ranges are merged, each along its index. */
function pageStatement(list: List, { sort, start, limit }: ListQuery<string>) {
  const parameters: SQLInputValue[] = [];
  const bind = binder(parameters);
  const ranges = rangesFrom(sort, start).map((range) => selectSql(list, range, bind));
  parameters.push(limit + 1, 'offset' in start ? start.offset : 0);
  const sql = `${ranges.join(' UNION ALL ')} ORDER BY ${orderSql(sort)} LIMIT ? OFFSET ?`;
  return { sql, parameters };
}
