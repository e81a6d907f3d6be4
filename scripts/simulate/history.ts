/** The fields of a user or a post, without its ids; an absent role is an absent field. */
export type Fields = Readonly<Record<string, string>>;

/** What a write sends: in a merge patch, `null` removes a field. */
export type Sent = Readonly<Record<string, string | null>>;

export type RecordKind = 'user' | 'post';

/** What a list asks for. `id` holds ids of users. */
export interface Query {
  readonly role?: string;
  readonly prefix?: string;
  readonly id?: readonly number[];
  readonly sort?: string;
  readonly limit?: number;
  readonly page?: number;
  readonly count?: boolean;
}

/** A user or a post as a response has it. */
export interface Row {
  readonly id: number;
  readonly userId?: number;
  readonly name?: string;
  readonly role?: string;
  readonly title?: string;
  readonly body?: string;
}

/** A precondition: the versions named, or `*` for any. */
export interface Guard {
  readonly header: 'if-match' | 'if-none-match';
  readonly versions: readonly number[] | '*';
}

export type EntryKind = 'create' | 'get' | 'call' | 'replace' | 'patch' | 'delete' | 'list' | 'invalid';

/** A request and what became of it: a line of the history. */
export interface Entry {
  readonly step: number;
  readonly client: number;
  readonly process: number;
  readonly kind: EntryKind;
  readonly record: RecordKind;
  /** The ids in the path; those of a creation are in `row`. */
  readonly user?: number;
  readonly post?: number;
  readonly sent?: Sent;
  readonly guard?: Guard;
  readonly key?: string;
  readonly query?: Query;
  /** A page of a walk along `next`: which walk, and the last row of the page before. */
  readonly walk?: { readonly step: number; readonly after?: Row };
  /** Milliseconds since the start of the run. */
  readonly start: number;
  readonly end: number;
  /** An HTTP status or the name of a gRPC code; absent when no response came. */
  readonly status?: number | string;
  readonly version?: number;
  readonly row?: Row;
  readonly rows?: readonly Row[];
  readonly hasNext?: boolean;
  readonly total?: number;
  readonly replayed?: boolean;
  /** Why there was no response, or what an error said. */
  readonly note?: string;
}

/** What the nemesis did. */
export interface FaultEntry {
  readonly fault: string;
  readonly target: number;
  readonly start: number;
  readonly end: number;
  /** Why it was left out on this machine. */
  readonly skipped?: string;
}

/** A change as `/changes` shows it. */
export interface Change {
  readonly position: number;
  readonly type: string;
  readonly version: number;
  readonly row: Row;
}

/** A page or a connection of a follower. */
export interface FeedEntry {
  readonly follower: number;
  readonly process: number;
  readonly after: number;
  readonly changes: readonly Change[];
  readonly start: number;
  readonly end: number;
  readonly status?: number;
  readonly note?: string;
}

export interface History {
  readonly entries: readonly Entry[];
  readonly faults: readonly FaultEntry[];
  readonly feed: readonly FeedEntry[];
}

export function parseHistory(ndjson: string): History {
  const lines = ndjson.split('\n').filter((line) => line !== '');
  const all: (Entry | FaultEntry | FeedEntry)[] = lines.map((line) => JSON.parse(line));
  const isRequest = (line: (typeof all)[number]) => !('fault' in line) && !('follower' in line);
  return {
    entries: all.filter((line): line is Entry => isRequest(line)),
    faults: all.filter((line): line is FaultEntry => 'fault' in line),
    feed: all.filter((line): line is FeedEntry => 'follower' in line),
  };
}

/** A request in one line of a story. */
export function describe(entry: Entry): string {
  const { kind, record, user, post, sent, guard, key, query, walk, status, version, row, rows, note } = entry;
  const path = `/users${user === undefined ? '' : `/${user}`}${record === 'post' ? `/posts${post === undefined ? '' : `/${post}`}` : ''}`;
  const parts = [
    `${entry.start.toFixed(1)}-${entry.end.toFixed(1)} ms`,
    `client ${entry.client} at process ${entry.process}:`,
    `${walk === undefined ? kind : `walk ${walk.step}`} ${path}`,
    query && JSON.stringify(query),
    sent && JSON.stringify(sent),
    guard && `${guard.header}: ${guard.versions}`,
    key && `key ${key}`,
    `-> ${status ?? 'no response'}`,
    version !== undefined && `version ${version}`,
    entry.replayed && 'replayed',
    row && JSON.stringify(row),
    rows && `${rows.length} rows`,
    note,
  ];
  return parts.filter((part) => part !== undefined && part !== false && part !== '').join(' ');
}
