import type { Records } from '../domain/kinds.ts';
import type { SortFields } from '../domain/list-query.ts';
import {
  type PostDraft,
  type PostPatch,
  type PostQuery,
  parsePostQuery,
  postFields,
} from '../domain/post.ts';
import type { RecordKind } from '../domain/record.ts';
import type { AnyQuery, Collection, Repository } from '../domain/repository.ts';
import { type UserDraft, type UserPatch, type UserQuery, userFields } from '../domain/user.ts';
import { addUsers, fullUsers, userQuery } from './fixture.ts';

/** A kind whose records belong to users. */
export type NestedName = Exclude<RecordKind, 'users'>;

interface AnyRecord {
  readonly id: number;
}

/** How the tests use a kind of records. */
export interface TestedKind<Draft = object, Patch = object, Query extends AnyQuery = AnyQuery> {
  readonly kind: RecordKind;
  /** One record in the names of tests, such as `a post`. */
  readonly one: string;
  /** A draft with all fields. */
  readonly draft: Draft;
  /** Another one, which differs in each field. */
  readonly other: Draft;
  /** Patches of two different fields of the first draft. Each changes its field. */
  readonly patches: readonly [Patch, Patch];
  /** More patches of that draft, each with the fields that it changes. */
  readonly updates: readonly (readonly [what: string, patch: Patch, changed: Partial<Draft>])[];
  /** Drafts with unusual values, which must be stored unchanged. */
  readonly exact: readonly (readonly [what: string, draft: Draft])[];
  /** The fields that lists can be sorted by. */
  readonly fields: SortFields<string>;
  /** The text that lists are sorted by, and that the filter of the same name compares with a prefix. */
  readonly text: string;
  /** Returns a draft with this text. */
  readonly draftOf: (text: string) => Draft;
  /** Parses a query as a client writes it, such as `sort=-id&limit=3`. */
  readonly query: (text?: string) => Query;
  /** The records of a user; all users, if the records are users. */
  records(repository: Repository, userId: number): Collection<AnyRecord, Draft, Query, undefined>;
}

/** How the tests use a kind of records that belong to users. */
export interface NestedKind<Draft = object, Patch = object, Query extends AnyQuery = AnyQuery>
  extends TestedKind<Draft, Patch, Query> {
  readonly kind: NestedName;
  records(
    repository: Repository,
    userId: number,
  ): Collection<AnyRecord & { readonly userId: number }, Draft, Query, undefined>;
}

const [ada, eve] = fullUsers;
const users: TestedKind<UserDraft, UserPatch, UserQuery> = {
  kind: 'users',
  one: 'a user',
  draft: ada,
  other: eve,
  patches: [{ name: eve.name }, { role: eve.role }],
  updates: [
    ['a name to one that differs only in case', { name: 'ADA' }, { name: 'ADA' }],
    ['a name to one with a trailing space', { name: 'Ada ' }, { name: 'Ada ' }],
  ],
  // Texts that stores, drivers or escaping between them are known to damage.
  exact: Object.entries({
    '200 emoji': '😀'.repeat(200),
    'the highest code point': '\u{10ffff}',
    'a noncharacter': '\uffff',
    'a byte order mark': '\ufeffAda',
    'a combining mark, not composed': 'e\u0301',
    'a composed letter, not decomposed': '\u00e9',
    'space around': '  Ada  ',
    'a quote that ends a statement': "'; DROP TABLE users; --",
    'a backslash and double quotes': '\\"\\n\\u0000',
    placeholders: '? ?1 $1 :name @name $name %s {name}',
    patterns: '%_*[a-z]',
    'digits alone': '007',
    'the word null': 'null',
    'right to left': '\u202eאדה',
  }).map(([what, name]) => [what, { name }]),
  fields: userFields,
  text: 'name',
  draftOf: (name) => ({ name }),
  query: userQuery,
  records: (repository) => repository.users,
};

const post = { title: 'Title', body: 'line 1\n\t"2" 😀' };
const otherPost = { title: 'Other', body: 'a\n\tb' };
const posts: NestedKind<PostDraft, PostPatch, PostQuery> = {
  kind: 'posts',
  one: 'a post',
  draft: post,
  other: otherPost,
  patches: [{ title: otherPost.title }, { body: otherPost.body }],
  updates: [
    ['an empty body', { body: '' }, { body: '' }],
    ['a title to one that differs only in case', { title: 'TITLE' }, { title: 'TITLE' }],
  ],
  exact: [
    ['no body', { title: 'title', body: '' }],
    ['tabs and newlines', { title: 'title', body: '\tline 1\n\n\tline 2\n' }],
    ['10,000 emoji', { title: '😀'.repeat(200), body: '😀'.repeat(10_000) }],
    ['a text like JSON', { title: '{"a":1}', body: '{"a":[1,"\\u0000"]}' }],
    ['only spaces', { title: 'title', body: '   ' }],
  ],
  fields: postFields,
  text: 'title',
  draftOf: (title) => ({ title, body: '' }),
  query: postQuery,
  records: (repository, userId) => repository.posts(userId),
};

/** A query of posts as a client writes it. */
export function postQuery(text = ''): PostQuery {
  return parsePostQuery(1, new URLSearchParams(text));
}

const nested: Readonly<Record<NestedName, NestedKind>> = { posts };
export const nestedKinds = Object.values(nested);
export const testedKinds: readonly TestedKind[] = [users, ...nestedKinds];

/** A record of a kind as stored: with the fields of its draft, or others. */
export function rowOf<Kind extends RecordKind>(
  { kind, draft }: TestedKind & { readonly kind: Kind },
  [userId, id]: readonly [userId: number, id: number],
  fields: object = {},
): Records[Kind] {
  // Only the description of a kind knows the type of its fields.
  const owner = kind === 'users' ? {} : { userId };
  return { id, ...owner, version: 1, ...draft, ...fields } as unknown as Records[Kind];
}

/** Creates record 2 of user 1, and records 1 and 3 of user 2; if the records are users, these three. */
export async function addRecords(
  repository: Repository,
  { kind, records, draft }: TestedKind,
): Promise<void> {
  if (kind !== 'users') await addUsers(repository, 'Ada', 'Bob');
  for (const userId of [2, 1, 2]) await records(repository, userId).create(draft);
}
