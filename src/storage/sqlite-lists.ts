import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Sortable } from '../domain/cursor.ts';
import type { Sort, SortKey } from '../domain/list-query.ts';
import { type Condition, equal, type List, type ListStart, rangesFrom, selectSql } from './list-sql.ts';
import { prepareRows, type SqliteRow } from './sqlite-rows.ts';

/** A list and what its rows are. */
export interface SqliteList<Row> extends List {
  readonly toRow: (row: SqliteRow) => Row;
}

// More than there are combinations of table, filter, sort and range.
const maxStatements = 512;

/**
 * Reads lists range by range, each straight along an index, which ends with the id by itself. Where it
 * is followed backwards, its ids descend as well: equal rows come the wrong way round. They are turned
 * here, since SQLite would sort: a page by descending names took half as long again, and among rows
 * that are all equal as long as there are rows.
 */
export class SqliteLists {
  readonly #db: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #end: StatementSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#begin = db.prepare('BEGIN');
    this.#end = db.prepare('END');
  }

  /**
   * The first `count` rows from the start on, all of one moment. Of the last of so many no more is told
   * than that it is there: a page asks for one more than it shows.
   */
  read<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    sort: Sort<Field>,
    count: number,
    start: ListStart,
  ): Row[] {
    this.#begin.run();
    try {
      // Rows that are skipped must be in their order, too.
      if ('offset' in start && start.offset > 0) return this.#select(list, [], sort, count, start.offset);
      const rows: Row[] = [];
      for (const range of rangesFrom(sort, start)) {
        rows.push(...this.#range(list, range, sort, count - rows.length));
        if (rows.length === count) break;
      }
      return rows;
    } finally {
      if (this.#db.isTransaction) this.#end.run();
    }
  }

  #range<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    range: readonly Condition[],
    sort: Sort<Field>,
    count: number,
  ): Row[] {
    const keys = sort.slice(0, -1);
    const [id, last] = [sort.at(-1), keys.at(-1)];
    const isOneTie = range.length === sort.length;
    if (id === undefined || last === undefined || last.descending === id.descending || isOneTie) {
      return this.#select(list, range, sort, count);
    }
    const along = [...keys, { ...id, descending: last.descending }];
    const rows = this.#select(list, range, along, count);
    const ties = tiesOf(rows, keys);
    if (ties.length === rows.length) return rows;
    const cut = ties.at(-1) ?? [];
    // Those of it that come first may not be among the rows.
    if (rows.length === count && cut.length > 1) {
      const same = keys.map(({ field }) => equal(field, cut[0]?.[field] ?? ''));
      ties[ties.length - 1] = this.#select(list, same, [id], cut.length);
    }
    return ties.flat();
  }

  #select<Row>(
    list: SqliteList<Row>,
    conditions: readonly Condition[],
    sort: Sort<string>,
    limit: number,
    offset = 0,
  ): Row[] {
    const parameters: (string | number)[] = [];
    const bind = (value: string | number): string => {
      parameters.push(value);
      return '?';
    };
    const sql = `${selectSql(list, conditions, sort, bind)} LIMIT ${bind(limit)} OFFSET ${bind(offset)}`;
    const rows = this.#prepare(sql).all(...parameters);
    return rows.map(list.toRow);
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    if (this.#statements.size >= maxStatements) this.#statements.clear();
    const statement = prepareRows(this.#db, sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Runs of rows that are equal in all keys, each turned round. */
function tiesOf<Field extends string, Row extends Sortable<Field>>(
  rows: readonly Row[],
  keys: readonly SortKey<Field | 'id'>[],
): Row[][] {
  const ties: Row[][] = [];
  for (const row of rows) {
    const tie = ties.at(-1);
    const other = tie?.[0];
    const same = other !== undefined && keys.every(({ field }) => row[field] === other[field]);
    if (same) tie?.unshift(row);
    else ties.push([row]);
  }
  return ties;
}
