/** The outcome of an insert with an idempotency key. There is no row if nothing was inserted. */
export type OnceRow<Row> =
  | { readonly outcome: 'created' | 'replayed'; readonly fingerprint: string; readonly response: Row }
  /** The first request with this key is still running. */
  | { readonly outcome: 'busy' };

/**
 * Makes an insert happen once for a key, in one statement and so in one transaction. $1 is the key, $2 the fingerprint,
 * and $3 the time to keep the key in milliseconds. The insert has the other parameters. It selects from `turn`, which
 * has one row if the insert must happen, and otherwise none.
 *
 * - The lock on a known result makes the transaction a writing one: with synchronous replication, its commit waits until
 *   a standby has the result.
 * - The advisory lock decides which request is first. If another request commits after the snapshot of this statement
 *   and before its lock, the new key violates the primary key. The statement then has no effect, and finds the result
 *   when it is sent again.
 * - Each call removes up to ten expired keys, so that the table shrinks after a burst. It skips keys that another call
 *   removes. An expired row of the same key must be removed before the insert; `count` forces this order.
 */
export function onceSql(insert: string, addChange?: string): string {
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
