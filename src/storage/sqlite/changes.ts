import type { DatabaseSync } from 'node:sqlite';
import { type Change, ChangesGone } from '../../domain/change.ts';
import type { ChangeFeed } from '../../domain/repository.ts';
import { attempt } from './errors.ts';
import { prepareRows } from './reads.ts';

// Interval between checks for commits of other processes, while there are watchers.
const pollMs = 50;
// Maximum number of changes that a read examines. It takes some milliseconds of the thread of all requests.
const maxExamined = 10_000;

/** Reads the feed of changes, and wakes its watchers. */
export function sqliteFeed(db: DatabaseSync) {
  const watchers = new Set<() => void>();
  // The value changes after each commit of another connection.
  const dataVersion = prepareRows(db, 'PRAGMA data_version');
  // In one statement, so that all values are from one moment. There is at least one row, with or without a change.
  const page = prepareRows(
    db,
    `SELECT gone, newest, position, type, time, record, request_id, key
    FROM feed JOIN (SELECT max(position) AS newest FROM changes) LEFT JOIN (
      SELECT * FROM changes
      WHERE position > ?1 AND position <= ?1 + ${maxExamined}
        AND (?2 IS NULL OR type IN (SELECT value FROM json_each(?2)))
        AND (?3 IS NULL OR user_id = ?3)
      ORDER BY position LIMIT ?4 + 1)
    ORDER BY position`,
  );
  const last = prepareRows(db, 'SELECT max(position) FROM changes');
  let seen: unknown;
  let timer: NodeJS.Timeout | undefined;

  const look = (): boolean => {
    const before = seen;
    try {
      seen = dataVersion.get()?.[0];
    } catch {
      // The next check finds the commit, or a read reports the error.
    }
    return seen !== before;
  };
  const wakeAll = (): void => {
    for (const wake of watchers) wake();
  };
  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };

  const changes: ChangeFeed = {
    async read({ after, limit, types, userId }) {
      const rows = attempt(() =>
        page.all(after, types ? JSON.stringify(types) : null, userId ?? null, limit),
      );
      const [gone, newest] = [Number(rows[0]?.[0]), Number(rows[0]?.[1])];
      if (after < gone || after > newest) throw new ChangesGone(after, gone + 1);
      const found = rows.flatMap((row) => (row[2] === null ? [] : [toChange(row)]));
      const given = found.slice(0, limit);
      const isFull = found.length > limit;
      const next = isFull ? (given.at(-1)?.position ?? after) : Math.min(newest, after + maxExamined);
      return { changes: given, next, more: next < newest };
    },
    async position() {
      return Number(attempt(() => last.get())?.[0]);
    },
    watch(wake) {
      // The same function may watch twice.
      const watcher = () => wake();
      watchers.add(watcher);
      if (timer === undefined) {
        look();
        timer = setInterval(() => look() && wakeAll(), pollMs).unref();
      }
      return () => {
        watchers.delete(watcher);
        if (watchers.size === 0) stop();
      };
    },
  };
  return {
    changes,
    /** Must be called after each commit of this process. */
    wake(): void {
      if (timer === undefined) return;
      look();
      wakeAll();
    },
    close(): void {
      watchers.clear();
      stop();
    },
  };
}

function toChange(row: Readonly<Record<number, unknown>>): Change {
  const { 2: position, 3: type, 4: time, 5: record, 6: requestId, 7: key } = row;
  // Only `changeLog` writes these rows.
  return {
    position,
    type,
    time: new Date(Number(time)).toISOString(),
    record: JSON.parse(String(record)),
    origin: { ...(requestId !== null && { requestId }), ...(key !== null && { key }) },
  } as Change;
}
