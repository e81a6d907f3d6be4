import { defaultChangesKept, maxChangesKept } from '../domain/change.ts';
import { checkRange, maxTimerMs, type Range } from '../domain/range.ts';
import { idempotencyTtlMs } from '../domain/repository.ts';

/** The options that several stores have. */
export interface SharedStoreOptions {
  /** The clock by which idempotency keys expire, in milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
  /** How long an idempotency key is kept, in milliseconds; in PostgreSQL by the clock of the server. Default: a day. */
  readonly idempotencyTtlMs?: number;
  /**
   * The minimum number of changes that the feed keeps, 0 to 100,000,000; 0: no feed. PostgreSQL counts positions, of
   * which some have no change. All processes with one store must either have a feed or not. Default: 100,000.
   */
  readonly changesKept?: number;
  /** Whether to fail, without a change, if the store does not exist yet. Default: false; it is created. */
  readonly mustExist?: boolean;
  /** Receives warnings for the operator of the store, such as before a migration, each once. Default: none. */
  readonly onWarning?: (message: string) => void;
}

type Setting = readonly [preset: number, ...Range];

/** The numbers among the options of all stores: the default, the minimum and the maximum of each. */
export const storeNumbers = {
  changesKept: [defaultChangesKept, 0, maxChangesKept],
  // About thirty years, because the timestamps of PostgreSQL are limited.
  idempotencyTtlMs: [idempotencyTtlMs, 1, 1_000_000_000_000],
  busyTimeoutMs: [5_000, 0, 60_000],
  maxPendingWrites: [10_000, 1, 1_000_000],
  poolSize: [10, 1, 1_000],
  waitTimeoutMs: [2_000, 1, maxTimerMs],
  maxWaiting: [1_000, 0, 1_000_000],
  // Leaves room for the watchdog, which waits a little longer than the server.
  statementTimeoutMs: [10_000, 1, maxTimerMs - 10_000],
  lockTimeoutMs: [5_000, 1, maxTimerMs],
  idleInTransactionTimeoutMs: [10_000, 1, maxTimerMs],
  pingTimeoutMs: [1_000, 1, maxTimerMs],
} as const satisfies Readonly<Record<string, Setting>>;

export type StoreNumbers = Readonly<Record<keyof typeof storeNumbers, number>>;

/** The types of their other options. */
// biome-ignore format: one line for each option is longer to read.
export const otherOptionTypes = new Map(Object.entries({
  now: 'function', mustExist: 'boolean', onCreated: 'function', applicationName: 'string', onWarning: 'function',
  onFailure: 'function', readDatabase: 'string', onStandbyRead: 'function',
}));

/**
 * Returns the numbers of all stores, as given or by default. Throws for a name that is no option of any store, a wrong
 * type, or a number outside its range.
 */
export function readStoreNumbers(given: object): StoreNumbers {
  for (const name in given) {
    const [type, value] = [otherOptionTypes.get(name), Reflect.get(given, name)];
    if (type === undefined && !Object.hasOwn(storeNumbers, name))
      throw new TypeError(`${name} is not an option`);
    if (type !== undefined && value !== undefined && typeof value !== type)
      throw new TypeError(`${name} must be a ${type}`);
  }
  const entries = Object.entries<Setting>(storeNumbers).map(([name, [preset, ...range]]) => {
    const { [name]: value = preset } = given as Readonly<Record<string, unknown>>;
    checkRange(name, value, range);
    return [name, value] as const;
  });
  return Object.fromEntries(entries) as StoreNumbers;
}
