import { prepared } from './connection.ts';

/** The state of the feed at the time of a query. */
export interface FeedState {
  /** The last position that the query can see. */
  readonly newest: number;
  /** Changes up to this position are no longer kept. */
  readonly gone: number;
  /** Every position after the settled one, up to here, has a change. */
  readonly unbroken: number;
  /** The running transactions that have taken a position; NULL if they were not listed. */
  readonly writers: readonly string[] | null;
  readonly standby: boolean;
}

/** Maximum number of positions after the settled one to examine for gaps. */
export const maxUnbroken = 5_000;

// The row of the feed. A dump that was restored into existing tables has added a second row; the higher `gone` is
// valid. Without a LIMIT, the planner expects thousands of rows until the table is analyzed.
export const fromFeed = 'FROM change_feed ORDER BY gone DESC LIMIT 1';

// Reads the state of the feed after the settled position $1. Lists the writers, which takes longer than the rest, only
// if $2 is true or too many positions follow. A transaction that takes a position locks the sequence until its end. The
// locks are read after the snapshot, so each transaction with a position up to `newest` has ended or is listed.
export const readState = prepared(`
  WITH ends AS (
    SELECT gone, GREATEST(gone, $1::bigint) AS start,
      GREATEST(gone, (SELECT max(position) FROM changes)) AS newest
    ${fromFeed}
  )
  SELECT newest, gone, pg_is_in_recovery() AS standby,
    COALESCE((
      SELECT max(position) FROM (
        SELECT position, row_number() OVER (ORDER BY position) FROM changes
        WHERE position > start AND position <= start + ${maxUnbroken}
      ) AS behind WHERE position = start + row_number), start) AS unbroken,
    CASE WHEN $2 OR newest > start + ${maxUnbroken} THEN to_json(ARRAY(
      SELECT virtualtransaction FROM pg_locks
      WHERE locktype = 'relation' AND relation = 'changes_position_seq'::regclass AND granted
        AND mode <> 'AccessShareLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )) END AS writers
  FROM ends`);

/**
 * Finds the settled position, up to which no change can be added any more, from the states in the order of their reads.
 * A write takes its position before it commits, so its change may become visible after one with a higher position.
 *
 * An example: two writers take the positions 5 and 6, and 6 commits first. The next state has `newest` 6 and `unbroken`
 * 4, so 4 stays settled. The one after it lists the writers. When the writer of 5 has committed, `unbroken` is 6. If it
 * has rolled back, position 5 stays empty, but no writer runs any more. Either way, 6 is settled.
 */
export class Settled {
  /** `undefined` until the first position is known. */
  position: number | undefined;
  /** Whether the next state must list the writers, because only they show whether a missing position may still come. */
  needsWriters = true;
  #newest = 0;
  /** An earlier state, and those of its writers that still run. */
  #pending: { readonly newest: number; readonly writers: readonly string[] } = { newest: 0, writers: [] };

  add({ newest, gone, unbroken, writers }: FeedState): void {
    const isBehind = newest < this.#newest;
    this.#newest = newest;
    if (isBehind) {
      // This is another server, which lacks some changes. The settled position of the previous server is not valid.
      this.#pending = { newest: 0, writers: [] };
      this.position = undefined;
      this.needsWriters = true;
      return;
    }
    const before = this.position ?? 0;
    this.position = Math.max(before, gone, unbroken, writers === null ? 0 : this.#compare(newest, writers));
    this.needsWriters = this.position === before && before < newest;
  }

  /** `newest` if no writer runs. Else the newest position of the pending state if its writers have ended; else 0. */
  #compare(newest: number, writers: readonly string[]): number {
    if (writers.length === 0) return newest;
    const pending = this.#pending;
    const running = writers.filter((writer) => pending.writers.includes(writer));
    const isOver = running.length === 0;
    this.#pending = isOver ? { newest, writers } : { newest: pending.newest, writers: running };
    return isOver ? pending.newest : 0;
  }
}
