import { invalid } from './errors.ts';
import { type ListQuery, type Parameters, pageParameters, parsePage, parseParameters } from './list-query.ts';
import { bodyParsers, type Patch, parseIds, parseRecordId, type Stored } from './record.ts';
import { parsePrefix, parseStoredText, parseText } from './text.ts';

export interface User {
  /** int32, from 1; assigned by the store and never reused. */
  readonly id: number;
  readonly name: string;
  readonly role?: string;
}

export type StoredUser = Stored<User>;

/** A user without its id: the body of POST and PUT. */
export type UserDraft = Omit<User, 'id'>;

export type UserPatch = Patch<UserDraft>;

export type UserField = keyof typeof userFields;

/** Selects users; all users if it is empty. */
export interface UserFilter {
  /** Only users with exactly this role. */
  readonly role?: string;
  /** Only users whose name starts with this text. */
  readonly name?: string;
  /** Only users with one of these ids. */
  readonly id?: readonly number[];
}

export interface UserQuery extends ListQuery<UserField> {
  readonly filter: UserFilter;
}

const nameRule = { maxLength: 200, notBlank: true, multiline: false };
const rolePattern = /^[a-z][a-z0-9_-]{0,49}$/;

/** The fields that users can be sorted by. An absent role sorts like the empty text. */
export const userFields = {
  id: parseRecordId,
  name: parseStoredText,
  role: parseStoredText,
};

export function parseUserQuery(parameters: Parameters): UserQuery {
  const given = parseParameters(parameters, ['role', 'name', 'id', ...pageParameters]);
  const filter: UserFilter = {
    ...(given.role !== undefined && { role: parseRole(given.role) }),
    ...(given.name !== undefined && { name: parsePrefix('name', given.name, nameRule) }),
    ...(given.id !== undefined && { id: parseIds(given.id) }),
  };
  const fixed = given.role === undefined ? [] : ['role'];
  return { filter, ...parsePage(given, userFields, filter, fixed) };
}

export const userBodies = bodyParsers<UserDraft>({
  name: { parse: (value) => parseText('name', value, nameRule) },
  role: { parse: parseRole, absent: null },
});

export function parseRole(value: unknown): string {
  if (typeof value !== 'string') throw invalid('role', 'must be a string');
  if (!rolePattern.test(value)) {
    throw invalid('role', 'must be a lower-case letter, then at most 49 of a-z, 0-9, _ and -');
  }
  return value;
}
