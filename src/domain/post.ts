import { type ListQuery, type Parameters, pageParameters, parsePage, parseParameters } from './list-query.ts';
import { bodyParsers, type Patch, parseRecordId, type Stored } from './record.ts';
import { parsePrefix, parseStoredText, parseText } from './text.ts';

export interface Post {
  /** int32, from 1; assigned by the store and never reused. */
  readonly id: number;
  readonly userId: number;
  readonly title: string;
  readonly body: string;
}

export type StoredPost = Stored<Post>;

/** A post without the fields that the store and the path set. */
export type PostDraft = Omit<Post, 'id' | 'userId'>;

export type PostPatch = Patch<PostDraft>;

export type PostField = keyof typeof postFields;

/** Selects some of a user's posts. */
export interface PostFilter {
  /** Only posts whose title starts with this text. */
  readonly title?: string;
}

export interface PostQuery extends ListQuery<PostField> {
  readonly filter: PostFilter;
}

const titleRule = { maxLength: 200, notBlank: true, multiline: false };
const bodyRule = { maxLength: 10_000, notBlank: false, multiline: true };

/** The fields that posts can be sorted by. */
export const postFields = {
  id: parseRecordId,
  title: parseStoredText,
};

export function parsePostQuery(userId: number, parameters: Parameters): PostQuery {
  const given = parseParameters(parameters, ['title', ...pageParameters]);
  const filter = given.title === undefined ? {} : { title: parsePrefix('title', given.title, titleRule) };
  return { filter, ...parsePage(given, postFields, { userId, ...filter }) };
}

export const postBodies = bodyParsers<PostDraft>({
  title: { parse: (value) => parseText('title', value, titleRule) },
  body: { parse: (value) => parseText('body', value, bodyRule), absent: '' },
});
