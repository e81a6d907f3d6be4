/** What became of an insert that is to happen once. There is no row when it had nothing to insert. */
export type OnceRow<Row> =
  | { readonly outcome: 'created' | 'replayed'; readonly fingerprint: string; readonly response: Row }
  /** The first request with this key is still running. */
  | { readonly outcome: 'busy' };

/**
 * Makes an insert happen once for a key, in one statement and so in one transaction. In it $1 is the
 * key, $2 the fingerprint and $3 how long to remember it in milliseconds; the insert has the others,
 * and selects from `turn`, which has one row when it is this request's turn and none otherwise.
 *
 * The lock on a known result makes its transaction one that writes: with synchronous replication, its commit
 * waits until a standby has the result that it repeats.
 *
 * The advisory lock decides which request is first. A request that ran in between, too late for this statement to
 * see its result and too early to meet its lock, violates the primary key: the statement is then undone,
 * and finds the result when it is sent again.
 *
 * Each call removes some expired keys, ten for the one it adds, so the table shrinks after a burst;
 * those that another call removes are not waited for. An expired row of this very key must be gone
 * before the new one comes: hence the count, for which all of `expired` is needed.
 *
 * `addChange` adds the change of the row in `created` to the feed.
 */
export function once(insert: string, addChange?: string): string {
  return `
    WITH mine AS (
      SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS locked
    ), known AS (
      SELECT fingerprint, response FROM idempotency_keys WHERE key = $1 AND expires_at > now() FOR KEY SHARE
    ), turn AS (
      SELECT $1 AS key FROM mine WHERE locked AND NOT EXISTS (SELECT FROM known)
    ), expired AS (
      DELETE FROM idempotency_keys WHERE key IN (
        SELECT key FROM (
          SELECT key FROM idempotency_keys WHERE expires_at <= now()
          ORDER BY expires_at LIMIT 10 FOR UPDATE SKIP LOCKED
        ) AS oldest
        UNION ALL
        SELECT key FROM idempotency_keys JOIN turn USING (key) WHERE expires_at <= now()
      ) RETURNING key
    ), created AS (${insert}
    )${addChange === undefined ? '' : `, change AS (${addChange})`}, kept AS (
      INSERT INTO idempotency_keys (key, fingerprint, response, expires_at)
      SELECT $1, $2, row_to_json(created), now() + $3::float8 * interval '1 millisecond'
      FROM created, (SELECT count(*) FROM expired) AS swept
      RETURNING fingerprint, response
    )
    SELECT 'replayed' AS outcome, fingerprint, response FROM known
    UNION ALL
    SELECT 'created', fingerprint, response FROM kept
    UNION ALL
    SELECT 'busy', NULL, NULL FROM mine WHERE NOT locked AND NOT EXISTS (SELECT FROM known)`;
}
