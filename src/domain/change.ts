import { DomainError, invalid } from './errors.ts';
import { type Parameters, parseParameters } from './list-query.ts';
import type { StoredPost } from './post.ts';
import { maxId, nameOf, parseInteger, type RecordKind, type RecordName, recordKinds } from './record.ts';
import type { StoredUser } from './user.ts';

/** What can happen to a record. */
export type ChangeType = `${RecordName}.${'created' | 'updated' | 'deleted'}`;
export const changeTypes = recordKinds.map(nameOf).flatMap((name): ChangeType[] => {
  return [`${name}.created`, `${name}.updated`, `${name}.deleted`];
});

/** The kind of the record that a change of this type is about. */
export function kindOf(type: ChangeType): RecordKind {
  return recordKinds.find((kind) => type.startsWith(`${nameOf(kind)}.`)) ?? 'users';
}

/** Who asked for a write, as far as a feed of changes shows it. */
export interface Origin {
  readonly requestId?: string;
  /** The name of the API key. */
  readonly key?: string;
}

/** One change of a user or a post. */
export interface Change {
  /** Rises with each change and is never given twice; between two of them there may be a gap. */
  readonly position: number;
  readonly type: ChangeType;
  /** When it was made, as in RFC 3339, in UTC with milliseconds. */
  readonly time: string;
  /** The record after the change; of a deletion, as it was before. */
  readonly record: StoredUser | StoredPost;
  readonly origin: Origin;
}

export interface ChangeQuery {
  /** Changes behind this position; 0 for all. */
  readonly after: number;
  /** The most changes to read, 1 to 1,000. */
  readonly limit: number;
  /** Only changes of these types; absent: of all. */
  readonly types?: readonly ChangeType[];
  /** Only changes of this user and its posts. */
  readonly userId?: number;
}

export interface ChangePage {
  readonly changes: readonly Change[];
  /** Where to read on: no change up to here is missing on this page. */
  readonly next: number;
  /** Whether there are more changes behind `next` already, which may all be of other types or users. */
  readonly more: boolean;
}

/** Whether a change is one of those that a query asks for. */
export function isWanted({ type, record }: Change, { types, userId }: ChangeQuery): boolean {
  return (
    (types === undefined || types.includes(type)) &&
    (userId === undefined || ('userId' in record ? record.userId : record.id) === userId)
  );
}

/** How many changes a store keeps, unless it is given another number; 0: it keeps no feed. */
export const defaultChangesKept = 100_000;
export const maxChangesKept = 100_000_000;

export const defaultChangeLimit = 100;
export const maxChangeLimit = 1_000;

/** The failure of reading on from a position whose next change is no longer kept, or that was never given. */
export class ChangesGone extends DomainError {
  /** The oldest position that is kept; with no change kept, the next one that is given. */
  readonly oldest: number;

  constructor(after: number, oldest: number) {
    super(
      'gone',
      `the changes after ${after} are not kept, only those from ${oldest} on: read the list again, then follow its monitor link`,
    );
    this.oldest = oldest;
  }
}

/** A query of the feed as a client writes it; without `after` it has everything that is kept. */
export function parseChangeQuery(
  parameters: Parameters,
): Omit<ChangeQuery, 'after'> & { readonly after: number | undefined } {
  const given = parseParameters(parameters, ['after', 'limit', 'type', 'user']);
  return {
    after: given.after === undefined ? undefined : parseChangePosition('after', given.after),
    limit:
      given.limit === undefined ? defaultChangeLimit : parseWhole('limit', given.limit, 1, maxChangeLimit),
    ...(given.type !== undefined && { types: parseChangeTypes(given.type) }),
    ...(given.user !== undefined && { userId: parseWhole('user', given.user, 1, maxId) }),
  };
}

/** A position that a client sent, named `name` there. */
export function parseChangePosition(name: string, value: string): number {
  return parseWhole(name, value, 0, Number.MAX_SAFE_INTEGER);
}

function parseWhole(name: string, value: string, min: number, max: number): number {
  const number = /^(0|[1-9][0-9]{0,15})$/.test(value) ? Number(value) : Number.NaN;
  return parseInteger(name, number, min, max);
}

/** A comma list of types of changes. */
export function parseChangeTypes(value: string): readonly ChangeType[] {
  const names = value.split(',');
  const types = changeTypes.filter((type) => names.includes(type));
  if (types.length !== new Set(names).size) {
    throw invalid('type', `must be a comma list of ${changeTypes.join(', ')}`);
  }
  return types;
}
