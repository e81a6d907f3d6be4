import type { RecordName } from '../../src/domain/record.ts';
import { type Change, type Entry, isUnknown, type Row, tokenOf } from './history.ts';

/** What a request means for one record. Both judges work on these. */
export interface Operation {
  /** Absent for a creation without a response, and for the deletion of a post's user. */
  readonly id: number | undefined;
  /**
   * `replayed` is a creation that had happened before, `cascade` the deletion of a post's user, and `alive` a
   * request for the posts of a user.
   */
  readonly kind: Entry['kind'] | 'replayed' | 'cascade' | 'alive';
  readonly entry: Entry;
  /** The record as the response shows it. A row of a list has no version. */
  readonly row?: Row | undefined;
  readonly version?: number | undefined;
}

/** The writes, each with what is wrong if it did not make the state that its response shows. */
export const writes: Partial<Record<Operation['kind'], string>> = {
  create: 'id given twice',
  replace: 'lost update',
  patch: 'lost update',
  delete: 'wrong deletion',
};

/** A record, its changes in the feed, and all that responses show about it, in the order of the responses. */
export interface Evidence {
  /** `user 3` or `post 7`. */
  readonly name: string;
  readonly id: number;
  /** Of a post, its user. */
  readonly userId: number | undefined;
  readonly changes: readonly Change[];
  readonly operations: readonly Operation[];
}

/** Collects the evidence of each record of a kind. */
export function gather(kind: RecordName, entries: readonly Entry[], feed: readonly Change[]): Evidence[] {
  const all = entries.flatMap((entry) => operationsOf(kind, entry));
  const made = feed.filter(({ type }) => type.startsWith(kind));
  const operationsBy = Map.groupBy(all, ({ id }) => id);
  const changesBy = Map.groupBy(made, ({ data }) => data.id);
  const shared = operationsBy.get(undefined) ?? [];
  return [...new Set([...operationsBy.keys(), ...changesBy.keys()])].flatMap((id) => {
    if (id === undefined) return [];
    const changes = changesBy.get(id) ?? [];
    const own = operationsBy.get(id) ?? [];
    const first = changes[0]?.data;
    const userId = kind === 'post' ? (first?.userId ?? own[0]?.entry.user) : undefined;
    const others = shared.filter(({ kind, entry: { user, sent } }) =>
      kind === 'cascade' ? user === userId : tokenOf(sent) === tokenOf(first),
    );
    const operations = [...own, ...others].sort((a, b) => a.entry.end - b.entry.end);
    return { name: `${kind} ${id}`, id, userId, changes, operations };
  });
}

/** What a request shows about records of a kind. */
function operationsOf(about: RecordName, entry: Entry): Operation[] {
  const { kind, record, user, post, status = 500, row, rows, version, replayed } = entry;
  const isDone = status < 300 || status === 304;
  // Other responses, and reads without one, show nothing.
  if (!isDone && status !== 404 && status !== 412 && !(isUnknown(entry) && kind in writes)) return [];
  const isCascade = record === 'user' && kind === 'delete' && (isDone || isUnknown(entry));
  const isAboutUser = record === 'post' && (isDone ? !replayed : status === 404 && post === undefined);
  if (about === 'post' && isCascade) return [{ id: undefined, kind: 'cascade', entry }];
  if (about === 'user' && isAboutUser) return [{ id: user, kind: 'alive', entry }];
  if (record !== about) return [];
  if (rows) return rows.map((one) => ({ id: one.id, kind, entry, row: one }));
  const id = kind === 'create' ? row?.id : record === 'user' ? user : post;
  if (id === undefined && !isUnknown(entry)) return [];
  return [{ id, kind: replayed ? 'replayed' : kind, entry, row, version }];
}
