import type { Sql } from './postgres-pool.ts';

export const userColumns = 'id, name, role, version';
export const postColumns = 'id, user_id, title, body';

// As float8, an expected version may be any number a client can write without being out of range.
const expected = (n: number) => `($${n}::float8[] IS NULL OR version = ANY ($${n}::float8[]))`;

export const getUser: Sql = {
  name: 'get-user',
  text: `SELECT ${userColumns} FROM users WHERE id = $1`,
};

export const countUsers: Sql = {
  name: 'count-users',
  text: 'SELECT count(*)::integer AS count FROM users',
};

export const countUsersWithRole: Sql = {
  name: 'count-users-with-role',
  text: 'SELECT count(*)::integer AS count FROM users WHERE role = $1',
};

export const createUser: Sql = {
  name: 'create-user',
  text: `INSERT INTO users (name, role) VALUES ($1, $2) RETURNING ${userColumns}`,
};

export const createUserOnce: Sql = {
  name: 'create-user-once',
  text: once(`
    INSERT INTO users (name, role) SELECT $4, $5 WHERE NOT EXISTS (SELECT FROM known)
    RETURNING ${userColumns}`),
};

/** A field that is NULL stays as it is. */
export const changeUser: Sql = {
  name: 'change-user',
  text: `
    UPDATE users SET
      name = COALESCE($2, name),
      role = COALESCE($3, role),
      version = version + ((COALESCE($2, name), COALESCE($3, role)) IS DISTINCT FROM (name, role))::integer
    WHERE id = $1 AND ${expected(4)} RETURNING ${userColumns}`,
};

export const deleteUser: Sql = {
  name: 'delete-user',
  text: `DELETE FROM users WHERE id = $1 AND ${expected(2)} RETURNING id`,
};

export const countPosts: Sql = {
  name: 'count-posts',
  text: `
    SELECT (SELECT count(*) FROM posts WHERE user_id = $1)::integer AS count FROM users WHERE id = $1`,
};

// The lock makes it wait for a deletion of the user under way, and then find none. Ids are given only
// to posts that are made: a client cannot use them up with users that are not there.
export const createPost: Sql = {
  name: 'create-post',
  text: `
    INSERT INTO posts (user_id, title, body) SELECT id, $2, $3 FROM users WHERE id = $1 FOR KEY SHARE
    RETURNING ${postColumns}`,
};

export const createPostOnce: Sql = {
  name: 'create-post-once',
  text: once(`
    INSERT INTO posts (user_id, title, body)
    SELECT id, $5, $6 FROM users WHERE id = $4 AND NOT EXISTS (SELECT FROM known) FOR KEY SHARE
    RETURNING ${postColumns}`),
};

// Refused by a server that takes no writes, though it locks and changes nothing.
export const ping: Sql = {
  name: 'ping',
  text: 'SELECT id FROM users WHERE false FOR UPDATE',
};

/**
 * An insert that happens once for a key, in one statement and so in one transaction: $1 is the key,
 * $2 the fingerprint, $3 how long to remember it in milliseconds.
 *
 * When another request with the key is under way, the primary key makes this one wait, and fail as a
 * whole when that one commits; sent again, it finds the result. Some expired keys go with each call,
 * rather than all at times; those that another call removes are not waited for. An expired row of
 * this very key has to be gone before the new one: hence the count, which needs all of `expired`.
 */
function once(insert: string): string {
  return `
    WITH known AS (
      SELECT fingerprint, response FROM idempotency_keys WHERE key = $1 AND expires_at > now()
    ), expired AS (
      DELETE FROM idempotency_keys WHERE key IN (
        (SELECT key FROM idempotency_keys WHERE expires_at <= now()
          ORDER BY expires_at LIMIT 10 FOR UPDATE SKIP LOCKED)
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
