import { occasionally } from '../../domain/promises.ts';
import { byKind } from '../../domain/record.ts';
import type { Store } from '../../domain/repository.ts';
import { readStoreNumbers, type SharedStoreOptions } from '../options.ts';
import { createStore } from '../store.ts';
import { tables } from '../tables.ts';
import { postgresFeed, prepareFeed } from './changes.ts';
import { types, type Warn } from './connection.ts';
import { cannotOpen } from './errors.ts';
import { hostsOf, loadDriver, parseHosts } from './hosts.ts';
import { removeExpired } from './idempotency.ts';
import { PostgresPool } from './pool.ts';
import { postgresReads } from './reads.ts';
import { prepareSchema } from './schema.ts';
import { type StandbyRead, standbyReads } from './standbys.ts';
import { postgresImport, tableWrites } from './writes.ts';

/** Settings of a PostgreSQL store. Times are in milliseconds, at least 1. */
export interface PostgresStoreOptions extends Omit<SharedStoreOptions, 'now'> {
  /**
   * Maximum number of connections for calls, 1 to 1,000. Writes use up to four fifths of them, and leave at least one
   * of several to reads. Pings have one more, the feed two. Each host of `readDatabase` may get as many. Default: 10.
   */
  readonly poolSize?: number;
  /**
   * Maximum time that a call waits for a connection, or for one to open. Then it fails as `overloaded` if other calls
   * of its kind, reads or writes, were served meanwhile, else as `unavailable`. Default: 2,000.
   */
  readonly waitTimeoutMs?: number;
  /** How many reads, and how many writes, may run or wait beyond `poolSize`; more are `overloaded`. Default: 1,000. */
  readonly maxWaiting?: number;
  /** Maximum run time of a statement. The server ends longer ones, as `deadline-exceeded`. Default: 10,000. */
  readonly statementTimeoutMs?: number;
  /** Maximum time to wait for a lock of another transaction; then the call is `unavailable`. Default: 5,000. */
  readonly lockTimeoutMs?: number;
  /** Maximum idle time inside a transaction before the server closes the connection. Default: 10,000. */
  readonly idleInTransactionTimeoutMs?: number;
  /** Maximum time of `ping`, and of a ping of a standby, including connecting. Default: 1,000. */
  readonly pingTimeoutMs?: number;
  /** The name of the connections in `pg_stat_activity`. Default: `users-service`. */
  readonly applicationName?: string;
  /** Receives why work in the background failed, such as the removal of old changes. Default: none. */
  readonly onFailure?: (cause: Error) => void;
  /**
   * A URL whose hosts are standbys that serve reads, one server for each host, without a pooler. A read shows every
   * write that was acknowledged before it began. Default: the database itself serves reads.
   */
  readonly readDatabase?: string;
  /** Receives the outcome of each read that was meant for a standby. Default: none. */
  readonly onStandbyRead?: (read: StandbyRead) => void;
}

/**
 * Opens the database at a `postgres:` URL, and creates or migrates its tables. Of several hosts in the URL, it uses the
 * one that takes writes. Any number of processes may share the database. Fails as `invalid` for a wrong URL, and as
 * `unavailable` if the database cannot be opened. Once open, the store recovers from restarts and failovers of the
 * server, and is `unavailable` in the meantime. Needs PostgreSQL 12 or newer, and the optional dependency `pg`, which
 * defines further parameters of the URL, such as `sslmode`. Throws a `RangeError` for an option out of its range, and a
 * `TypeError` for one that no store has.
 */
export async function openPostgresStore(url: string, options: PostgresStoreOptions = {}): Promise<Store> {
  const numbers = readStoreNumbers(options);
  const { readDatabase, applicationName = 'users-service', onWarning, onFailure, onStandbyRead } = options;
  const { Client } = await loadDriver();
  const warn = withoutRepeats(onWarning);
  const createClient = (connectionString: string) => {
    const client = new Client({
      connectionString,
      types,
      application_name: applicationName,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveDelayMs,
    });
    // The host may have changed these defaults of the driver. Our parsers need text. After `query_timeout`, the
    // connection would be used again while its statement still runs.
    Object.assign(client, { binary: false });
    Object.assign(Object(Reflect.get(client, 'connectionParameters')), { query_timeout: 0 });
    return client;
  };
  const common = { ...numbers, createClient, warn };
  const settings = { ...common, ...parseHosts(Client, url) };
  const pool = new PostgresPool(settings);
  const standbyHosts = readDatabase === undefined ? [] : hostsOf(Client, readDatabase, 'readDatabase');
  const standbys = standbyHosts.map((host) => ({
    host: host.name,
    pool: new PostgresPool({ ...common, writable: false, hosts: [host] }),
  }));
  const reads = standbys.length === 0 ? pool : standbyReads(pool, standbys, onStandbyRead);
  const hasFeed = numbers.changesKept > 0;
  const preparing = pool.prepare(async (client) => {
    await prepareSchema(client, warn, options.mustExist);
    return prepareFeed(client, hasFeed, options.mustExist);
  });
  const beforeFirst = await preparing.catch(async (caught) => {
    await pool.close();
    throw cannotOpen(settings.hosts.map(({ name }) => name).join(', '), caught);
  });
  let isClosing = false;
  const feed = hasFeed ? postgresFeed(pool, reads, numbers.changesKept) : undefined;
  const written = occasionally(
    hasFeed ? Math.min(writesPerRemoval, numbers.changesKept) : writesPerRemoval,
    () => pool.write(removeExpired, [], feed && 'feed').finally(() => feed?.trim()),
    (cause) => {
      // While the store closes, work in the background may be cut off.
      if (!isClosing) onFailure?.(new Error('old changes or keys could not be removed', { cause }));
    },
  );
  const readOperations = postgresReads(reads, pool);
  return createStore({
    ...(feed && { changes: feed }),
    ...readOperations,
    operations: byKind((kind) => ({
      ...readOperations.operations[kind],
      ...tableWrites(pool, tables[kind], numbers.idempotencyTtlMs, hasFeed, beforeFirst, written),
    })),
    ...postgresImport(pool),
    async close() {
      isClosing = true;
      // First the standbys, because their reads may continue on the primary.
      await Promise.all(standbys.map((standby) => standby.pool.close()));
      await pool.close();
    },
  });
}

// The first write of a process, and then each of so many, removes old data. More often would cost more: while a long
// transaction is open, each search reads the entries of all removed keys again.
const writesPerRemoval = 500;

// Shorter than the time after which NAT or load balancers forget an idle connection.
const keepAliveDelayMs = 10_000;

function withoutRepeats(warn: Warn = () => {}): Warn {
  const sent = new Set<string>();
  return (message) => {
    if (sent.has(message)) return;
    sent.add(message);
    // In a microtask, an error is an uncaught exception, which does not fail the connection.
    queueMicrotask(() => warn(message));
  };
}
