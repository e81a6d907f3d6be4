import type { QueryResultRow } from 'pg';
import type { ChangeType } from '../../domain/change.ts';
import { prepared, type Sql } from './pool.ts';

/** The result of a look at the feed. Positions are float8, because the driver returns a bigint as text. */
export interface Look extends QueryResultRow {
  /** The last position that this statement can see. */
  readonly newest: number;
  /** Changes up to this position cannot be read any more. */
  readonly gone: number;
  /** From the settled position on there is a change at each position up to here. */
  readonly unbroken: number;
  /** The transactions that have drawn a position, and run; NULL when they were not asked for. */
  readonly writers: readonly string[] | null;
  readonly standby: boolean;
}

/** How far behind a settled position a look goes for positions that are all there. */
const maxUnbroken = 5_000;

/**
 * The table has one row. Until it is analyzed the planner expects thousands; LIMIT 1 corrects that.
 *
 * $1 is the last settled position. $2 asks for the writers: to list all locks takes longer than all the rest.
 *
 * A transaction that draws from a sequence holds a lock on it until its end. The locks are listed after the
 * snapshot of this statement was taken. So each transaction that drew a position up to `newest` has ended or is listed.
 */
export const look = prepared(`
  WITH ends AS (
    SELECT gone, GREATEST(gone, $1::bigint) AS start,
      GREATEST(gone, (SELECT max(position) FROM changes)) AS newest
    FROM change_feed LIMIT 1
  )
  SELECT newest::float8, gone::float8, pg_is_in_recovery() AS standby,
    COALESCE((
      SELECT max(position) FROM (
        SELECT position, row_number() OVER (ORDER BY position) AS place FROM changes
        WHERE position > start ORDER BY position LIMIT ${maxUnbroken}
      ) AS behind WHERE position = start + place), start)::float8 AS unbroken,
    CASE WHEN $2 OR newest > start + ${maxUnbroken} THEN ARRAY(
      SELECT virtualtransaction FROM pg_locks
      WHERE locktype = 'relation' AND relation = 'changes_position_seq'::regclass AND granted
        AND mode <> 'AccessShareLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) END AS writers
  FROM ends`);

export interface PageRow {
  readonly gone: number;
  readonly upto: number;
  /** NULL, as the others, when there is no change. */
  readonly position: number | null;
  readonly time: Date;
  /** The statements of the writes give it no other. */
  readonly type: ChangeType;
  readonly record: Readonly<Record<string, unknown>>;
  readonly request_id: string | null;
  readonly key: string | null;
}

/**
 * The changes behind $1 and not behind $2, $3 of them at most. Of the positions $4 are examined at most,
 * up to `upto`. $5 are the types and $6 is the user, NULL for all.
 */
export const readPage = prepared(`
  WITH examined AS (
    SELECT gone, COALESCE((
      SELECT position FROM changes WHERE position > $1 AND position <= $2
      ORDER BY position OFFSET $4::bigint - 1 LIMIT 1), $2::bigint) AS upto
    FROM change_feed LIMIT 1
  )
  SELECT gone::float8, upto::float8, page.* FROM examined LEFT JOIN LATERAL (
    SELECT position::float8, time, type, record, request_id, key FROM changes
    WHERE position > $1 AND position <= upto
      AND ($5::text[] IS NULL OR type = ANY ($5)) AND ($6::integer IS NULL OR user_id = $6)
    ORDER BY position LIMIT $3
  ) AS page ON true ORDER BY position`);

/** Makes all changes up to now unreadable, since others were made that the feed does not have. */
export const restartFeed: Sql = {
  text: `UPDATE change_feed SET gone = nextval('changes_position_seq')`,
};

/** Removes some of the changes before the last $1 positions. Processes take turns; one that would wait leaves it. */
export const trimFeed = prepared(`
  WITH turn AS (
    SELECT FROM change_feed FOR UPDATE SKIP LOCKED
  ), step AS (
    SELECT max(position) AS position FROM (
      SELECT position FROM changes, turn
      WHERE position <= (SELECT max(position) FROM changes) - $1::bigint
      ORDER BY position LIMIT 2000
    ) AS oldest
  ), removed AS (
    DELETE FROM changes USING step WHERE changes.position <= step.position
  )
  UPDATE change_feed SET gone = GREATEST(gone, step.position) FROM step WHERE step.position IS NOT NULL`);
