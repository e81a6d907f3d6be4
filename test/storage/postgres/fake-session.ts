import { readStoreNumbers } from '../../../src/storage/options.ts';
import type { PoolSettings } from '../../../src/storage/postgres/connection.ts';
import { PostgresPool } from '../../../src/storage/postgres/pool.ts';

/** The settings of a pool over one fake host. */
export const settings: Omit<PoolSettings, 'createClient'> = {
  ...readStoreNumbers({}),
  poolSize: 10,
  maxWaiting: 10,
  waitTimeoutMs: 1_000,
  statementTimeoutMs: 1_000,
  lockTimeoutMs: 1_000,
  idleInTransactionTimeoutMs: 1_000,
  pingTimeoutMs: 1_000,
  writable: true,
  warn: () => {},
  hosts: [{ name: 'host:5432', url: 'postgres://host' }],
};

export type CreateClient = PoolSettings['createClient'];

/** A pool of fake connections. */
export function poolOf(createClient: CreateClient, given = settings, warn = settings.warn): PostgresPool {
  return new PostgresPool({ ...given, createClient, warn });
}

/** What a fake server answers to the first statement on a connection. */
export const session = {
  read_only: 'off',
  synchronous_commit: 'on',
  fsync: 'on',
  full_page_writes: 'on',
};
