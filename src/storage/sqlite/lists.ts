import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { positionOf, type Sortable } from '../../domain/cursor.ts';
import type { Sort } from '../../domain/list-query.ts';
import { type Condition, equal, type List, type ListStart, rangesFrom, selectSql } from '../list-sql.ts';
import { prepareRows, type SqliteRow } from './rows.ts';

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
   * The first `count` rows from the start on, all of one moment. When there are as many, the last may
   * be any of its tie: a page asks for one more than it shows, to see whether more follow.
   */
  read<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    sort: Sort<Field>,
    count: number,
    start: ListStart,
  ): Row[] {
    const along = indexOrder(sort, list.filter);
    const rows = this.#readAtOnce(list, sort, count, start, along);
    if (rows !== undefined) return rows;
    this.#begin.run();
    try {
      const place =
        along === undefined || 'after' in start ? start : this.#place(list, sort, along, start.offset);
      return place === undefined ? [] : this.#readRanges(list, sort, count, place, along);
    } finally {
      if (this.#db.isTransaction) this.#end.run();
    }
  }

  /**
   * By one statement, which is of one moment without a transaction, and takes a twentieth less without
   * it; `undefined` where one is not enough.
   */
  #readAtOnce<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    sort: Sort<Field>,
    count: number,
    start: ListStart,
    along: Sort<Field> | undefined,
  ): Row[] | undefined {
    const [range, ...others] = rangesFrom(sort, start);
    const offset = 'offset' in start ? start.offset : 0;
    if (range === undefined || others.length > 0) return undefined;
    if (along === undefined) return this.#select(list, range, sort, count, offset);
    if (offset > 0) return undefined;
    const rows = this.#select(list, range, along, count);
    return turnTies(rows, sort, count) === 0 ? rows : undefined;
  }

  #readRanges<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    sort: Sort<Field>,
    count: number,
    start: ListStart,
    along: Sort<Field> | undefined,
  ): Row[] {
    const rows: Row[] = [];
    for (const range of rangesFrom(sort, start)) {
      const missing = count - rows.length;
      if (missing === 0) break;
      // Where the range fixes all keys but the id, it is one tie, which has its index in either direction.
      const isTie = range.length === sort.length;
      const more =
        along === undefined || isTie
          ? this.#select(list, range, sort, missing)
          : this.#turn(list, range, sort, along, missing);
      rows.push(...more);
    }
    return rows;
  }

  /**
   * The place so many rows in, which is behind the row before it. Whichever way round a tie is read, its
   * rows as a whole stand at the same places.
   */
  #place<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    sort: Sort<Field>,
    along: Sort<Field>,
    offset: number,
  ): ListStart | undefined {
    if (offset === 0) return { offset };
    const [met] = this.#select(list, [], along, 1, offset - 1);
    if (met === undefined) return undefined;
    const tie = tieOf(met, sort);
    const ids = sort.slice(-1);
    const ahead = { field: 'id', operator: ids[0]?.descending ? '<' : '>', value: met.id ?? 0 } as const;
    const counting = { ...list, columns: 'count(*)', toRow: ({ 0: rows }: SqliteRow) => Number(rows) };
    const [skipped] = this.#select(counting, [...tie, ahead], ids, 1);
    const [last] = this.#select(list, tie, ids, 1, skipped);
    return last && { after: positionOf(last, sort) };
  }

  /** A range read along its index, with each tie turned round. */
  #turn<Field extends string, Row extends Sortable<Field>>(
    list: SqliteList<Row>,
    range: readonly Condition[],
    sort: Sort<Field>,
    along: Sort<Field>,
    count: number,
  ): Row[] {
    const rows = this.#select(list, range, along, count);
    const cut = turnTies(rows, sort, count);
    const [row] = rows.slice(-cut);
    if (cut > 0 && row !== undefined) {
      rows.splice(-cut, cut, ...this.#select(list, tieOf(row, sort), sort.slice(-1), cut));
    }
    return rows;
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

/**
 * The order in which an index has the rows, where it is not the sort itself: its ids go the way of its
 * last key.
 */
function indexOrder<Field extends string>(
  sort: Sort<Field>,
  filter: List['filter'],
): Sort<Field> | undefined {
  const id = sort.at(-1);
  // What the filter fixes gives no direction.
  const last = sort.slice(0, -1).findLast(({ field }) => !(field in filter));
  if (id === undefined || last === undefined || last.descending === id.descending) return undefined;
  return sort.with(-1, { ...id, descending: last.descending });
}

/** The conditions of all rows that are equal to this one but for the id. */
function tieOf<Field extends string>(row: Sortable<Field>, sort: Sort<Field>): Condition[] {
  return sort.slice(0, -1).map(({ field }) => equal(field, row[field] ?? ''));
}

/**
 * Turns each tie round, in place. Returns how many rows at the end are of a tie that may go on, and so
 * may not be those of it that come first; of a tie one row stands for any, as `read` says.
 */
function turnTies<Field extends string, Row extends Sortable<Field>>(
  rows: Row[],
  sort: Sort<Field>,
  count: number,
): number {
  const keys = sort.slice(0, -1);
  let first = 0;
  const turn = (end: number): void => {
    if (end - first > 1) rows.splice(first, end - first, ...rows.slice(first, end).reverse());
  };
  for (const [i, row] of rows.entries()) {
    const other = rows[first] ?? row;
    if (keys.every(({ field }) => row[field] === other[field])) continue;
    turn(i);
    first = i;
  }
  turn(rows.length);
  const last = rows.length - first;
  return rows.length === count && last > 1 ? last : 0;
}
