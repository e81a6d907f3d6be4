import { setTimeout as delay } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { type Change, type ChangePage, type ChangeQuery, ChangesGone, kindOf } from '../../domain/change.ts';
import { DomainError } from '../../domain/errors.ts';
import type { CallOptions, ChangeFeed } from '../../domain/repository.ts';
import { fromNames, tables } from '../tables.ts';
import { type LookRow, look, type PageRow, readPage, restartFeed, trimFeed } from './change-sql.ts';
import { Followers } from './followers.ts';
import type { PostgresPool } from './pool.ts';
import { shared, unlessAborted } from './promises.ts';

/** Maximum time that a read without changes waits for running writes. */
const settleMs = 100;
const settleStepMs = 4;
/** How soon to check again for writes that were running. Most of them send a notification earlier. */
const recheckMs = 50;
/** Maximum number of positions that a read with a filter examines. */
const maxExamined = 10_000;
/** Number of writes of this process after which old changes are removed. */
const writesPerTrim = 1_000;

/** The result of a look at the feed. */
export interface Look {
  readonly newest: number;
  readonly gone: number;
  /** Each position from the settled one up to this one has a change. */
  readonly unbroken: number;
  /** Absent unless `needsWriters`. */
  readonly writers?: readonly string[] | undefined;
}

/** Finds the position up to which no change is missing, from looks in the order in which they were made. */
export class Settled {
  #newest = 0;
  /** A look, with those of its writers that were still running at each later look. */
  #pending: { readonly newest: number; readonly writers: readonly string[] } | undefined;
  #position: number | undefined;
  #needsWriters = true;

  /** `undefined` until the first position is known. */
  get position(): number | undefined {
    return this.#position;
  }

  /** Whether a change is missing that may never be committed. Only the list of writers shows whether it may come. */
  get needsWriters(): boolean {
    return this.#needsWriters;
  }

  add({ newest, gone, unbroken, writers }: Look): void {
    const last = this.#newest;
    const before = this.#position ?? 0;
    this.#newest = newest;
    if (newest < last) {
      // Another server, which lacks some changes of the previous one. Its settled position is not valid here.
      this.#pending = undefined;
      this.#position = undefined;
      this.#needsWriters = true;
      return;
    }
    const position = Math.max(
      before,
      gone,
      unbroken,
      writers === undefined ? 0 : this.#compare(newest, writers),
    );
    this.#position = position;
    this.#needsWriters = position === before && position < newest;
  }

  /** The newest position of this or the pending look if its writers have all ended; else 0. */
  #compare(newest: number, writers: readonly string[]): number {
    if (writers.length === 0) return newest;
    const pending = this.#pending ?? { newest: 0, writers: [] };
    const running = pending.writers.filter((writer) => writers.includes(writer));
    const isOver = running.length === 0;
    this.#pending = isOver ? { newest, writers } : { newest: pending.newest, writers: running };
    return isOver ? pending.newest : 0;
  }
}

/** The feed of changes of a database. */
export class PostgresChanges implements ChangeFeed {
  readonly #pool: PostgresPool;
  /** The pool that pages are read from. Only the primary knows which positions are settled. */
  readonly #pages: Pick<PostgresPool, 'read'>;
  readonly #kept: number;
  readonly #followers: Followers;
  readonly #settled = new Settled();
  /** Runs one look at a time, because `Settled` needs them in order. */
  readonly #look = shared(() => this.#lookNow());
  #writes = 0;
  #trim: Promise<unknown> | undefined;

  constructor(pool: PostgresPool, pages: Pick<PostgresPool, 'read'>, kept: number) {
    this.#pool = pool;
    this.#pages = pages;
    this.#kept = kept;
    this.#followers = new Followers(pool);
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
    return this.#followers.add(wake);
  }

  /** Must be called after each write. */
  written(): void {
    this.#writes += 1;
    if (this.#writes % Math.min(writesPerTrim, this.#kept) === 0) this.#startTrim();
    this.#followers.written();
  }

  /** Must be called before the pool is closed. */
  async close(): Promise<void> {
    await Promise.all([this.#followers.close(), this.#trim]);
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
    if (this.#settled.position !== found.newest) this.#followers.wake(recheckMs);
    return found;
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
