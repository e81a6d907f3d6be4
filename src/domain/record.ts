import { DomainError, invalid } from './errors.ts';
import { isInRange, type Range, rangeText } from './range.ts';

/** The kinds of records, each with its singular name. Parents come before their children. */
const recordNames = { users: 'user', posts: 'post' } as const;

export type RecordKind = keyof typeof recordNames;
export type RecordName = (typeof recordNames)[RecordKind];

export const recordKinds = Object.keys(recordNames) as readonly RecordKind[];

export function nameOf(kind: RecordKind): RecordName {
  return recordNames[kind];
}

export function byKind<T>(make: (kind: RecordKind, index: number) => T): Record<RecordKind, T> {
  return Object.fromEntries(recordKinds.map((kind, i) => [kind, make(kind, i)])) as Record<RecordKind, T>;
}

export type Stored<Fields> = Fields & {
  /** From 1, increased by each change. The ETag contains it. */
  readonly version: number;
};

/** Ids and versions are 32-bit signed integers, in every store and in gRPC. */
export const maxId = 2 ** 31 - 1;
export const maxVersion = maxId;
/** The maximum number of ids in a request: as many as a page has rows. */
export const maxIds = 100;

export const positivePattern = /^[1-9][0-9]*$/;

/** Parses an id from a path (text) or a message (number). An id that no record can have fails as `not-found`. */
export function parseId(record: RecordName, value: string | number, name = 'id'): number {
  const id = typeof value === 'number' ? value : positivePattern.test(value) ? Number(value) : 0;
  if (id > maxId) throw new DomainError('not-found', `no ${record} has an id above ${maxId}`);
  if (!Number.isInteger(id) || id < 1) throw invalid(name, 'must be a positive integer');
  return id;
}

/** Parses a comma list of ids, and returns each once and in order, without ids that no record can have. */
export function parseIds(value: string): readonly number[] {
  const ids = value.split(',');
  if (ids.length > maxIds) throw invalid('id', `must be at most ${maxIds} ids`);
  if (!ids.every((id) => positivePattern.test(id)))
    throw invalid('id', 'must be positive integers, as in 1,2,3');
  const known = ids.map(Number).filter((id) => id <= maxId);
  return [...new Set(known)].sort((a, b) => a - b);
}

export function parseInteger(field: string, value: unknown, min: number, max = maxId): number {
  const range: Range = [min, max];
  if (!isInRange(value, range)) throw invalid(field, `must be ${rangeText(range)}`);
  return value;
}

export function parseWhole(name: string, value: string, min: number, max: number): number {
  const number = /^(0|[1-9][0-9]{0,15})$/.test(value) ? Number(value) : Number.NaN;
  return parseInteger(name, number, min, max);
}

export function parseRecordId(value: unknown): number {
  return parseInteger('id', value, 1);
}

/** Rejects fields that are not listed, so that a client learns about misspelt and read-only ones. */
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

type FieldValue = string | number;

/** How clients write a field of a record. Without `absent`, the field is required. */
export interface FieldRule {
  readonly parse: (value: unknown) => FieldValue;
  /** The value if the body lacks the field; `null`: the record lacks it too, and `null` in a patch removes it. */
  readonly absent?: FieldValue | null;
}

/** The changes of a merge patch (RFC 7396). Absent fields do not change, and `null` removes an optional field. */
export type Patch<Draft> = {
  readonly [Field in keyof Draft]?: Draft[Field] | (object extends Pick<Draft, Field> ? null : never);
};

/** The parsers of the bodies of POST, PUT and PATCH for a kind of record. */
export type BodyParsers<Draft> = ReturnType<typeof bodyParsers<Draft>>;

export function bodyParsers<Draft>(rules: Readonly<Record<keyof Draft & string, FieldRule>>) {
  const entries = Object.entries<FieldRule>(rules);
  const names = Object.keys(rules);
  /** An absent optional field is left out of a draft. In a replacement it is `null`, which removes it. */
  const parseFields = (fields: Readonly<Record<string, unknown>>, isReplacement: boolean) => {
    const record: Record<string, FieldValue | null> = {};
    for (const [name, { parse, absent }] of entries) {
      const value = fields[name];
      if (value !== undefined) record[name] = parse(value);
      else if (absent === undefined) throw invalid(name, 'is required');
      else if (absent !== null || isReplacement) record[name] = absent;
    }
    return record;
  };
  return {
    parseDraft: (body: unknown) => parseFields(parseRecord('the body', body, names), false) as Draft,

    /** Parses a whole record into a patch. The body may repeat the ids of the path. */
    parseReplacement(body: unknown, path: Readonly<Record<string, number>>): Patch<Draft> {
      const fields = parseRecord('the body', body, [...Object.keys(path), ...names]);
      for (const [name, id] of Object.entries(path)) {
        if (fields[name] !== undefined && fields[name] !== id) {
          throw invalid(name, `must be ${id}, the one in the path`);
        }
      }
      return parseFields(fields, true) as Patch<Draft>;
    },

    parsePatch(body: unknown): Patch<Draft> {
      const fields = parseRecord('the body', body, names);
      const patch: Record<string, FieldValue | null> = {};
      for (const [name, { parse, absent }] of entries) {
        const value = fields[name];
        if (value !== undefined) patch[name] = value === null && absent === null ? null : parse(value);
      }
      return patch as Patch<Draft>;
    },
  };
}

/** Quotes text of a client for an error message: escaped, and cut after 60 characters. */
export function quote(text: string): string {
  // Without the first half of a character that the cut would split.
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60).replace(/[\ud800-\udbff]$/, '')}…` : text);
}
