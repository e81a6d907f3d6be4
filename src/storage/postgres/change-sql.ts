import type { QueryResultRow } from 'pg';
import type { ChangeType } from '../../domain/change.ts';
import { prepared, type Sql } from './connection.ts';

/** The state of the feed. Positions are float8, because the driver returns a bigint as text. */
export interface Look extends QueryResultRow {
  /** The last position that this statement can see. */
  readonly newest: number;
  /** Changes up to this position are no longer kept. */
  readonly gone: number;
  /** Every position after the settled one, up to here, has a change. */
  readonly unbroken: number;
  /** The running transactions that have taken a position; NULL if they were not requested. */
  readonly writers: readonly string[] | null;
  readonly standby: boolean;
}

/** Maximum number of positions after the settled one to examine for gaps. */
const maxUnbroken = 5_000;

/**
 * Reads the state of the feed. $1 is the last settled position. $2 requests the writers, because listing all locks
 * takes longer than the rest of the statement.
 *
 * A transaction that takes a value from a sequence holds a lock on the sequence until its end. This statement lists the
 * locks after it has taken its snapshot. So each transaction with a position up to `newest` has ended or is listed.
 *
 * The table has one row. Until the table is analyzed, the planner expects thousands of rows; LIMIT 1 corrects that.
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
  /** NULL, like the following columns, if there is no change. */
  readonly position: number | null;
  readonly time: Date;
  /** Only our statements write this column. */
  readonly type: ChangeType;
  readonly record: Readonly<Record<string, unknown>>;
  readonly request_id: string | null;
  readonly key: string | null;
}

/**
 * Reads at most $3 changes after position $1, up to position $2. Examines at most $4 changes, up to the position
 * `upto`. $5 are the types, and $6 is the user; NULL for all.
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

/** Makes all earlier changes `gone`, because the feed lacks changes that were made since. */
export const restartFeed: Sql = {
  text: `UPDATE change_feed SET gone = nextval('changes_position_seq')`,
};

/** Removes some of the changes before the last $1 positions, unless another process is removing changes. */
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
