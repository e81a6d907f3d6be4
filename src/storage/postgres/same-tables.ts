import { randomUUID } from 'node:crypto';
import { firstOf, type Sql } from './connection.ts';
import { openToolPool } from './scratch.ts';

// Only one transaction can have it. Other tables have another lock, and so do those of another database.
const lock: Sql = {
  text: `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 'users'::regclass::oid::bigint)) AS locked`,
};

/**
 * Whether two URLs, perhaps with other users or poolers, lead to the same tables: their sessions then share locks. Only
 * the first must allow transactions, which a pooler may not.
 */
export async function haveSameTables(one: string, other: string): Promise<boolean> {
  await using pools = new AsyncDisposableStack();
  const open = async (url: string) => pools.adopt(await openToolPool(url), (pool) => pool.close());
  const [first, second] = [await open(one), await open(other)];
  const key = randomUUID();
  return await first.transaction(async (send) => {
    await send(lock, [key]);
    return !firstOf(await second.read<{ locked: boolean }>(lock, [key])).locked;
  });
}
