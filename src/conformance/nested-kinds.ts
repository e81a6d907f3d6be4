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
import { addUsers } from './fixture.ts';

/** A kind whose records belong to users. */
export type NestedName = Exclude<RecordKind, 'users'>;

interface AnyRecord {
  readonly id: number;
  readonly userId: number;
}

/** How the tests use a kind of records that belong to users. */
export interface NestedKind<Draft = object, Patch = object, Query extends AnyQuery = AnyQuery> {
  readonly kind: NestedName;
  /** One record in the names of tests, such as `a post`. */
  readonly one: string;
  /** A draft with all fields. */
  readonly draft: Draft;
  /** Patches of two different fields of that draft. Each changes its field. */
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
  /** The records of a user. */
  records(repository: Repository, userId: number): Collection<AnyRecord, Draft, Query, undefined>;
}

const posts: NestedKind<PostDraft, PostPatch, PostQuery> = {
  kind: 'posts',
  one: 'a post',
  draft: { title: 'Title', body: 'line 1\n\t"2" 😀' },
  patches: [{ title: 'Other' }, { body: 'a\n\tb' }],
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

const kinds: Readonly<Record<NestedName, NestedKind>> = { posts };
export const nestedKinds = Object.values(kinds);

/** A record of a kind as stored: with the fields of its draft, or others. */
export function rowOf(
  { draft }: NestedKind,
  [userId, id]: readonly [userId: number, id: number],
  fields: object = {},
): Records[NestedName] {
  // Only the description of a kind knows the type of its fields.
  return { id, userId, version: 1, ...draft, ...fields } as Records[NestedName];
}

/** Creates user 1 with record 2, and user 2 with records 1 and 3. */
export async function addNested(repository: Repository, { records, draft }: NestedKind): Promise<void> {
  await addUsers(repository, 'Ada', 'Bob');
  for (const userId of [2, 1, 2]) await records(repository, userId).create(draft);
}
