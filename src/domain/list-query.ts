import { invalid } from './errors.ts';
import {
  type Position,
  parsePosition,
  positionOf,
  type Sort,
  type SortFields,
  type SortKey,
} from './position.ts';
import { parseTitlePrefix, postFields } from './post.ts';
import { parseIds, quote } from './record.ts';
import { parseNamePrefix, parseRole, userFields } from './user.ts';

/** Where a page starts: so many rows in, or after the last row of an earlier page. */
export type PageStart = { readonly offset: number } | { readonly after: Position };

export interface ListQuery<Field extends string> {
  readonly sort: Sort<Field>;
  /** Rows of a page, 1 to 100; a store accepts more from code that streams. */
  readonly limit: number;
  readonly start: PageStart;
}

export type UserField = keyof typeof userFields;
export type PostField = keyof typeof postFields;

/** Which users a list holds; all of them when nothing is given. */
export interface UserFilter {
  /** Only users with exactly this role. */
  readonly role?: string;
  /** Only users whose name begins with this text. */
  readonly name?: string;
  /** Only users with one of these ids. */
  readonly id?: readonly number[];
}

/** Which of a user's posts a list holds. */
export interface PostFilter {
  /** Only posts whose title begins with this text. */
  readonly title?: string;
}

export interface UserQuery extends ListQuery<UserField> {
  readonly filter: UserFilter;
}

export interface PostQuery extends ListQuery<PostField> {
  readonly filter: PostFilter;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Where the next page starts: after the last row of this one. Absent on the last page. */
  readonly next?: Position;
}

export const defaultLimit = 20;
export const maxLimit = 100;
/** Rows an offset may skip: a store has to walk each of them, a cursor none. */
export const maxOffset = 100_000;

const countingNumber = /^[1-9][0-9]*$/;

/** Query parameters as they stood in the address, decoded, repetitions included. */
export type Parameters = Iterable<readonly [name: string, value: string]>;

/** The sort values in a cursor of the list with this filter and sort; `undefined` for any other text. */
export type ReadCursor = (cursor: string, filter: object, sort: Sort<string>) => unknown;

export function parseUserQuery(parameters: Parameters, readCursor: ReadCursor): UserQuery {
  const given = parseParameters(parameters, ['role', 'name', 'id', 'sort', 'page', 'limit', 'cursor']);
  const filter: UserFilter = {
    ...(given.role !== undefined && { role: parseRole(given.role) }),
    ...(given.name !== undefined && { name: parseNamePrefix(given.name) }),
    ...(given.id !== undefined && { id: parseIds(given.id) }),
  };
  const fixed = given.role === undefined ? [] : (['role'] as const);
  return { filter, ...parsePage(given, userFields, { filter, fixed }, readCursor) };
}

/** A query of a user's posts; `all` when nothing asks for a page, which means all of them in `sort` order. */
export function parsePostQuery(
  userId: number,
  parameters: Parameters,
  readCursor: ReadCursor,
): PostQuery & { readonly all: boolean } {
  const given = parseParameters(parameters, ['title', 'sort', 'page', 'limit', 'cursor']);
  const filter: PostFilter = given.title === undefined ? {} : { title: parseTitlePrefix(given.title) };
  const all = given.page === undefined && given.limit === undefined && given.cursor === undefined;
  const page = parsePage(given, postFields, { filter: { userId, ...filter }, fixed: [] }, readCursor);
  return { filter, ...page, all };
}

/** The values of these parameters, each given at most once; any other is refused. */
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

function parsePage<Field extends string>(
  given: { sort?: string; page?: string; limit?: string; cursor?: string },
  fields: SortFields<Field | 'id'>,
  { filter, fixed }: { readonly filter: object; readonly fixed: readonly string[] },
  readCursor: ReadCursor,
): ListQuery<Field> {
  const sort = parseSort(given.sort, fields, fixed);
  const limit = given.limit === undefined ? defaultLimit : parseCount('limit', given.limit);
  if (limit > maxLimit) throw invalid('limit', `must be at most ${maxLimit}`);
  if (given.cursor !== undefined) {
    if (given.page !== undefined) throw invalid('page', 'and cursor exclude each other');
    const after = parsePosition(readCursor(given.cursor, filter, sort), sort, fields);
    return { sort, limit, start: { after } };
  }
  const offset = (parseCount('page', given.page ?? '1') - 1) * limit;
  if (offset > maxOffset) {
    throw invalid('page', `starts beyond ${maxOffset} rows: follow the "next" link and its cursor instead`);
  }
  return { sort, limit, start: { offset } };
}

function parseCount(name: string, value: string): number {
  if (!countingNumber.test(value)) throw invalid(name, 'must be a whole number from 1');
  return Number(value);
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
    if (field === undefined) throw invalid('sort', `must be a comma list of ${names.join(', ')}`);
    if (keys.some((key) => key.field === field)) throw invalid('sort', `names ${field} twice`);
    keys.push({ field, descending });
  }
  const id = keys.findIndex((key) => key.field === 'id');
  // Ids are unique: a key behind `id` never decides. Nor does one whose value the filter fixes.
  if (id !== -1) keys.length = id + 1;
  else keys.push({ field: 'id', descending: keys.at(-1)?.descending ?? false });
  return keys.filter(({ field }) => !fixed.includes(field));
}

/** The page that starts with these rows. A store reads one row more than the limit, to see if more follow. */
export function toPage<Row extends object>(
  rows: readonly Row[],
  { sort, limit }: ListQuery<string>,
): Page<Row> {
  const last = rows[limit - 1];
  if (last === undefined || rows.length === limit) return { items: rows };
  return { items: rows.slice(0, limit), next: positionOf(last, sort) };
}
