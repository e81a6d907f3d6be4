import { formatSort, type Sort } from '../domain/position.ts';

/**
 * A cursor is a position in a list, with the list's filter and sort, as base64url of JSON. It is not secret: the
 * client has just received the values in it. Every copy of the service can read it, with any store that has the
 * same rows.
 */
export function formatCursor(filter: object, sort: Sort<string>, after: unknown): string {
  return Buffer.from(JSON.stringify({ filter, sort: formatSort(sort), after })).toString('base64url');
}

/** Reads the values in a cursor of the list with this filter and sort; `undefined` for any other text. */
export function readCursor(cursor: string, filter: object, sort: Sort<string>): unknown {
  try {
    const { after }: { after?: unknown } = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    // The text must be equal after formatting it again, which rejects other lists and other spellings.
    return formatCursor(filter, sort, after) === cursor ? after : undefined;
  } catch {
    return undefined;
  }
}
