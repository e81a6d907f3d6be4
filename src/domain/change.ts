import { DomainError, invalid } from './errors.ts';
import type { Row } from './kinds.ts';
import { type Parameters, parseParameters } from './list-query.ts';
import { maxId, nameOf, parseWhole, type RecordKind, type RecordName, recordKinds } from './record.ts';

export type ChangeType = `${RecordName}.${'created' | 'updated' | 'deleted'}`;
export const changeTypes = recordKinds.map(nameOf).flatMap((name): ChangeType[] => {
  return [`${name}.created`, `${name}.updated`, `${name}.deleted`];
});

export function kindOf(type: ChangeType): RecordKind {
  return recordKinds.find((kind) => type.startsWith(`${nameOf(kind)}.`)) ?? 'users';
}

/** The client of a write, as the feed of changes shows it. */
export interface Origin {
  readonly requestId?: string;
  /** The name of the API key. */
  readonly key?: string;
}

export interface Change {
  /** Increases with each change and is never reused. Positions may have gaps. */
  readonly position: number;
  readonly type: ChangeType;
  /** The time of the change as in RFC 3339, in UTC with milliseconds. */
  readonly time: string;
  /** The record after the change, or before a deletion. */
  readonly record: Row;
  readonly origin: Origin;
}

export interface ChangeQuery {
  /** Only changes after this position; 0 for all. */
  readonly after: number;
  /** The maximum number of changes to read, 1 to 1,000. */
  readonly limit: number;
  /** Only changes of these types; absent: all types. */
  readonly types?: readonly ChangeType[];
  /** Only changes of this user and its posts. */
  readonly userId?: number;
}

export interface ChangePage {
  readonly changes: readonly Change[];
  /** The position to continue after. This page contains all matching changes up to it. */
  readonly next: number;
  /** Whether there are changes after `next` already. They may all be of other types or users. */
  readonly more: boolean;
}

/** Makes a page of at most `limit` changes: all that match up to `upto`, unless the limit ends it earlier. */
export function toChangePage(changes: readonly Change[], limit: number, upto: number, newest: number) {
  const next = changes[limit - 1]?.position ?? upto;
  return { changes, next, more: next < newest };
}

export function isWanted({ type, record }: Change, { types, userId }: ChangeQuery): boolean {
  return (types === undefined || types.includes(type)) && (userId === undefined || userOf(record) === userId);
}

/** The id of the user whose changes include those of a record: a user itself, or the one that it belongs to. */
export function userOf(record: Row): number {
  return 'userId' in record ? record.userId : record.id;
}

/** The default number of changes that a store keeps; 0: no feed. */
export const defaultChangesKept = 100_000;
export const maxChangesKept = 100_000_000;

/** The minimum position after an import: the time in microseconds. No source has assigned so many positions. */
export function importPosition(): number {
  return Date.now() * 1_000;
}

const defaultChangeLimit = '100';
export const maxChangeLimit = 1_000;

/** The changes after a position cannot be read: they are no longer kept, or the position was never assigned. */
export class ChangesGone extends DomainError {
  /** The position of the oldest kept change; if none is kept, the next position to be assigned. */
  readonly oldest: number;

  constructor(after: number, oldest: number) {
    const problem =
      after < oldest
        ? `the changes after ${after} are not kept, only those from ${oldest} on`
        : `the position ${after} was never assigned`;
    super('gone', `${problem}: read the list again, then follow its monitor link`);
    this.oldest = oldest;
  }
}

/** Parses a client's query of the feed; without `after` it selects all kept changes. */
export function parseChangeQuery(parameters: Parameters) {
  const given = parseParameters(parameters, ['after', 'limit', 'type', 'user']);
  return {
    after: given.after === undefined ? undefined : parseChangePosition('after', given.after),
    limit: parseWhole('limit', given.limit ?? defaultChangeLimit, 1, maxChangeLimit),
    ...(given.type !== undefined && { types: parseChangeTypes(given.type) }),
    ...(given.user !== undefined && { userId: parseWhole('user', given.user, 1, maxId) }),
  };
}

export function parseChangePosition(name: string, value: string): number {
  return parseWhole(name, value, 0, Number.MAX_SAFE_INTEGER);
}

function parseChangeTypes(value: string): readonly ChangeType[] {
  const names = value.split(',');
  const types = changeTypes.filter((type) => names.includes(type));
  if (types.length !== new Set(names).size) {
    throw invalid('type', `must be a comma list of ${changeTypes.join(', ')}`);
  }
  return types;
}
