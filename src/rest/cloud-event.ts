import { type Change, type ChangePage, kindOf } from '../domain/change.ts';
import type { StoredPost } from '../domain/post.ts';
import type { RecordKind } from '../domain/record.ts';
import type { StoredUser } from '../domain/user.ts';
import { postView } from './posts.ts';
import { userView } from './users.ts';

/** The first changes of a page, as many as fit into a reply. */
export interface Taken {
  readonly texts: readonly string[];
  /** The position to continue after. */
  readonly end: number;
  readonly more: boolean;
}

/** The public fields of a changed record, by kind. */
const views: Readonly<Record<RecordKind, (record: Change['record']) => object>> = {
  users: (record) => userView(record as StoredUser),
  posts: (record) => postView(record as StoredPost),
};

/**
 * A change as JSON of CloudEvents 1.0. The service may be mounted under several prefixes: `withBase` adds the
 * prefix of a request.
 */
export function eventText({ position, type, time, record, origin }: Change): string {
  const kind = kindOf(type);
  const subject = 'userId' in record ? `users/${record.userId}/${kind}/${record.id}` : `${kind}/${record.id}`;
  return JSON.stringify({
    specversion: '1.0',
    id: String(position),
    source: `/${subject}`,
    type,
    subject,
    time,
    datacontenttype: 'application/json',
    version: record.version,
    requestid: origin.requestId,
    keyname: origin.key,
    data: views[kind](record),
  });
}

/** Adds the prefix of a mount to the `source` of an event. */
export function withBase(text: string, basePath: string): string {
  if (basePath === '') return text;
  // The first match is the attribute, because only a number precedes it.
  return text.replace('"source":"', () => `"source":${JSON.stringify(basePath).slice(0, -1)}`);
}

/** Returns the texts of the first changes of a page, at least one, until they are longer than `maxLength`. */
export function take<Item extends { readonly position: number }>(
  items: readonly Item[],
  { next, more }: Pick<ChangePage, 'next' | 'more'>,
  textOf: (item: Item) => string,
  maxLength: number,
): Taken {
  const texts: string[] = [];
  let length = 0;
  let end = 0;
  for (const item of items) {
    const text = textOf(item);
    length += text.length;
    if (texts.length > 0 && length > maxLength) return { texts, end, more: true };
    texts.push(text);
    end = item.position;
  }
  return { texts, end: next, more };
}
