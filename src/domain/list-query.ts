import { invalid } from './errors.ts';
import { quote } from './record.ts';
import { parseRole } from './user.ts';

export interface SortKey<Field extends string> {
  readonly field: Field;
  readonly descending: boolean;
}

/**
 * A normalised sort: no field twice, and `id` ascending as the last key unless the client placed
 * `id` itself, so that the order is total and the same in every store.
 */
export type Sort<Field extends string> = readonly SortKey<Field | 'id'>[];

/** Where a page starts: so many rows in, or behind the last row of an earlier page. */
export type PageStart = { readonly offset: number } | { readonly cursor: string };

export interface ListQuery<Field extends string> {
  readonly sort: Sort<Field>;
  /** Rows of a page, 1 to 100; a store accepts more from code that streams. */
  readonly limit: number;
  readonly start: PageStart;
}

export type UserField = 'id' | 'name' | 'role';
export type PostField = 'id' | 'title';

export interface UserQuery extends ListQuery<UserField> {
  /** Only users with exactly this role. */
  readonly role?: string;
}

export type PostQuery = ListQuery<PostField>;

export const defaultLimit = 20;
export const maxLimit = 100;
/** Rows an offset may skip: a store has to walk each of them, a cursor none. */
export const maxOffset = 100_000;

const userFields: readonly UserField[] = ['id', 'name', 'role'];
const postFields: readonly PostField[] = ['id', 'title'];
const countingNumber = /^[1-9][0-9]*$/;

/** Query parameters as they stood in the address, decoded, repetitions included. */
export type Parameters = Iterable<readonly [name: string, value: string]>;

export function parseUserQuery(parameters: Parameters): UserQuery {
  const given = parseParameters(parameters, ['role', 'sort', 'page', 'limit', 'cursor']);
  const query = parsePage(given, userFields);
  return given.role === undefined ? query : { ...query, role: parseRole(given.role) };
}

/** A query of posts; `undefined` when nothing asks for a page, which means all of them in `sort` order. */
export function parsePostQuery(parameters: Parameters): PostQuery & { readonly all: boolean } {
  const given = parseParameters(parameters, ['sort', 'page', 'limit', 'cursor']);
  const all = given.page === undefined && given.limit === undefined && given.cursor === undefined;
  return { ...parsePage(given, postFields), all };
}

function parseParameters<Name extends string>(
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
  fields: readonly Field[],
): ListQuery<Field> {
  const sort = parseSort(given.sort, fields);
  const limit = given.limit === undefined ? defaultLimit : parseCount('limit', given.limit);
  if (limit > maxLimit) throw invalid('limit', `must be at most ${maxLimit}`);
  if (given.cursor !== undefined) {
    if (given.page !== undefined) throw invalid('page', 'and cursor exclude each other');
    return { sort, limit, start: { cursor: given.cursor } };
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

function parseSort<Field extends string>(value: string | undefined, fields: readonly Field[]): Sort<Field> {
  const keys: SortKey<Field | 'id'>[] = [];
  for (const part of value === undefined ? [] : value.split(',')) {
    const descending = part.startsWith('-');
    const name = descending ? part.slice(1) : part;
    const field = fields.find((known) => known === name);
    if (field === undefined) throw invalid('sort', `must be a comma list of ${fields.join(', ')}`);
    if (keys.some((key) => key.field === field)) throw invalid('sort', `names ${field} twice`);
    keys.push({ field, descending });
  }
  const id = keys.findIndex((key) => key.field === 'id');
  // Ids are unique: a key behind `id` never decides.
  return id === -1 ? [...keys, { field: 'id', descending: false }] : keys.slice(0, id + 1);
}

/** The sort as the client would write it; equal sorts have equal texts. */
export function formatSort(sort: Sort<string>): string {
  return sort.map((key) => (key.descending ? `-${key.field}` : key.field)).join(',');
}
