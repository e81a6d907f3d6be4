import { invalid } from './errors.ts';
import {
  type ListQuery,
  type Parameters,
  pageParameters,
  parsePage,
  parseParameters,
  type ReadCursor,
} from './list-query.ts';
import { checkPathFields, parseIds, parseInteger, parseRecord } from './record.ts';
import { parsePrefix, parseText } from './text.ts';

export interface User {
  /** int32, from 1; given by the store and never reused. */
  readonly id: number;
  readonly name: string;
  readonly role?: string;
}

/** A user as the store keeps it. */
export interface StoredUser extends User {
  /** From 1, raised by each change; what an ETag is made of. */
  readonly version: number;
}

/** All of a user but its id: the body of POST and PUT. */
export interface UserDraft {
  readonly name: string;
  readonly role?: string;
}

/** The changes of a merge patch (RFC 7396): absent leaves as is, `null` removes. */
export interface UserPatch {
  readonly name?: string;
  readonly role?: string | null;
}

export type UserField = keyof typeof userFields;

/** Which users a list holds; all of them when nothing is given. */
export interface UserFilter {
  /** Only users with exactly this role. */
  readonly role?: string;
  /** Only users whose name begins with this text. */
  readonly name?: string;
  /** Only users with one of these ids. */
  readonly id?: readonly number[];
}

export interface UserQuery extends ListQuery<UserField> {
  readonly filter: UserFilter;
}

export const maxNameLength = 200;

const nameRule = { maxLength: maxNameLength, notBlank: true, multiline: false };
const rolePattern = /^[a-z][a-z0-9_-]{0,49}$/;

/** What users can be sorted by. An absent role sorts as the empty text. */
export const userFields = {
  id: (value: unknown) => parseInteger('id', value, 1),
  name: parseName,
  role: (value: unknown) => (value === '' ? '' : parseRole(value)),
};

function parseName(value: unknown): string {
  return parseText('name', value, nameRule);
}

export function parseUserQuery(parameters: Parameters, readCursor: ReadCursor): UserQuery {
  const given = parseParameters(parameters, ['role', 'name', 'id', ...pageParameters]);
  const filter: UserFilter = {
    ...(given.role !== undefined && { role: parseRole(given.role) }),
    ...(given.name !== undefined && { name: parsePrefix('name', given.name, nameRule) }),
    ...(given.id !== undefined && { id: parseIds(given.id) }),
  };
  const fixed = given.role === undefined ? [] : ['role'];
  return { filter, ...parsePage(given, userFields, filter, fixed, readCursor) };
}

export function parseUserDraft(value: unknown): UserDraft {
  const fields = parseRecord('the body', value, ['name', 'role']);
  return draft(fields);
}

/** The whole resource, in which a role left out is removed; an `id` in it must be the one in the path. */
export function parseUserReplacement(value: unknown, id: number): UserPatch {
  const fields = parseRecord('the body', value, ['id', 'name', 'role']);
  checkPathFields(fields, { id });
  return { role: null, ...draft(fields) };
}

export function parseUserPatch(value: unknown): UserPatch {
  const fields = parseRecord('the body', value, ['name', 'role']);
  return {
    ...(fields.name !== undefined && { name: parseName(fields.name) }),
    ...(fields.role !== undefined && { role: fields.role === null ? null : parseRole(fields.role) }),
  };
}

export function parseRole(value: unknown): string {
  if (typeof value !== 'string') throw invalid('role', 'must be a string');
  if (!rolePattern.test(value)) {
    throw invalid('role', 'must be a lower-case letter, then at most 49 of a-z, 0-9, _ and -');
  }
  return value;
}

function draft(fields: { name?: unknown; role?: unknown }): UserDraft {
  if (fields.name === undefined) throw invalid('name', 'is required');
  const name = parseName(fields.name);
  return fields.role === undefined ? { name } : { name, role: parseRole(fields.role) };
}
