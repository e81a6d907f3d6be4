import { invalid } from './errors.ts';
import {
  type ListQuery,
  type Parameters,
  pageParameters,
  parsePage,
  parseParameters,
  type ReadCursor,
} from './list-query.ts';
import { checkPathFields, parseInteger, parseRecord } from './record.ts';
import { parsePrefix, parseText } from './text.ts';

export interface Post {
  /** int32, from 1; given by the store and never reused. */
  readonly id: number;
  readonly userId: number;
  readonly title: string;
  readonly body: string;
}

/** A post as the store keeps it. */
export interface StoredPost extends Post {
  /** From 1, raised by each change; what an ETag is made of. */
  readonly version: number;
}

/** A post but for what the store and the path give it. */
export interface PostDraft {
  readonly title: string;
  readonly body: string;
}

/** The changes of a merge patch (RFC 7396): absent leaves as is. Neither field can be removed. */
export type PostPatch = Partial<PostDraft>;

export type PostField = keyof typeof postFields;

/** Which of a user's posts a list holds. */
export interface PostFilter {
  /** Only posts whose title begins with this text. */
  readonly title?: string;
}

export interface PostQuery extends ListQuery<PostField> {
  readonly filter: PostFilter;
}

const titleRule = { maxLength: 200, notBlank: true, multiline: false };
const bodyRule = { maxLength: 10_000, notBlank: false, multiline: true };

/** What posts can be sorted by. */
export const postFields = {
  id: (value: unknown) => parseInteger('id', value, 1),
  title: parseTitle,
};

function parseTitle(value: unknown): string {
  return parseText('title', value, titleRule);
}

function parseBody(value: unknown): string {
  return parseText('body', value, bodyRule);
}

export function parsePostQuery(userId: number, parameters: Parameters, readCursor: ReadCursor): PostQuery {
  const given = parseParameters(parameters, ['title', ...pageParameters]);
  const filter = given.title === undefined ? {} : { title: parsePrefix('title', given.title, titleRule) };
  return { filter, ...parsePage(given, postFields, { userId, ...filter }, [], readCursor) };
}

export function parsePostDraft(value: unknown): PostDraft {
  return draft(parseRecord('the body', value, ['title', 'body']));
}

/** The whole resource, in which a body left out is empty; what the path says may be repeated in it. */
export function parsePostReplacement(value: unknown, path: { id: number; userId: number }): PostPatch {
  const fields = parseRecord('the body', value, ['id', 'userId', 'title', 'body']);
  checkPathFields(fields, path);
  return draft(fields);
}

export function parsePostPatch(value: unknown): PostPatch {
  const fields = parseRecord('the body', value, ['title', 'body']);
  return {
    ...(fields.title !== undefined && { title: parseTitle(fields.title) }),
    ...(fields.body !== undefined && { body: parseBody(fields.body) }),
  };
}

function draft(fields: { title?: unknown; body?: unknown }): PostDraft {
  if (fields.title === undefined) throw invalid('title', 'is required');
  return { title: parseTitle(fields.title), body: fields.body === undefined ? '' : parseBody(fields.body) };
}
