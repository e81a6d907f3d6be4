import { formatSort, type Sort } from '../domain/position.ts';

/**
 * A cursor is a position in a list, with the list's filter and sort, as base64url of JSON. It is no
 * secret: it holds what its client has just been shown. Every copy of the service reads it, over any
 * store that has the same rows.
 */
export function formatCursor(filter: object, sort: Sort<string>, after: unknown): string {
  return Buffer.from(JSON.stringify({ filter, sort: formatSort(sort), after })).toString('base64url');
}

/** The values in a cursor of the list with this filter and sort; `undefined` for any other text. */
export function readCursor(cursor: string, filter: object, sort: Sort<string>): unknown {
  try {
    const { after }: { after?: unknown } = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    // Written again, it must be the same text: then nothing in it is of another list or in another spelling.
    return formatCursor(filter, sort, after) === cursor ? after : undefined;
  } catch {
    return undefined;
  }
}
