import type { DatabaseSync } from 'node:sqlite';
import type { Change, ChangeType, Origin } from '../../domain/change.ts';
import { byKind, type RecordKind } from '../../domain/record.ts';
import { childTables, type Table, tables } from '../tables.ts';
import { prepareRows } from './reads.ts';

// After this many added changes, up to four times as many old ones are deleted. No single write deletes all of them,
// and a store with a lowered limit shrinks.
const changesPerTrim = 256;
const maxTrimmed = 1_024;

const columns = 'type, time, record, user_id, request_id, key';
const lastPosition = '(SELECT max(position) FROM changes)';

export type ChangeLog = ReturnType<typeof changeLog>;

/** Adds changes to the feed in the transaction of their write; none if `changesKept` is 0. */
export function changeLog(db: DatabaseSync, changesKept: number) {
  const insert = db.prepare(`INSERT INTO changes (${columns}) VALUES (?, ?, ?, ?, ?, ?)`);
  const insertBelow = byKind((kind) =>
    childTables(tables[kind]).map((child) =>
      db.prepare(`
        INSERT INTO changes (${columns})
        SELECT '${child.record}.deleted', ?, ${recordSql(child)}, user_id, ?, ?
        FROM ${child.name} WHERE user_id = ? ORDER BY id`),
    ),
  );
  const last = prepareRows(db, `SELECT ${lastPosition}`);
  const begin = db.prepare("INSERT INTO changes (type, time, record, user_id) VALUES ('', 0, '', 0)");
  const raiseGone = db.prepare(
    `UPDATE feed SET gone = ${lastPosition} - ?1 WHERE gone < ${lastPosition} - ?1`,
  );
  const trim = db.prepare(`
    DELETE FROM changes WHERE position <= (SELECT gone FROM feed) AND position < ${lastPosition}
      AND position < (SELECT min(position) FROM changes) + ${maxTrimmed}`);
  // Start with a full count, so that a process with fewer writes trims as well.
  let untrimmed = changesPerTrim;
  let restartedAt: unknown;

  const added = (count: number): void => {
    untrimmed += count;
    if (untrimmed < changesPerTrim) return;
    untrimmed = 0;
    raiseGone.run(changesKept);
    trim.run();
  };
  const restart = (): void => {
    begin.run();
    raiseGone.run(0);
    trim.run();
  };
  return {
    /** Makes all earlier positions `gone`, after a write that the feed does not contain. */
    restart,

    add(type: ChangeType, record: Change['record'], { requestId = null, key = null }: NullableOrigin = {}) {
      if (changesKept === 0) {
        // Once, until this write is rolled back or another process adds a change.
        if (last.get()?.[0] === restartedAt) return;
        restart();
        restartedAt = last.get()?.[0];
        return;
      }
      const userId = 'userId' in record ? record.userId : record.id;
      try {
        insert.run(type, Date.now(), JSON.stringify(record), userId, requestId, key);
        added(1);
      } catch (caught) {
        // For example, the disk is full. A savepoint for each write would cost more than the loss of one group.
        if (db.isTransaction) db.exec('ROLLBACK');
        throw caught;
      }
    },

    /** Adds a deletion for each record that belongs to this one. */
    addDeletionsBelow(kind: RecordKind, id: number, { requestId = null, key = null }: NullableOrigin = {}) {
      if (changesKept === 0) return;
      for (const insert of insertBelow[kind]) {
        added(Number(insert.run(Date.now(), requestId, key, id).changes));
      }
    },
  };
}

type NullableOrigin = { readonly [Name in keyof Origin]: Origin[Name] | null };

/** The record of a row as JSON, for a table whose columns all have a value. */
function recordSql(table: Table): string {
  const fields = table.columns.map(({ field, name }) => `'${field}', ${name}`);
  return `json_object(${fields.join(', ')})`;
}
