import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { messageOf } from '../../domain/errors.ts';
import type { Scratch } from '../store.ts';
import { loadDriver } from './driver.ts';
import { parseHosts } from './hosts.ts';

/** Separate schemas in a database. */
export async function openPostgresScratch(url: string): Promise<Scratch> {
  const pool = await connectToPrimary(url);
  const prefix = `users_service_verify_${randomBytes(6).toString('hex')}`;
  const schemas = new Map<string, string>();
  let made = 0;
  return {
    async next() {
      made += 1;
      const name = `${prefix}_${made}`;
      await pool.query(`CREATE SCHEMA ${name}`);
      const options = `options=${encodeURIComponent(`-csearch_path=${name}`)}`;
      const at = `${url}${url.includes('?') ? '&' : '?'}${options}`;
      schemas.set(at, name);
      return at;
    },
    async passTime(at, ms) {
      const keys = `${schemas.get(at)}.idempotency_keys`;
      await pool.query(`UPDATE ${keys} SET expires_at = expires_at - interval '${ms} milliseconds'`);
    },
    async remove() {
      // One at a time: together they would need more locks than a server has.
      for (const name of schemas.values()) await pool.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
      await pool.end();
    },
  };
}

/** A connection to the first host that takes writes. */
async function connectToPrimary(url: string): Promise<Pool> {
  const driver = await loadDriver();
  const reasons: string[] = [];
  for (const connectionString of parseHosts(url).urls) {
    const limits = { max: 1, idleTimeoutMillis: 0, connectionTimeoutMillis: 10_000 };
    const pool = new driver.Pool({ connectionString, ...limits });
    pool.on('error', () => {});
    try {
      const { rows } = await pool.query<{ mode: string }>(
        `SELECT current_setting('transaction_read_only') AS mode`,
      );
      if (rows[0]?.mode === 'off') return pool;
      throw new Error('takes no writes: a standby, or read-only');
    } catch (error) {
      reasons.push(messageOf(error));
      await pool.end();
    }
  }
  throw new Error(`the database cannot be reached: ${reasons.join('; ')}`);
}
