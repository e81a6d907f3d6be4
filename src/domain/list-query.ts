import { invalid } from './errors.ts';
import { parseWhole, positivePattern, quote } from './record.ts';

export interface SortKey<Field extends string> {
  readonly field: Field;
  readonly descending: boolean;
}

/**
 * A normalised sort: no field twice, none that the filter fixes, and `id` last, so that the order is total. Unless the
 * client gave it, the direction of `id` is that of the previous key, so that one index serves both directions.
 */
export type Sort<Field extends string> = readonly SortKey<Field | 'id'>[];

/** The sort values of a row: a place that stays when rows are inserted. An absent value is the empty text. */
export type Position = readonly (string | number)[];

/** The fields that a list can be sorted by, each with the parser of its stored values. */
export type SortFields<Field extends string> = Readonly<Record<Field, (value: unknown) => string | number>>;

/** The start of a page: after a number of rows, or after the last row of an earlier page. */
export type PageStart = { readonly offset: number } | { readonly after: Position };

export interface ListQuery<Field extends string> {
  readonly sort: Sort<Field>;
  /** Maximum number of rows: 1 to 100 from clients; a store accepts more. */
  readonly limit: number;
  readonly start: PageStart;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** The position of the last row, after which the next page starts. Absent on the last page. */
  readonly next?: Position;
}

export const defaultLimit = 20;
export const maxLimit = 100;
/** Maximum number of rows that an offset may skip. A store has to read each of them; a cursor needs none. */
export const maxOffset = 100_000;

/** The decoded query parameters in their original order, including repetitions. */
export type Parameters = Iterable<readonly [name: string, value: string]>;

export const pageParameters = ['sort', 'page', 'limit', 'cursor'] as const;

export function asksForPage(parameters: Parameters): boolean {
  return [...parameters].some(([name]) => ['page', 'limit', 'cursor'].includes(name));
}

/** Returns the values of these parameters. Rejects repeated and unknown parameters. */
export function parseParameters<Name extends string>(
  parameters: Parameters,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const known: readonly string[] = names;
  const given: Partial<Record<string, string>> = {};
  for (const [name, value] of parameters) {
    if (!known.includes(name)) throw invalid(quote(name), 'is not a known parameter');
    if (given[name] !== undefined) throw invalid(name, 'must be given once');
    given[name] = value;
  }
  return given;
}

/** Parses the page that a client requests of a list. `fixed` are the fields to which the filter gives one value. */
export function parsePage<Field extends string>(
  given: Partial<Record<(typeof pageParameters)[number], string>>,
  fields: SortFields<Field | 'id'>,
  filter: object,
  fixed: readonly string[] = [],
): ListQuery<Field> {
  const sort = parseSort(given.sort, fields, fixed);
  const limit = parseWhole('limit', given.limit ?? String(defaultLimit), 1, maxLimit);
  if (given.cursor !== undefined) {
    if (given.page !== undefined) throw invalid('page', 'and cursor exclude each other');
    return { sort, limit, start: { after: parseCursor(given.cursor, filter, sort, fields) } };
  }
  const page = given.page ?? '1';
  if (!positivePattern.test(page)) throw invalid('page', 'must be a whole number from 1');
  const offset = (Number(page) - 1) * limit;
  if (offset > maxOffset) {
    throw invalid('page', `starts beyond ${maxOffset} rows: follow the "next" link and its cursor instead`);
  }
  return { sort, limit, start: { offset } };
}

function parseSort<Field extends string>(
  value: string | undefined,
  fields: SortFields<Field | 'id'>,
  fixed: readonly string[],
): Sort<Field> {
  const names = Object.keys(fields) as (Field | 'id')[];
  const keys: SortKey<Field | 'id'>[] = [];
  for (const part of value === undefined ? [] : value.split(',')) {
    const descending = part.startsWith('-');
    const name = descending ? part.slice(1) : part;
    const field = names.find((known) => known === name);
    if (field === undefined) {
      const list = names.join(', ');
      throw invalid('sort', `must be a comma list of ${list}; - before a field sorts it in descending order`);
    }
    if (keys.some((key) => key.field === field)) throw invalid('sort', `names ${field} twice`);
    keys.push({ field, descending });
  }
  const id = keys.findIndex((key) => key.field === 'id');
  // Ids are unique, so keys after `id` have no effect.
  if (id !== -1) keys.length = id + 1;
  else keys.push({ field: 'id', descending: keys.at(-1)?.descending ?? false });
  // Fields with one value have no effect either.
  return keys.filter(({ field }) => !fixed.includes(field));
}

/** Makes a page of these rows. A store reads one row more than the limit, to find out whether more rows follow. */
export function toPage<Row extends object>(
  rows: readonly Row[],
  { sort, limit }: ListQuery<string>,
): Page<Row> {
  const last = rows[limit - 1];
  if (last === undefined || rows.length === limit) return { items: rows };
  return { items: rows.slice(0, limit), next: positionOf(last, sort) };
}

export function positionOf(row: object, sort: Sort<string>): Position {
  const values = row as Readonly<Record<string, string | number | undefined>>;
  return sort.map(({ field }) => values[field] ?? '');
}

/** A cursor is a position with its list's filter and sort. It is no secret: the client has just received its values. */
export function formatCursor(filter: object, sort: Sort<string>, after: Position): string {
  return Buffer.from(JSON.stringify({ filter, sort: formatSort(sort), after })).toString('base64url');
}

/** Parses the cursor of a client: of this list, with a valid value for each key of the sort. */
function parseCursor<Field extends string>(
  cursor: string,
  filter: object,
  sort: Sort<Field>,
  fields: SortFields<Field | 'id'>,
): Position {
  try {
    const { after }: { after: unknown } = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    const isPosition = Array.isArray(after) && after.length === sort.length;
    // The text must be equal after formatting it again, which rejects other lists and other spellings.
    if (isPosition && formatCursor(filter, sort, after) === cursor) {
      return sort.map(({ field }, i) => fields[field](after[i]));
    }
  } catch {
    // Any mistake is one of the whole cursor, because clients do not know its content.
  }
  throw invalid('cursor', 'does not belong to this list, filter and sort');
}

/** The sort in the syntax of the client; equal sorts have equal texts. */
export function formatSort(sort: Sort<string>): string {
  return sort.map((key) => (key.descending ? `-${key.field}` : key.field)).join(',');
}
