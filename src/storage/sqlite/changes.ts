import type { DatabaseSync } from 'node:sqlite';
import type { Change, ChangePage, ChangeQuery, ChangeType, Origin } from '../../domain/change.ts';
import { ChangesGone, changeTypes, importPosition, toChangePage, userOf } from '../../domain/change.ts';
import { limitSql } from '../sql.ts';

// After this many added changes, up to four times as many old changes are deleted. So the feed shrinks after its limit
// was lowered, and no write of one record deletes all of them.
const changesPerTrim = 256;
const maxTrimmed = 1_024;

const changeColumns = 'type, time, record, user_id, request_id, key';
const lastPosition = '(SELECT max(position) FROM changes)';

export type ChangeLog = ReturnType<typeof changeLog>;

/**
 * Adds changes to the feed in the transaction of their write. If `changesKept` is 0, a write restarts the feed instead,
 * because a process with a feed may read it later, without this write.
 */
export function changeLog(db: DatabaseSync, changesKept: number) {
  const insert = db.prepare(`INSERT INTO changes (${changeColumns}) VALUES (?, ?, ?, ?, ?, ?)`);
  const isRestarted = db.prepare(`SELECT max(position) >= ? AND type = '' FROM changes`);
  const insertRestart = db.prepare(`
    INSERT INTO changes (position, type, time, record, user_id) VALUES (max(?, ${lastPosition} + 1), '', 0, '', 0)`);
  const raiseGone = db.prepare(`UPDATE feed SET gone = max(gone, ${lastPosition} - ?)`);
  const trim = db.prepare(`
    DELETE FROM changes WHERE position <= (SELECT gone FROM feed) AND position < ${lastPosition}
      AND position < (SELECT min(position) FROM changes) + ${maxTrimmed}`);
  // The first change trims, so that a process that adds few changes trims too.
  let untrimmed = changesPerTrim;
  let restartedAt = Number.POSITIVE_INFINITY;

  const keepOnly = (count: number): void => {
    raiseGone.run(count);
    trim.run();
  };
  const restart = (): number => {
    const { lastInsertRowid } = insertRestart.run(importPosition());
    keepOnly(0);
    return Number(lastInsertRowid);
  };
  return {
    changesKept,

    /** Makes all earlier positions `gone`, after a write that the feed does not contain. */
    restart,

    add(type: ChangeType, record: Change['record'], { requestId, key }: Origin = {}): void {
      try {
        if (changesKept > 0) {
          const values = [type, Date.now(), JSON.stringify(record), userOf(record)];
          insert.run(...values, requestId ?? null, key ?? null);
        } else if (!isRestarted.get(restartedAt)?.[0]) {
          // One restart, or a later one of another process, serves all writes until its group is rolled back, or a
          // change is added. No client has read its position: all processes keep a feed, or none does.
          restartedAt = restart();
        }
        untrimmed += 1;
        if (untrimmed < changesPerTrim) return;
        untrimmed = 0;
        keepOnly(changesKept);
      } catch (caught) {
        // If the disk is full, for example, fail the whole group: a savepoint for each write would cost more.
        if (db.isTransaction) db.exec('ROLLBACK');
        throw caught;
      }
    },
  };
}

// Maximum number of changes that a read examines. More would block the thread of all requests for too long.
const maxExamined = 2_000;

export function sqliteFeed(db: DatabaseSync) {
  // In one statement, so that all values are from one moment. There is at least one row, with or without a change.
  const page = db.prepare(
    `SELECT gone, newest, position, type, time, record, request_id, key
    FROM feed JOIN (SELECT max(position) AS newest FROM changes) LEFT JOIN (
      SELECT * FROM changes
      WHERE position > ?1 AND position <= ?1 + ${maxExamined}
        AND type IN (SELECT value FROM json_each(?2))
        AND (?3 IS NULL OR user_id = ?3)
      ORDER BY position ${limitSql('?4')})
    ORDER BY position`,
  );
  const last = db.prepare(`SELECT ${lastPosition}`);

  return {
    // During an upgrade, a process of another release may write changes of other types.
    read({ after, limit, types = changeTypes, userId }: ChangeQuery): ChangePage {
      const rows = page.all(after, JSON.stringify(types), userId ?? null, limit);
      const [gone, newest] = [Number(rows[0]?.[0]), Number(rows[0]?.[1])];
      if (after < gone || after > newest) throw new ChangesGone(after, gone + 1);
      const changes = rows.flatMap((row) => (row[2] === null ? [] : [toChange(row)]));
      return toChangePage(changes, limit, Math.min(newest, after + maxExamined), newest);
    },
    position(): number {
      return Number(last.get()?.[0]);
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
