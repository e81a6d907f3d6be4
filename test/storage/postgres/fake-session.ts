import { readStoreNumbers } from '../../../src/storage/options.ts';
import type { PoolSettings } from '../../../src/storage/postgres/connection.ts';

/** The settings of a pool over one fake host. */
export const settings: PoolSettings = {
  ...readStoreNumbers({}),
  poolSize: 10,
  maxWaiting: 10,
  waitTimeoutMs: 1_000,
  statementTimeoutMs: 1_000,
  lockTimeoutMs: 1_000,
  idleInTransactionTimeoutMs: 1_000,
  pingTimeoutMs: 1_000,
  writable: true,
  hosts: [{ name: 'host:5432', url: 'postgres://host' }],
};

/** What a fake server answers to the first statement on a connection. */
export const session = {
  read_only: 'off',
  synchronous_commit: 'on',
  fsync: 'on',
  full_page_writes: 'on',
};
