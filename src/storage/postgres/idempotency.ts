import { prepared } from './connection.ts';

/** Removes up to 2,000 expired keys, the oldest first. Skips those that another process removes. */
export const removeExpired = prepared(`
  DELETE FROM idempotency_keys WHERE key IN (
    SELECT key FROM idempotency_keys WHERE expires_at <= now()
    ORDER BY expires_at LIMIT 2000 FOR UPDATE SKIP LOCKED)`);

/**
 * Makes an insert happen once for a key, in one statement and so in one transaction. $1 is the key, $2 the fingerprint,
 * and $3 the time to keep the key in milliseconds. The insert has the other parameters. It selects from `turn`, which
 * has one row if the insert must happen, and otherwise none. The outcome is `busy` while the first request with the key
 * runs. There is no row if the insert has added none.
 *
 * - The lock on a known result makes it a write: with synchronous replication, its commit waits until a standby has it.
 * - The advisory lock decides which request is first. It depends on the table too, because other schemas may have the
 *   same keys. If another request commits between the snapshot of this statement and its lock, the key violates the
 *   primary key. The statement then has no effect, and finds the result when it is sent again.
 * - An expired row of the same key must be removed before the insert; `count` forces this order.
 */
export function onceSql(insert: string, addChange: string | false): string {
  return `
    WITH mine AS (
      SELECT pg_try_advisory_xact_lock(hashtextextended($1, 'idempotency_keys'::regclass::oid::bigint)) AS locked
    ), known AS (
      SELECT fingerprint, response FROM idempotency_keys WHERE key = $1 AND expires_at > now() FOR KEY SHARE
    ), turn AS (
      SELECT $1 AS key FROM mine WHERE locked AND NOT EXISTS (SELECT FROM known)
    ), expired AS (
      DELETE FROM idempotency_keys AS old USING turn WHERE old.key = turn.key AND expires_at <= now() RETURNING old.key
    ), created AS (${insert}
    )${addChange ? `, change AS (${addChange})` : ''}, kept AS (
      INSERT INTO idempotency_keys (key, fingerprint, response, expires_at)
      SELECT $1, $2, row_to_json(created), now() + $3::float8 * interval '1 millisecond'
      FROM created, (SELECT count(*) FROM expired) AS removed
      RETURNING fingerprint, response
    )
    SELECT 'replayed' AS outcome, fingerprint, response AS record FROM known
    UNION ALL
    SELECT 'created', fingerprint, response FROM kept
    UNION ALL
    SELECT 'busy', NULL, NULL FROM mine WHERE NOT locked AND NOT EXISTS (SELECT FROM known)`;
}
