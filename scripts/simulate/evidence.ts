import type { Entry, Fields, RecordKind, Row, Sent } from './history.ts';

/** A broken promise, and the requests that show it. */
export interface Violation {
  readonly rule: string;
  readonly message: string;
  /** `user 3` or `post 7`; absent where it is about no single record. */
  readonly record?: string;
  readonly culprits: readonly Entry[];
  /** Whether it is about the order of one record's versions, which Porcupine judges too. */
  readonly isOfTimeline?: boolean;
}

/** All that was asked of one record. */
export interface Evidence {
  readonly kind: RecordKind;
  readonly id: number;
  /** Of a post: its user. */
  readonly userId: number | undefined;
  /** Requests for the record itself, attempts to create it included. */
  readonly entries: readonly Entry[];
  /** Rows of lists, and names by gRPC: values without a version. */
  readonly sightings: readonly {
    readonly entry: Entry;
    readonly fields: Fields;
    readonly isWhole: boolean;
  }[];
  /** Of a post: deletions of its user. */
  readonly cascades: readonly Entry[];
  /** Of a user: requests for its posts, which show whether it was there. */
  readonly dependents: readonly Entry[];
}

export function isSuccess({ status }: Entry): boolean {
  return status === 'OK' || (typeof status === 'number' && status < 400);
}

/** Whether a write may have happened or not. */
export function isUnknown({ status }: Entry): boolean {
  return (
    status === undefined ||
    (typeof status === 'number' ? status >= 500 : status !== 'OK' && status !== 'NOT_FOUND')
  );
}

export function isNotFound({ status }: Entry): boolean {
  return status === 404 || status === 'NOT_FOUND';
}

export function fieldsOf({ id: _id, userId: _userId, ...fields }: Row): Fields {
  return fields as Fields;
}

/** The text that only one request sends, if it sends one. */
export function tokenOf(sent: Sent | undefined): string | undefined {
  return sent?.['name'] ?? sent?.['title'] ?? undefined;
}

export function applied(fields: Fields, { kind, record, sent = {} }: Entry): Fields {
  const empty: Fields = record === 'post' ? { body: '' } : {};
  const all = Object.entries(kind === 'patch' ? { ...fields, ...sent } : { ...empty, ...sent });
  return Object.fromEntries(all.filter((field): field is [string, string] => field[1] !== null));
}

/** Whether a record can have these fields right after the write. */
export function agrees(fields: Fields, { sent = {} }: Entry): boolean {
  return Object.entries(sent).every(([name, value]) => (fields[name] ?? null) === value);
}

/** Whether an unanswered write may have made what was seen. */
export function couldMake(write: Entry, fields: Fields, isWhole: boolean): boolean {
  return isWhole ? agrees(fields, write) : tokenOf(write.sent) === fields['name'];
}
