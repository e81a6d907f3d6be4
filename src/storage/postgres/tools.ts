import { randomBytes } from 'node:crypto';
import { storeClosed } from '../../domain/errors.ts';
import { readStoreNumbers } from '../options.ts';
import type { Scratch } from '../tools.ts';
import { loadDriver, parseHosts } from './hosts.ts';
import { PostgresPool } from './pool.ts';

// Creating and removing schemas takes longer than the calls of a service.
const limits = readStoreNumbers({
  poolSize: 1,
  waitTimeoutMs: 10_000,
  pingTimeoutMs: 10_000,
  statementTimeoutMs: 60_000,
  lockTimeoutMs: 60_000,
  idleInTransactionTimeoutMs: 60_000,
});

export async function openPostgresScratch(url: string): Promise<Scratch> {
  const { Client } = await loadDriver();
  const createClient = (connectionString: string) => new Client({ connectionString });
  const pool = new PostgresPool({ ...limits, createClient, warn: () => {}, ...parseHosts(Client, url) });
  const schemas = new Map<string, string>();
  let isRemoved = false;
  return {
    async next() {
      if (isRemoved) throw storeClosed();
      const name = `users_service_verify_${randomBytes(6).toString('hex')}`;
      const options = `options=${encodeURIComponent(`-csearch_path=${name}`)}`;
      const at = `${url}${url.includes('?') ? '&' : '?'}${options}`;
      // Added first, so that `remove` also drops a schema that is being created.
      schemas.set(at, name);
      await pool.write({ text: `CREATE SCHEMA ${name}` }, []);
      return at;
    },
    async passTime(at, ms) {
      const keys = `${schemas.get(at)}.idempotency_keys`;
      const text = `UPDATE ${keys} SET expires_at = expires_at - interval '${ms} milliseconds'`;
      await pool.write({ text }, []);
    },
    async remove() {
      isRemoved = true;
      try {
        // One at a time: together they would need more locks than a server has.
        for (const name of schemas.values()) {
          await pool.write({ text: `DROP SCHEMA IF EXISTS ${name} CASCADE` }, []);
        }
      } finally {
        await pool.close();
      }
    },
  };
}
