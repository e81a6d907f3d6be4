import { invalid } from './errors.ts';

export interface SortKey<Field extends string> {
  readonly field: Field;
  readonly descending: boolean;
}

/**
 * A normalised sort: no field twice, none that the filter fixes, and `id` as the last key, so that the
 * order is total. Where the client did not place `id`, it goes in the direction of the key before it:
 * so an index that is followed backwards has the rows in order as well.
 */
export type Sort<Field extends string> = readonly SortKey<Field | 'id'>[];

/** The sort values of a row, `id` last: a place in a list that later inserts do not move. */
export type Position = readonly (string | number)[];

/** The fields a list can be sorted by, each with the check of its values. */
export type SortFields<Field extends string> = Readonly<Record<Field, (value: unknown) => string | number>>;

/** The position of a row. An absent value is the empty text, which sorts first. */
export function positionOf(row: object, sort: Sort<string>): Position {
  const values = row as Readonly<Record<string, string | number | undefined>>;
  return sort.map(({ field }) => values[field] ?? '');
}

/** A position that a client sent: as many values as the sort has keys, each one that its field can have. */
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
    // A value that its field cannot have: the cursor as a whole is at fault.
  }
  throw invalid('cursor', 'is not one given out for this list, filter and sort');
}

/** The sort as the client would write it; equal sorts have equal texts. */
export function formatSort(sort: Sort<string>): string {
  return sort.map((key) => (key.descending ? `-${key.field}` : key.field)).join(',');
}
