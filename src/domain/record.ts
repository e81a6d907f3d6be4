import { invalid } from './errors.ts';

/**
 * Reads an object and refuses every field that is not listed, so that a misspelt or read-only field
 * is an answer rather than a surprise.
 */
export function parseRecord<Field extends string>(
  what: string,
  value: unknown,
  fields: readonly Field[],
): Partial<Record<Field, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid(what, 'must be a JSON object');
  }
  const known: readonly string[] = fields;
  for (const field of Object.keys(value)) {
    if (!known.includes(field)) throw invalid(quote(field), 'is not a known field');
  }
  return value;
}

/** A client's own words inside an error message: escaped, and never longer than a line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
