import { invalid } from './errors.ts';
import { parseRecord } from './record.ts';
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

export function parsePostDraft(value: unknown): PostDraft {
  const fields = parseRecord('the body', value, ['title', 'body']);
  if (fields.title === undefined) throw invalid('title', 'is required');
  return {
    title: parseText('title', fields.title, titleRule),
    body: fields.body === undefined ? '' : parseText('body', fields.body, bodyRule),
  };
}
