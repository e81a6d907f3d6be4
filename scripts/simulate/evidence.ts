import type { RecordName } from '../../src/domain/record.ts';
import { type Entry, isNotFound, isSuccess, isUnknown, type Row, tokenOf } from './history.ts';

type WriteKind = 'create' | 'replace' | 'patch' | 'delete';

/** What a request means for one record. Both judges work on these. */
export interface Operation {
  readonly id: number | undefined;
  /**
   * `replayed` is a creation that had happened before, `cascade` the deletion of a post's user, `name` a call over
   * gRPC, and `alive` a request for the posts of a user.
   */
  readonly kind: WriteKind | 'replayed' | 'cascade' | 'read' | 'name' | 'alive';
  /** `same` is 304, `refused` is 412. After `unknown`, the write may have happened or not. */
  readonly outcome: 'done' | 'same' | 'missing' | 'refused' | 'unknown';
  readonly entry: Entry;
  /** The record as the response shows it. A row of a list has no version. */
  readonly row?: Row | undefined;
  readonly version?: number | undefined;
}

/** A record, and every request that shows something about it. */
export interface Evidence {
  readonly kind: RecordName;
  readonly id: number;
  /** Of a post, its user; of a user, itself. */
  readonly userId: number | undefined;
  readonly operations: readonly Operation[];
}

/** Collects the evidence of each record of a kind that a response showed. */
export function gather(kind: RecordName, entries: readonly Entry[]): Evidence[] {
  const all = entries.filter(({ record }) => record === kind).flatMap(operationsOf);
  const unanswered = all.filter((one) => one.kind === 'create' && one.outcome === 'unknown');
  return [...Map.groupBy(all, ({ id }) => id)].flatMap(([id, own]) => {
    const rows = own.flatMap(({ row }) => row ?? []);
    if (id === undefined || rows.length === 0) return [];
    const userId = kind === 'user' ? id : rows[0]?.userId;
    const shown = new Set(rows.map(tokenOf));
    const isMade = own.some((one) => one.kind === 'create' || one.kind === 'replayed');
    const creations = unanswered.filter(({ entry }) => shown.has(tokenOf(entry.sent)));
    // A write without a response may have replaced all that a creation without a response wrote.
    const strays = isMade || creations.length > 0 ? [] : unanswered;
    const direct = [...own, ...creations, ...strays].filter(
      // Under another user the post does not exist.
      ({ entry }) => kind === 'user' || entry.user === userId || isSuccess(entry),
    );
    const related = entries.filter((entry) => entry.user === userId && entry.record !== kind);
    const operations = [...direct, ...related.flatMap(relatedOf)];
    operations.sort((a, b) => a.entry.end - b.entry.end);
    return { kind, id, userId, operations };
  });
}

/** What a request shows about the records that it is for. */
function operationsOf(entry: Entry): Operation[] {
  const { kind, record, user, post, status, row, rows = [], version, replayed } = entry;
  const shown = rows.map((one) => ({ id: one.id, kind: 'read', outcome: 'done', entry, row: one }) as const);
  const outcome = outcomeOf(entry);
  const isRead = kind === 'get' || kind === 'call';
  // A read without a response shows nothing.
  if (kind === 'list' || kind === 'invalid' || outcome === undefined || (isRead && outcome === 'unknown'))
    return shown;
  const id = kind === 'create' ? row?.id : record === 'user' ? user : post;
  const as = kind === 'call' && status === 'OK' ? 'name' : isRead ? 'read' : replayed ? 'replayed' : kind;
  return [{ id, kind: as, outcome, entry, row, version }];
}

/** What a request for the posts of a user shows about the user, and one for the user about its posts. */
function relatedOf(entry: Entry): Operation[] {
  const { record, kind, user, post, replayed } = entry;
  const outcome = outcomeOf(entry);
  const isDeletion = kind === 'delete' && (outcome === 'done' || outcome === 'unknown');
  if (record === 'user') return isDeletion ? [{ id: post, kind: 'cascade', outcome, entry }] : [];
  const isShown = (isSuccess(entry) && !replayed) || (isNotFound(entry) && post === undefined);
  return isShown ? [{ id: user, kind: 'alive', outcome: isSuccess(entry) ? 'done' : 'missing', entry }] : [];
}

function outcomeOf(entry: Entry): Operation['outcome'] | undefined {
  if (isUnknown(entry)) return 'unknown';
  if (isSuccess(entry)) return entry.status === 304 ? 'same' : 'done';
  return isNotFound(entry) ? 'missing' : entry.status === 412 ? 'refused' : undefined;
}
