import { invalid } from './errors.ts';
import { parseInteger, parseRecord } from './record.ts';
import { parseText } from './text.ts';

export interface Post {
  /** int32, from 1; given by the store and never reused. */
  readonly id: number;
  readonly userId: number;
  readonly title: string;
  readonly body: string;
}

/** A post but for what the store and the path give it. */
export interface PostDraft {
  readonly title: string;
  readonly body: string;
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

export function parsePostDraft(value: unknown): PostDraft {
  const fields = parseRecord('the body', value, ['title', 'body']);
  if (fields.title === undefined) throw invalid('title', 'is required');
  return {
    title: parseTitle(fields.title),
    body: fields.body === undefined ? '' : parseText('body', fields.body, bodyRule),
  };
}
