import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { type Change, type ChangePage, type ChangeQuery, ChangesGone, kindOf } from '../../domain/change.ts';
import { DomainError } from '../../domain/errors.ts';
import type { CallOptions, ChangeFeed } from '../../domain/repository.ts';
import { fromNames, tables } from '../tables.ts';
import { type LookRow, look, notify, type PageRow, readPage, restartFeed, trimFeed } from './change-sql.ts';
import { type ListenerOptions, listen } from './listener.ts';
import type { PostgresPool } from './pool.ts';
import { unlessAborted } from './session.ts';
import { type Look, Settled } from './settled.ts';
import { shared } from './shared.ts';

/** Minimum interval between two wake-ups of followers, in this and other processes. */
const wakeIntervalMs = 10;
/** Maximum time that a read without changes waits for running writes. */
const settleMs = 100;
const settleStepMs = 4;
/** How soon to check again for writes that were running. Most of them send a notification earlier. */
const recheckMs = 50;
/** Maximum number of positions that a read with a filter examines. */
const maxExamined = 10_000;
/** Number of writes of this process after which old changes are removed. */
const writesPerTrim = 1_000;

/** The feed of changes of a database, with the notifications and the clean-up of this process. */
export class PostgresChanges implements ChangeFeed {
  readonly #pool: PostgresPool;
  /** The pool that pages are read from. Only the primary knows which positions are settled. */
  readonly #pages: Pick<PostgresPool, 'read'>;
  readonly #kept: number;
  readonly #connect: ListenerOptions['connect'];
  /** Identifies this process in its notifications. */
  readonly #self = randomUUID();
  readonly #settled = new Settled();
  readonly #watchers = new Set<() => void>();
  #stopListening: (() => void) | undefined;
  /** Runs one look at a time, because `Settled` needs them in order. */
  readonly #look = shared(() => this.#lookNow());
  #writes = 0;
  #trim: Promise<unknown> | undefined;
  #hasWritten = false;
  #announcing: Promise<void> | undefined;
  #nextWake: NodeJS.Timeout | undefined;
  #wakesAt = 0;
  #wokenAt = 0;

  constructor(
    pool: PostgresPool,
    pages: Pick<PostgresPool, 'read'>,
    kept: number,
    connect: ListenerOptions['connect'],
  ) {
    this.#pool = pool;
    this.#pages = pages;
    this.#kept = kept;
    this.#connect = connect;
  }

