import { createHmac, timingSafeEqual } from 'node:crypto';
import { invalid } from './errors.ts';
import { formatSort, type ListQuery, type Sort } from './list-query.ts';
import type { Page } from './repository.ts';

/** The sort values of a row, `id` among them: a place in a list that later inserts do not move. */
export type Position = readonly (string | number)[];

/** A row as far as it can be sorted by these fields; an absent value is the empty text, which sorts first. */
export type Sortable<Field extends string> = Readonly<Partial<Record<Field | 'id', string | number>>>;

export function positionOf<Field extends string>(row: Sortable<Field>, sort: Sort<Field>): Position {
  return sort.map((key) => row[key.field] ?? '');
}

// 128 bits: a forger has no oracle but the service itself.
const macBytes = 16;

/**
 * Turns positions into opaque cursors and back. A cursor holds for one list (`scope`: the filter and
 * whose list it is) in one sort; with another, or when it was not made with this secret, it is
 * `invalid`. Copies of the service that share a store share its secret, and so their cursors.
 */
export class CursorSealer {
  readonly #secret: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  seal(scope: string, sort: Sort<string>, position: Position): string {
    const payload = JSON.stringify(position);
    return Buffer.concat([this.#mac(scope, sort, payload), Buffer.from(payload)]).toString('base64url');
  }

  open(scope: string, sort: Sort<string>, cursor: string): Position {
    const bytes = Buffer.from(cursor, 'base64url');
    const payload = bytes.toString('utf8', macBytes);
    const genuine =
      bytes.length > macBytes &&
      timingSafeEqual(bytes.subarray(0, macBytes), this.#mac(scope, sort, payload)) &&
      // Base64 has several spellings of the same bytes; only the one that was given out counts.
      bytes.toString('base64url') === cursor;
    if (!genuine) throw invalid('cursor', 'is not one given out for this list, filter and sort');
    return JSON.parse(payload);
  }

  /** The page made of the rows at its start; a store reads one more than the limit, to see whether more follow. */
  page<Field extends string, Row extends Sortable<Field>>(
    scope: string,
    query: ListQuery<Field>,
    rows: readonly Row[],
  ): Page<Row> {
    const last = rows[query.limit - 1];
    if (last === undefined || rows.length === query.limit) return { items: rows };
    const next = this.seal(scope, query.sort, positionOf(last, query.sort));
    return { items: rows.slice(0, query.limit), next };
  }

  #mac(scope: string, sort: Sort<string>, payload: string): Buffer {
    const text = `${scope}\n${formatSort(sort)}\n${payload}`;
    return createHmac('sha256', this.#secret).update(text).digest().subarray(0, macBytes);
  }
}
