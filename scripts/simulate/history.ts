/** The same fields, each of which may be absent. */
type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** The fields of a user or a post without its ids. An absent role is an absent field. */
export type Fields = Readonly<Record<string, string>>;

/** What a write sends. In a merge patch, `null` removes a field. */
export type Sent = Readonly<Record<string, string | null>>;

export type RecordKind = 'user' | 'post';

/** `call` is GetUser over gRPC; `invalid` is a path that no user can have. */
export type RequestKind = 'create' | 'get' | 'call' | 'replace' | 'patch' | 'delete' | 'list' | 'invalid';

/** What a list asks for. `id` holds ids of users. */
export type Query = Optional<{
  role: string;
  prefix: string;
  id: readonly number[];
  sort: string;
  limit: number;
  page: number;
  count: boolean;
}>;

/** A user or a post as a response has it. */
export interface Row extends Optional<Record<'name' | 'role' | 'title' | 'body', string>> {
  readonly id: number;
  readonly userId?: number;
}

/** A precondition: the versions named, or `*` for any. */
export interface Guard {
  readonly header: 'if-match' | 'if-none-match';
  readonly versions: readonly number[] | '*';
}

interface Asked {
  /** The ids in the path. */
  user: number;
  post: number;
  sent: Sent;
  guard: Guard;
  key: string;
  query: Query;
  cursor: string;
  /** A page of a walk along `next`: which walk, and the last row of the page before. */
  walk: { readonly step: number; readonly after?: Row | undefined };
}

export interface Request extends Optional<Asked> {
  readonly step: number;
  readonly client: number;
  readonly process: number;
  readonly kind: RequestKind;
  readonly record: RecordKind;
}

export interface Answer {
  /** An HTTP status or the name of a gRPC code; absent without a response. */
  status: number | string;
  version: number;
  row: Row;
  rows: readonly Row[];
  /** The cursor of the next page. */
  next: string;
  total: number;
  replayed: boolean;
  /** Why there was no response, or the text of an error. */
  note: string;
}

/** A request and its response: a line of the history. Times are in ms since the start of the run. */
export interface Entry extends Request, Optional<Answer> {
  readonly start: number;
  readonly end: number;
}

/** A fault that was made, or the reason why this machine cannot have it. */
export interface FaultEntry {
  readonly fault: string;
  readonly target: number;
  readonly start: number;
  readonly end: number;
  readonly skipped?: string | undefined;
}

/** A change as `/changes` shows it. */
export interface Change {
  readonly position: number;
  readonly type: string;
  readonly version: number;
  readonly row: Row;
}

/** A page or a connection of a follower. */
export interface FeedEntry extends Optional<Pick<Answer, 'status' | 'note'>> {
  readonly follower: number;
  readonly process: number;
  readonly after: number;
  readonly changes: readonly Change[];
  readonly start: number;
  readonly end: number;
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

/** A request in one line of a story. */
export function describe(entry: Entry): string {
  const { kind, sent, guard, key, query, walk, status, version, row, rows, note } = entry;
  const parts = [
    `${entry.start.toFixed(1)}-${entry.end.toFixed(1)} ms`,
    `client ${entry.client} at process ${entry.process}:`,
    walk ? `walk ${walk.step}` : kind,
    pathOf(entry),
    query && JSON.stringify(query),
    sent && JSON.stringify(sent),
    guard && `${guard.header}: ${guard.versions}`,
    key && `key ${key}`,
    `-> ${status ?? 'no response'}`,
    version && `version ${version}`,
    entry.replayed && 'replayed',
    row && JSON.stringify(row),
    rows && `${rows.length} rows`,
    note,
  ];
  return parts.filter(Boolean).join(' ');
}
