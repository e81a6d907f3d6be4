import { DomainError, invalid } from './errors.ts';

/** The kinds of records, each with the name of one, and after the kind that its records belong to. */
const recordNames = { users: 'user', posts: 'post' } as const;

export type RecordKind = keyof typeof recordNames;
export type RecordName = (typeof recordNames)[RecordKind];

export const recordKinds = Object.keys(recordNames) as readonly RecordKind[];

/** What one record of a kind is called. */
export function nameOf(kind: RecordKind): RecordName {
  return recordNames[kind];
}

/** Makes a value for each kind. */
export function byKind<T>(make: (kind: RecordKind, index: number) => T): Record<RecordKind, T> {
  return Object.fromEntries(recordKinds.map((kind, i) => [kind, make(kind, i)])) as Record<RecordKind, T>;
}

/** Ids and versions are 32-bit signed integers, in every store and in gRPC. */
export const maxId = 2 ** 31 - 1;
export const maxVersion = maxId;
/** How many records a client may name at once: as many as a page has. */
export const maxIds = 100;

const idPattern = /^[1-9][0-9]*$/;

/** An id from a path (text) or a message (number), named `name` there. An id that no record can have is `not-found`. */
export function parseId(record: RecordName, value: string | number, name = 'id'): number {
  const id = typeof value === 'number' ? value : idPattern.test(value) ? Number(value) : 0;
  if (id > maxId) throw new DomainError('not-found', `no ${record} has an id above ${maxId}`);
  if (!Number.isInteger(id) || id < 1) throw invalid(name, 'must be a positive integer');
  return id;
}

/** A comma list of ids, each once and in order; those that no record can have are left out. */
export function parseIds(value: string): readonly number[] {
  const ids = value.split(',');
  if (ids.length > maxIds) throw invalid('id', `must be at most ${maxIds} ids`);
  if (!ids.every((id) => idPattern.test(id))) throw invalid('id', 'must be positive integers, as in 1,2,3');
  const known = ids.map(Number).filter((id) => id <= maxId);
  return [...new Set(known)].sort((a, b) => a - b);
}

/** A number that a record holds, such as its version. */
export function parseInteger(field: string, value: unknown, min: number, max = maxId): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    throw invalid(field, `must be a whole number from ${min} to ${max}`);
  }
  return value;
}

export function notFound(record: RecordName, id: number, userId?: number): DomainError {
  const owner = userId === undefined ? '' : ` of user ${userId}`;
  return new DomainError('not-found', `${record} ${id}${owner} not found`);
}

/** A store that has given the last id cannot give another. */
export function idsExhausted(): DomainError {
  return new DomainError('unavailable', 'no more ids can be given');
}

/** A record that has had the last version cannot change again. */
export function versionsExhausted(record: RecordName, id: number): DomainError {
  return new DomainError('conflict', `${record} ${id} has had the last version and cannot be changed again`);
}

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

/** Refuses a whole resource that repeats a value of its path, such as its `id`, and has another one. */
export function checkPathFields(
  fields: Readonly<Record<string, unknown>>,
  path: Readonly<Record<string, number>>,
): void {
  for (const [name, value] of Object.entries(path)) {
    if (fields[name] !== undefined && fields[name] !== value) {
      throw invalid(name, `must be ${value}, the one in the path`);
    }
  }
}

/** A client's own words inside an error message: escaped, and never longer than a line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
