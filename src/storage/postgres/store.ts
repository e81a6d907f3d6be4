import type { PoolConfig } from 'pg';
import { maxTimerMs, readNumbers } from '../../check-range.ts';
import { defaultChangesKept, maxChangesKept } from '../../domain/change.ts';
import { byKind } from '../../domain/record.ts';
import { idempotencyTtlMs, type Store } from '../../domain/repository.ts';
import { createStore } from '../store.ts';
import { tables } from '../tables.ts';
import { PostgresChanges, prepareFeed } from './changes.ts';
import type { Driver, PoolSettings } from './connections.ts';
import { hostName, loadDriver } from './driver.ts';
import { cannotOpen } from './errors.ts';
import { parseHosts, standbyUrls } from './hosts.ts';
import { postgresImport } from './import.ts';
import { PostgresPool } from './pool.ts';
import { postgresReads } from './reads.ts';
import { prepareSchema } from './schema.ts';
import { endClient, openSession, type Warn } from './session.ts';
import { type StandbyRead, StandbyReads } from './standbys.ts';
import { postgresWrites } from './writes.ts';

/** How a copy of the service uses its PostgreSQL. Times are in milliseconds. */
export interface PostgresStoreOptions {
  /** Connections for calls, 1 to 1,000; one more is opened for `ping`, and three for the feed. Default 10. */
  readonly poolSize?: number;
  /**
   * Longest wait for a connection, until one is free or opened. A call that waits longer is `overloaded` if
   * others were answered meanwhile, and `unavailable` if not. Default 2,000.
   */
  readonly waitTimeoutMs?: number;
  /** Calls that may wait for a connection at once; one more is `overloaded`. Default 1,000. */
  readonly maxWaiting?: number;
  /** Longest run of a statement before the server ends it, which is `deadline-exceeded`. Default 10,000. */
  readonly statementTimeoutMs?: number;
  /** Longest wait for another transaction's lock, which is `unavailable`. Default 5,000. */
  readonly lockTimeoutMs?: number;
  /** Longest silence inside a transaction before the server ends the connection. Default 10,000. */
  readonly idleInTransactionTimeoutMs?: number;
  /** Longest time `ping` takes, connecting included. Default 1,000. */
  readonly pingTimeoutMs?: number;
  /** How long an idempotency key is remembered, by the server's clock. Default: a day. */
  readonly idempotencyTtlMs?: number;
  /**
   * Of how many positions the changes are kept, 0 to 100,000,000; 0: no feed. All copies of the service
   * need to agree on whether there is one. Default: 100,000.
   */
  readonly changesKept?: number;
  /** What `pg_stat_activity` shows of the connections. Default `users-service`. */
  readonly applicationName?: string;
  /** Receives what an operator should know of the database, each message once. Default: nothing does. */
  readonly onWarning?: (message: string) => void;
  /**
   * A URL whose hosts are standbys, each of them one server, that answer reads. They show every write that
   * was acknowledged before the read began. Default: the database itself answers them.
   */
  readonly readDatabase?: string;
  /** Receives what became of each read that was meant for a standby. Default: nothing does. */
  readonly onStandbyRead?: (read: StandbyRead) => void;
}

const numbers = {
  poolSize: [10, 1, 1_000],
  waitTimeoutMs: [2_000, 1, maxTimerMs],
  maxWaiting: [1_000, 0, 1_000_000],
  // Room is left for the watchdog, which waits a little longer than the server.
  statementTimeoutMs: [10_000, 1, maxTimerMs - 10_000],
  lockTimeoutMs: [5_000, 1, maxTimerMs],
  idleInTransactionTimeoutMs: [10_000, 1, maxTimerMs],
  pingTimeoutMs: [1_000, 1, maxTimerMs],
  // Some thirty years; the server's timestamps end too.
  idempotencyTtlMs: [idempotencyTtlMs, 1, 1_000_000_000_000],
  changesKept: [defaultChangesKept, 0, maxChangesKept],
} as const;

/**
 * Opens the database at a `postgres:` URL, whose tables it makes or brings up to date. The URL may name
 * several hosts (see `parseHosts`). Any number of processes may share the database. Fails when it cannot
 * be reached; once open, the store outlives restarts and failovers of the server, and is `unavailable`
 * meanwhile. Needs PostgreSQL 12 or newer, and the optional dependency `pg`, which defines what else a
 * URL may say (`sslmode`, say). An option out of its range is a `RangeError`.
 */
export async function openPostgresStore(url: string, options: PostgresStoreOptions = {}): Promise<Store> {
  const limits = readNumbers(options, numbers);
  const { readDatabase, applicationName = 'users-service', onWarning, onStandbyRead } = options;
  const { urls, writable } = parseHosts(url);
  const { Client, Pool } = await loadDriver();
  const [first, ...others] = urls.map((one) => ({ name: hostName(Client, one), url: one }));
  if (first === undefined) throw new Error('a URL has a host');
  const settings = { ...limits, writable, hosts: [first, ...others] as const };
  const config: PoolConfig = {
    // Idle connections stay open, so that the first request after a quiet hour is not slower.
    idleTimeoutMillis: 0,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveDelayMs,
    application_name: applicationName,
  };
  const warn = once(onWarning);
  const driver: Driver = {
    createPool: (host) => new Pool({ ...config, ...host }),
    createClient: (host) => new Client({ ...config, ...host }),
  };
  const openPool = (of: PoolSettings) => new PostgresPool(driver, of, warn);
  const pool = openPool(settings);
  const standbys = standbyUrls(readDatabase).map((one) => {
    const host = { name: hostName(Client, one), url: one };
    return { host: host.name, pool: openPool({ ...limits, writable: false, hosts: [host] }) };
  });
  const reads = standbys.length === 0 ? pool : new StandbyReads(pool, standbys, onStandbyRead);
  try {
    await pool.prepare(async (client) => {
      await prepareSchema(client);
      await prepareFeed(client, settings.changesKept > 0);
    });
  } catch (caught) {
    await pool.close();
    throw cannotOpen(settings.hosts.map(({ name }) => name).join(', '), caught);
  }
  const connect = async (signal: AbortSignal) => {
    const client = driver.createClient({ connectionString: pool.host.url });
    const isOver = AbortSignal.any([signal, AbortSignal.timeout(settings.waitTimeoutMs)]);
    if (await openSession(client, settings, warn, isOver)) return client;
    await endClient(client);
    return undefined;
  };
  const feed =
    settings.changesKept > 0 ? new PostgresChanges(pool, reads, settings.changesKept, connect) : undefined;
  const answers = postgresReads({
    read: (sql, values, signal) => reads.read(sql, values, signal),
    ping: (sql, signal) => pool.ping(sql, signal),
  });
  return createStore({
    ...(feed && { changes: feed }),
    ...answers,
    collections: byKind((kind) => ({
      ...answers.collections[kind],
      ...postgresWrites(pool, tables[kind], { ...settings, feed }),
    })),
    ...postgresImport(pool),
    async close() {
      await feed?.close();
      await Promise.all([pool, ...standbys.map((standby) => standby.pool)].map((one) => one.close()));
    },
  });
}

// Sooner than what lies between (NAT, load balancers) forgets a silent connection.
const keepAliveDelayMs = 10_000;

/** Passes each message on the first time. */
function once(warn: Warn = () => {}): Warn {
  const sent = new Set<string>();
  return (message) => {
    if (!sent.has(message)) warn(message);
    sent.add(message);
  };
}
