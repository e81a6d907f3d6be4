import { checkRanges, maxTimerMs, type Range } from '../../check-range.ts';
import { idempotencyTtlMs } from '../../domain/repository.ts';

/** How a copy of the service uses its PostgreSQL. Times are in milliseconds. */
export interface PostgresStoreOptions {
  /** Connections for calls, 1 to 1,000; one more is opened for `ping` and for cancelling. Default 10. */
  readonly poolSize?: number;
  /** Longest time to open a connection. Default 2,000. */
  readonly connectTimeoutMs?: number;
  /** Longest time a call waits for a free connection before it is `overloaded`. Default 2,000. */
  readonly waitTimeoutMs?: number;
  /** Calls that may wait for a free connection at once; one more is `overloaded`. Default 1,000. */
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
  /** What `pg_stat_activity` shows of the connections. Default `users-service`. */
  readonly applicationName?: string;
}

export type PostgresSettings = Required<PostgresStoreOptions>;

const defaults: PostgresSettings = {
  poolSize: 10,
  connectTimeoutMs: 2_000,
  waitTimeoutMs: 2_000,
  maxWaiting: 1_000,
  statementTimeoutMs: 10_000,
  lockTimeoutMs: 5_000,
  idleInTransactionTimeoutMs: 10_000,
  pingTimeoutMs: 1_000,
  idempotencyTtlMs,
  applicationName: 'users-service',
};

const ranges: Readonly<Record<Exclude<keyof PostgresSettings, 'applicationName'>, Range>> = {
  poolSize: [1, 1_000],
  connectTimeoutMs: [1, maxTimerMs],
  waitTimeoutMs: [1, maxTimerMs],
  maxWaiting: [0, 1_000_000],
  // Room is left for the watchdog, which waits a little longer than the server.
  statementTimeoutMs: [1, maxTimerMs - 10_000],
  lockTimeoutMs: [1, maxTimerMs],
  idleInTransactionTimeoutMs: [1, maxTimerMs],
  pingTimeoutMs: [1, maxTimerMs],
  // Some thirty years; the server's timestamps end too.
  idempotencyTtlMs: [1, 1_000_000_000_000],
};

/** Fills in the defaults; a value out of its range is a `RangeError` that names it. */
export function postgresSettings(options: PostgresStoreOptions): PostgresSettings {
  const settings = Object.freeze({ ...defaults, ...options });
  checkRanges(settings, ranges);
  return settings;
}
