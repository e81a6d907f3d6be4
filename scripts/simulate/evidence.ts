import type { Entry, Fields, RecordKind, Row, Sent } from './history.ts';

/** A broken promise, and the requests that show it. */
export interface Violation {
  readonly rule: string;
  readonly message: string;
  readonly culprits: readonly Entry[];
  /** `user 3` or `post 7`, if it is about one record. */
  readonly record?: string;
  /** Whether it is about the order of one record's versions, which Porcupine judges too. */
  readonly isOfTimeline?: boolean;
}

/** A row of a list, or a name by gRPC: a value without a version. */
export interface Sighting {
  readonly entry: Entry;
  readonly fields: Fields;
}

/** Every request that shows something about one record. */
export interface Evidence {
  readonly kind: RecordKind;
  readonly id: number;
  /** Of a post, its user; of a user, itself. */
  readonly userId: number | undefined;
  /** Requests for the record itself, attempts to create it included. */
  readonly entries: readonly Entry[];
  readonly sightings: readonly Sighting[];
  /** Of a post: deletions of its user. */
  readonly cascades: readonly Entry[];
  /** Of a user: requests for its posts, which show whether it was there. */
  readonly dependents: readonly Entry[];
}

export function isSuccess({ status }: Entry): boolean {
  return status === 'OK' || Number(status) < 400;
}

/** Whether a write may have happened or not. */
export function isUnknown({ status }: Entry): boolean {
  return typeof status === 'number' ? status >= 500 : status !== 'OK' && status !== 'NOT_FOUND';
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

/** The fields of a record after a write. */
export function applied(fields: Fields, { kind, record, sent }: Entry): Fields {
  const before: Fields = kind === 'patch' ? fields : record === 'post' ? { body: '' } : {};
  const after = Object.entries({ ...before, ...sent });
  return Object.fromEntries(after.filter((field): field is [string, string] => field[1] !== null));
}

/** Whether a record can have these fields right after the write. */
export function agrees(fields: Fields, { sent = {} }: Entry): boolean {
  return Object.entries(sent).every(([name, value]) => (fields[name] ?? null) === value);
}

/**
 * Finds two writes of which the second began after the first had ended, but has no higher rank. A rank is an id
 * or a position in the feed.
 */
export function findInversion(writes: readonly { entry: Entry; rank: number }[]): Entry[] | undefined {
  for (const { entry, rank } of writes) {
    const earlier = writes.find((other) => other.entry.end < entry.start && other.rank >= rank);
    if (earlier !== undefined) return [earlier.entry, entry];
  }
  return undefined;
}

/** Collects the evidence of each record of a kind that a response showed. */
export function gather(record: RecordKind, all: readonly Entry[]): Evidence[] {
  const direct: [id: number | undefined, Entry][] = [];
  const seen: [id: number | undefined, Row, Entry][] = [];
  const unanswered: Entry[] = [];
  for (const entry of all) {
    const { kind, row, rows = [], status, user, post } = entry;
    if (entry.record !== record || kind === 'invalid') continue;
    const made = status === 201 ? row?.id : undefined;
    const id = kind === 'create' ? made : record === 'user' ? user : post;
    if (kind !== 'list') direct.push([id, entry]);
    if (row !== undefined) seen.push([id, row, entry]);
    for (const listed of rows) seen.push([listed.id, listed, entry]);
    if (kind === 'create' && isUnknown(entry)) unanswered.push(entry);
  }
  const directOf = Map.groupBy(direct, ([id]) => id);
  const unansweredOf = Map.groupBy(unanswered, ({ sent }) => tokenOf(sent));
  return [...Map.groupBy(seen, ([id]) => id)].flatMap(([id, shown]) => {
    if (id === undefined) return [];
    const tokens = new Set(shown.map(([, row]) => row.name ?? row.title));
    const attempts = [...tokens].flatMap((token) => unansweredOf.get(token) ?? []);
    const known = [...attempts, ...(directOf.get(id) ?? []).map(([, entry]) => entry)];
    if (!known.some(({ kind }) => kind === 'create')) {
      // A write without a response may have replaced all that a creation without a response wrote.
      const owner = shown[0]?.[1].userId;
      known.push(
        ...unanswered.filter(({ user }) => record === 'user' || owner === undefined || user === owner),
      );
    }
    known.sort((a, b) => a.start - b.start);
    const sightings = shown.flatMap(([, row, entry]) =>
      entry.kind === 'list' || entry.kind === 'call' ? [{ entry, fields: fieldsOf(row) }] : [],
    );
    const made = known.find(({ kind }) => kind === 'create') ?? sightings[0]?.entry;
    const userId = record === 'post' ? made?.user : id;
    // Under another user the post does not exist.
    const isOwn = (entry: Entry) => record === 'user' || entry.user === userId || isSuccess(entry);
    const ofUser = all.filter((entry) => entry.user === userId && entry.record !== record);
    return {
      kind: record,
      id,
      userId,
      entries: known.filter(isOwn),
      sightings,
      cascades: record === 'post' ? ofUser.filter(({ kind }) => kind === 'delete') : [],
      dependents: record === 'user' ? ofUser : [],
    };
  });
}