  async read(query: ChangeQuery, { signal }: CallOptions = {}): Promise<ChangePage> {
    const { after, limit, types, userId } = query;
    const { newest, gone, settled } = await this.#lookBehind(after, signal);
    if (after < gone || after > newest) throw new ChangesGone(after, gone + 1);
    if (settled <= after) return { changes: [], next: after, more: false };
    const examined = types === undefined && userId === undefined ? limit : Math.max(limit, maxExamined);
    const rows = await this.#pages.read<PageRow>(
      readPage,
      [after, settled, limit, examined, types, userId],
      signal,
      'feed',
    );
    const [first] = rows;
    if (first === undefined) throw new Error('the table change_feed has no row');
    if (after < Number(first.gone)) throw new ChangesGone(after, Number(first.gone) + 1);
    const changes = rows.flatMap(toChange);
    const last = changes.at(-1)?.position;
    const next = last !== undefined && changes.length === limit ? last : Number(first.upto);
    return { changes, next, more: next < settled };
  }

  async position({ signal }: CallOptions = {}): Promise<number> {
    return (await this.#lookBehind(-1, signal)).settled;
  }

  watch(wake: () => void): () => void {
    // The same function may watch twice.
    const watcher = () => wake();
    this.#watchers.add(watcher);
    this.#stopListening ??= listen({
      connect: this.#connect,
      self: this.#self,
      wake: () => this.#wake(),
    });
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.#stop();
    };
  }

  /** Must be called after each write. */
  written(): void {
    this.#writes += 1;
    if (this.#writes % Math.min(writesPerTrim, this.#kept) === 0) this.#startTrim();
    this.#hasWritten = true;
    this.#announcing ??= this.#announce();
  }

  /** Must be called before the pool is closed. */
  async close(): Promise<void> {
    this.#watchers.clear();
    this.#stop();
    await Promise.all([this.#announcing, this.#trim]);
  }

  /** Looks until a change after the position is settled, if there is any, or until `settleMs` is over. */
  async #lookBehind(after: number, signal: AbortSignal | undefined): Promise<Look & { settled: number }> {
    const deadline = performance.now() + settleMs;
    for (;;) {
      const found = await unlessAborted(this.#look(), signal);
      const settled = this.#settled.position ?? found.gone;
      const isPending = this.#settled.position === undefined || (settled <= after && after < found.newest);
      if (!isPending || performance.now() >= deadline) return { ...found, settled };
      await delay(settleStepMs);
    }
  }

  async #lookNow(): Promise<Look> {
    const values = [this.#settled.position, this.#settled.needsWriters];
    const [row] = await this.#pool.read<LookRow>(look, values, undefined, 'feed');
    if (row === undefined) throw new Error('the table change_feed has no row');
    // A standby does not know which writes are still running on the primary.
    if (row.standby) throw new DomainError('unavailable', 'a standby cannot read the feed of changes');
    const found = {
      newest: Number(row.newest),
      gone: Number(row.gone),
      unbroken: Number(row.unbroken),
      writers: row.writers ?? undefined,
    };
    this.#settled.add(found);
    // A running write sends no notification if it fails.
    if (this.#settled.position !== found.newest && this.#watchers.size > 0) this.#wake(recheckMs);
    return found;
  }

  /** Wakes the watchers, not more often than every `wakeIntervalMs`. */
  #wake(afterMs = 0): void {
    const now = performance.now();
    const at = Math.max(now + afterMs, this.#wokenAt + wakeIntervalMs);
    if (this.#nextWake !== undefined && this.#wakesAt <= at) return;
    clearTimeout(this.#nextWake);
    this.#wakesAt = at;
    this.#nextWake = setTimeout(() => {
      this.#nextWake = undefined;
      this.#wokenAt = performance.now();
      for (const wake of this.#watchers) wake();
    }, at - now).unref();
  }

  /** Wakes followers of all processes, and once more later if there was another write in the meantime. */
  async #announce(): Promise<void> {
    while (this.#hasWritten) {
      this.#hasWritten = false;
      this.#wake();
      // In a separate statement: commits with a notification wait for each other.
      const notified = this.#pool.read(notify, [this.#self], undefined, 'feed').catch(() => {});
      await Promise.all([notified, delay(wakeIntervalMs)]);
    }
    this.#announcing = undefined;
  }

  #startTrim(): void {
    this.#trim ??= this.#pool
      .write(trimFeed, [this.#kept])
      // The next clean-up removes the rest.
      .catch(() => {})
      .finally(() => {
        this.#trim = undefined;
      });
  }

  #stop(): void {
    this.#stopListening?.();
    this.#stopListening = undefined;
    clearTimeout(this.#nextWake);
    this.#nextWake = undefined;
  }
}

function toChange({ position, time, type, record, request_id, key }: PageRow): Change[] {
  if (position === null) return [];
  return [
    {
      position: Number(position),
      type,
      time: time.toISOString(),
      record: fromNames<Change['record']>(tables[kindOf(type)].columns, record),
      origin: { ...(request_id !== null && { requestId: request_id }), ...(key !== null && { key }) },
    },
  ];
}

/**
 * Stores whether all writes record their changes. When they do so again after a pause, the feed restarts, because the
 * changes in between are unknown.
 */
export async function prepareFeed(client: ClientBase, isKept: boolean): Promise<void> {
  const { rows } = await client.query<{ complete: boolean; read_only: string }>(
    `SELECT complete, current_setting('transaction_read_only') AS read_only FROM change_feed`,
  );
  if (rows[0]?.complete === isKept || rows[0]?.read_only === 'on') return;
  await client.query(
    isKept
      ? `${restartFeed.text}, complete = true WHERE NOT complete`
      : 'UPDATE change_feed SET complete = false',
  );
}
