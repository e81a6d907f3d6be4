import { invalid } from './errors.ts';

export interface SortKey<Field extends string> {
  readonly field: Field;
  readonly descending: boolean;
}

/**
 * A normalised sort: no field twice, no field that the filter fixes, and `id` as the last key, so that the order
 * is total. If the client did not sort by `id`, its direction is that of the previous key, so that one index
 * serves both directions.
 */
export type Sort<Field extends string> = readonly SortKey<Field | 'id'>[];

/** The sort values of a row, with `id` last: a place in a list that does not move when rows are inserted. */
export type Position = readonly (string | number)[];

/** The fields that a list can be sorted by, each with the parser of its values. */
export type SortFields<Field extends string> = Readonly<Record<Field, (value: unknown) => string | number>>;

/** The position of a row. An absent value becomes the empty text, which sorts first. */
export function positionOf(row: object, sort: Sort<string>): Position {
  const values = row as Readonly<Record<string, string | number | undefined>>;
  return sort.map(({ field }) => values[field] ?? '');
}

/** Parses a position that a client sent: a valid value for each key of the sort. */
export function parsePosition<Field extends string>(
  values: unknown,
  sort: Sort<Field>,
  fields: SortFields<Field | 'id'>,
): Position {
  try {
    if (Array.isArray(values) && values.length === sort.length) {
      return sort.map(({ field }, i) => fields[field](values[i]));
    }
  } catch {
    // A value is invalid for its field: report the cursor, because clients do not know its content.
  }
  throw invalid('cursor', 'is not one given out for this list, filter and sort');
}

/** The sort in the syntax of the client; equal sorts have equal texts. */
export function formatSort(sort: Sort<string>): string {
  return sort.map((key) => (key.descending ? `-${key.field}` : key.field)).join(',');
}
