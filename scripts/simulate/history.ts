import type { Post } from '../../src/domain/post.ts';
import type { User } from '../../src/domain/user.ts';
import type { Fields, Optional, Step } from './plan.ts';

/** A user or a post as a response has it. */
export type Row = Optional<User & Post> & { readonly id: number };

/** What `/changes` shows of a change. `id` is its position. */
export interface Change {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly data: Row;
}

export interface Request extends Pick<Step, 'client' | 'process' | 'sent' | 'query'> {
  readonly step: number;
  /** `follow` is a page or a stream of `/changes`. Each page of a walk is a request. */
  readonly kind: Step['kind'] | 'follow';
  readonly record: Step['record'] | 'change';
  /** The ids in the path. */
  readonly user?: number | undefined;
  readonly post?: number | undefined;
  /** A precondition. Without a version, it is `*`. */
  readonly guard?: { readonly header: 'if-match' | 'if-none-match'; readonly version?: number } | undefined;
  readonly key?: string | undefined;
  readonly cursor?: string | undefined;
  /** The last row of the page before in a walk. */
  readonly after?: Row | undefined;
  /** Where a follower resumes. */
  readonly position?: number | undefined;
  /** Of a stream: the number of changes after which the follower closes it. */
  readonly leaveAfter?: number;
}

export type Result = Optional<{
  /** An HTTP status, that of the same meaning for a gRPC code, or absent without a response. */
  status: number;
  version: number;
  row: Row;
  rows: readonly Row[];
  changes: readonly Change[];
  /** Where the next page begins. */
  next: string;
  total: number;
  replayed: boolean;
  /** Why there was no response, or the text of an error. */
  note: string;
}>;

/** A request and its response. Like a fault, a line of the history. Times are in ms since the start of the run. */
export interface Entry extends Request, Result {
  readonly start: number;
  readonly end: number;
}

/** A fault that was made, or the reason why this machine cannot have it. */
export interface FaultEntry extends Pick<Entry, 'start' | 'end'> {
  readonly fault: string;
  readonly target: number;
  readonly skipped?: string | undefined;
}

export interface History {
  readonly entries: Entry[];
  readonly faults: FaultEntry[];
}

export function parseHistory(ndjson: string): History {
  const lines: (Entry | FaultEntry)[] = JSON.parse(`[${ndjson.trim().replaceAll('\n', ',')}]`);
  return {
    entries: lines.filter((line) => 'kind' in line),
    faults: lines.filter((line) => 'fault' in line),
  };
}

export function pathOf({ kind, record, user, post }: Request): string {
  if (kind === 'follow') return '/changes';
  if (kind === 'invalid') return '/users/0x1';
  return ['/users', user, record === 'post' && 'posts', post].filter(Boolean).join('/');
}

/** Whether a write may have happened or not: it had no response, or a 5xx. */
export function isUnknown({ status = 500 }: Result): boolean {
  return status >= 500;
}

/** The text that only one request sends, if it sends one. */
export function tokenOf(fields: Fields | Row | undefined): string | undefined {
  return Object(fields).name ?? Object(fields).title;
}

export function fieldsOf({ id: _id, userId: _userId, ...fields }: Row): Fields {
  return fields as Fields;
}
