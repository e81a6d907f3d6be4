/**
 * Makes an insert happen once for a key, in one statement and so in one transaction. In it $1 is the
 * key, $2 the fingerprint and $3 how long to remember it in milliseconds; the insert has the others,
 * and puts in nothing when there is a row in `known`.
 *
 * When another request with the key is under way, the primary key makes this one wait, and fail as a
 * whole when that one commits; sent again, it finds the result. Each call removes some expired keys,
 * ten for the one it adds, so the table shrinks after a burst; those that another call removes
 * are not waited for. An expired row of this very key must be gone before the new one comes: hence
 * the count, for which all of `expired` is needed.
 */
export function once(insert: string): string {
  return `
    WITH known AS (
      SELECT fingerprint, response FROM idempotency_keys WHERE key = $1 AND expires_at > now()
    ), expired AS (
      DELETE FROM idempotency_keys WHERE key IN (
        SELECT key FROM (
          SELECT key FROM idempotency_keys WHERE expires_at <= now()
          ORDER BY expires_at LIMIT 10 FOR UPDATE SKIP LOCKED
        ) AS oldest
        UNION ALL
        SELECT key FROM idempotency_keys WHERE key = $1 AND expires_at <= now()
      ) RETURNING key
    ), created AS (${insert}
    ), kept AS (
      INSERT INTO idempotency_keys (key, fingerprint, response, expires_at)
      SELECT $1, $2, row_to_json(created), now() + $3::float8 * interval '1 millisecond'
      FROM created, (SELECT count(*) FROM expired) AS swept
      RETURNING fingerprint, response
    )
    SELECT fingerprint, response, true AS replayed FROM known
    UNION ALL
    SELECT fingerprint, response, false AS replayed FROM kept`;
}
