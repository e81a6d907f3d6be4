import type { RecordName } from '../../src/domain/record.ts';
import { type Change, type Entry, type Outcome, outcomeOf, type Row, tokenOf } from './history.ts';

const writeKinds = ['create', 'replace', 'patch', 'delete'] as const;

/** What a request means for one record. Both judges work on these. */
export interface Operation {
  readonly id: number | undefined;
  /**
   * `replayed` is a creation that had happened before, `cascade` the deletion of a post's user, `name` a call over
   * gRPC, and `alive` a request for the posts of a user.
   */
  readonly kind: (typeof writeKinds)[number] | 'replayed' | 'cascade' | 'read' | 'name' | 'alive';
  readonly outcome: Outcome;
  readonly entry: Entry;
  /** The record as the response shows it. A row of a list has no version. */
  readonly row?: Row | undefined;
  readonly version?: number | undefined;
}

/** A record, its changes in the feed, and every request that shows something about it. */
export interface Evidence {
  readonly kind: RecordName;
  readonly id: number;
  /** Of a post, its user; of a user, itself. */
  readonly userId: number | undefined;
  readonly changes: readonly Change[];
  readonly operations: readonly Operation[];
}

/** Collects the evidence of each record of a kind. */
export function gather(kind: RecordName, entries: readonly Entry[], feed: readonly Change[]): Evidence[] {
  const direct = entries.filter(({ record }) => record === kind).flatMap(operationsOf);
  const made = feed.filter(({ type }) => type.startsWith(kind));
  const operationsBy = Map.groupBy(direct, ({ id }) => id);
  const changesBy = Map.groupBy(made, ({ data }) => data.id);
  const strays = direct.filter(({ id, outcome }) => id === undefined && outcome === 'unknown');
  return [...new Set([...operationsBy.keys(), ...changesBy.keys()])].flatMap((id) => {
    if (id === undefined) return [];
    const own = operationsBy.get(id) ?? [];
    const changes = changesBy.get(id) ?? [];
    const userId = kind === 'user' ? id : (changes[0]?.data.userId ?? own[0]?.entry.user);
    const token = tokenOf(changes[0]?.data);
    const unanswered = strays.filter(({ entry }) => tokenOf(entry.sent) === token);
    const related = entries.filter((entry) => entry.user === userId && entry.record !== kind);
    const operations = [...own, ...unanswered, ...related.flatMap(relatedOf)];
    operations.sort((a, b) => a.entry.end - b.entry.end);
    return { kind, id, userId, changes, operations };
  });
}

/** What a request shows about the records that it is for. Without an id, it is a creation without a response. */
function operationsOf(entry: Entry): Operation[] {
  const { kind, record, user, post, row, rows, version, replayed } = entry;
  if (rows) return rows.map((one) => ({ id: one.id, kind: 'read', outcome: 'done', entry, row: one }));
  const outcome = outcomeOf(entry);
  const write = writeKinds.find((one) => one === kind);
  // A read without a response shows nothing.
  if (outcome === undefined || (outcome === 'unknown' && write === undefined)) return [];
  const id = kind === 'create' ? row?.id : record === 'user' ? user : post;
  const as = replayed ? 'replayed' : (write ?? (kind === 'call' && row ? 'name' : 'read'));
  return [{ id, kind: as, outcome, entry, row, version }];
}

/** What a request for the posts of a user shows about the user, and one for the user about its posts. */
function relatedOf(entry: Entry): Operation[] {
  const { record, kind, user, post, replayed } = entry;
  const outcome = outcomeOf(entry);
  if (record === 'user') {
    const isDeletion = kind === 'delete' && (outcome === 'done' || outcome === 'unknown');
    return isDeletion ? [{ id: post, kind: 'cascade', outcome, entry }] : [];
  }
  const isAlive = (outcome === 'done' || outcome === 'same') && !replayed;
  const isMissing = outcome === 'missing' && post === undefined;
  return isAlive || isMissing ? [{ id: user, kind: 'alive', outcome, entry }] : [];
}
