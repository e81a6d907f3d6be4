import type { Post } from '../../src/domain/post.ts';
import type { RecordName } from '../../src/domain/record.ts';
import type { User } from '../../src/domain/user.ts';

/** The same fields, each of which may be absent. */
type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** The fields of a user or a post without its ids. */
export type Fields = Readonly<Record<string, string>>;

/** What a write sends. In a merge patch, `null` removes a field. */
export type Sent = Readonly<Record<string, string | null>>;

/** A user or a post as a response has it. */
export type Row = Optional<User & Post> & { readonly id: number };

/** What a list asks for. `id` holds ids of users. */
export type Query = Optional<
  Record<'role' | 'prefix' | 'sort', string> &
    Record<'limit' | 'page', number> & { id: readonly number[]; count: boolean }
>;

/** `call` is GetUser over gRPC; `invalid` is a path that no user can have. */
export type RequestKind = 'create' | 'get' | 'call' | 'replace' | 'patch' | 'delete' | 'list' | 'invalid';

export interface Request {
  readonly step: number;
  readonly client: number;
  readonly process: number;
  readonly kind: RequestKind;
  readonly record: RecordName;
  /** The ids in the path. */
  readonly user?: number | undefined;
  readonly post?: number | undefined;
  readonly sent?: Sent | undefined;
  /** A precondition: the versions named, or `*` for any. */
  readonly guard?: Guard | undefined;
  readonly key?: string | undefined;
  readonly query?: Query | undefined;
  readonly cursor?: string | undefined;
  /** A page of a walk along `next`: which walk, and the last row of the page before. */
  readonly walk?: { readonly step: number; readonly after?: Row | undefined } | undefined;
}

export interface Guard {
  readonly header: 'if-match' | 'if-none-match';
  readonly versions: readonly number[] | '*';
}

export interface Response {
  /** An HTTP status or the name of a gRPC code; absent without a response. */
  readonly status?: number | string;
  readonly version?: number;
  readonly row?: Row;
  readonly rows?: readonly Row[];
  /** The cursor of the next page. */
  readonly next?: string;
  readonly total?: number;
  readonly replayed?: boolean;
  /** Why there was no response, or the text of an error. */
  readonly note?: string;
}

/** Times are in ms since the start of the run. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A request and its response. Like the next two, a line of the history. */
export interface Entry extends Request, Response, Span {}

/** A fault that was made, or the reason why this machine cannot have it. */
export interface FaultEntry extends Span {
  readonly fault: string;
  readonly target: number;
  readonly skipped?: string | undefined;
}

/** A page or a connection of a follower. */
export interface FeedEntry extends Response, Span {
  readonly follower: number;
  readonly process: number;
  readonly after: number;
  readonly changes: readonly Change[];
}

/** A change as `/changes` shows it. */
export interface Change {
  readonly position: number;
  readonly type: string;
  readonly version: number;
  readonly row: Row;
}

export interface History {
  readonly entries: Entry[];
  readonly faults: FaultEntry[];
  readonly feed: FeedEntry[];
}

export function parseHistory(ndjson: string): History {
  const history: History = { entries: [], faults: [], feed: [] };
  for (const line of ndjson.split('\n').filter(Boolean)) {
    const parsed: Entry | FaultEntry | FeedEntry = JSON.parse(line);
    if ('fault' in parsed) history.faults.push(parsed);
    else if ('follower' in parsed) history.feed.push(parsed);
    else history.entries.push(parsed);
  }
  return history;
}

export function pathOf({ record, user, post }: Request): string {
  return ['/users', user, record === 'post' && 'posts', post].filter(Boolean).join('/');
}

export function isSuccess({ status }: Response): boolean {
  return status === 'OK' || Number(status) < 400;
}

export function isNotFound({ status }: Response): boolean {
  return status === 404 || status === 'NOT_FOUND';
}

/** Whether a write may have happened or not. */
export function isUnknown({ status }: Response): boolean {
  return typeof status === 'number' ? status >= 500 : status !== 'OK' && status !== 'NOT_FOUND';
}

/** The text that only one request sends, if it sends one. */
export function tokenOf(fields: Sent | Row | undefined): string | undefined {
  return Object(fields).name ?? Object(fields).title;
}

export function fieldsOf({ id: _id, userId: _userId, ...fields }: Row): Fields {
  return fields as Fields;
}
