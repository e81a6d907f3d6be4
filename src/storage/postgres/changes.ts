import { setTimeout as delay } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import {
  type Change,
  type ChangePage,
  type ChangeQuery,
  ChangesGone,
  type ChangeType,
  changeTypes,
  kindOf,
  toChangePage,
} from '../../domain/change.ts';
import { DomainError, unlessAborted } from '../../domain/errors.ts';
import { coalesced } from '../../domain/promises.ts';
import type { CallOptions } from '../../domain/repository.ts';
import { fromNames, tables } from '../tables.ts';
import { firstOf, prepared, type Sql } from './connection.ts';
import type { PostgresPool } from './pool.ts';
import { type FeedState, fromFeed, readState, Settled } from './settled.ts';

/** Maximum time that a read without changes waits for running writes. */
const settleMs = 100;
const settleStepMs = 4;
/** Maximum number of changes that a read with a filter examines. */
const maxExamined = 10_000;
const feedTable = 'the table change_feed';

/** The feed of changes of a database. `pages` may be standbys. Only `pool`, the primary, knows the running writes. */
export function postgresFeed(pool: PostgresPool, pages: Pick<PostgresPool, 'read'>, kept: number) {
  const tracker = new Settled();
  /** The last position that this process has removed. `gone` may be after changes that are still there. */
  let trimmed = 0;

  // One query at a time, because `Settled` needs the states in order.
  const askState = coalesced(async (): Promise<FeedState> => {
    const values = [tracker.position, tracker.needsWriters];
    const found = firstOf(await pool.read<FeedState>(readState, values, undefined, 'feed'), feedTable);
    if (found.standby) throw new DomainError('unavailable', 'a standby cannot read the feed of changes');
    tracker.add(found);
    return found;
  });
  /** Reads the state. If there are changes after the position, waits until one is settled, but at most `settleMs`. */
  const stateAfter = async (after: number, signal?: AbortSignal) => {
    const deadline = performance.now() + settleMs;
    for (;;) {
      const found = await unlessAborted(askState(), signal);
      const upto = tracker.position ?? found.gone;
      const isPending = tracker.position === undefined || (upto <= after && after < found.newest);
      if (!isPending || performance.now() >= deadline) return { ...found, settled: upto };
      await delay(settleStepMs);
    }
  };
  const position = async ({ signal }: CallOptions = {}): Promise<number> => {
    // Every position is after -1, so this waits only until the first settled position is known.
    return (await stateAfter(-1, signal)).settled;
  };

  return {
    position,

    async read(query: ChangeQuery, { signal }: CallOptions = {}): Promise<ChangePage> {
      const { after, limit, types, userId } = query;
      const { newest, gone, settled } = await stateAfter(after, signal);
      if (after < gone || after > newest) throw new ChangesGone(after, gone + 1);
      if (settled <= after) return { changes: [], next: after, more: false };
      const examined = types === undefined && userId === undefined ? limit : maxExamined;
      // During an upgrade, a process of another release may write changes of other types.
      const values = [after, settled, limit, examined, types ?? changeTypes, userId];
      const rows = await pages.read<PageRow>(readPage, values, signal, 'feed');
      const first = firstOf(rows, feedTable);
      // Changes may have been removed since the state was read.
      if (after < first.gone) throw new ChangesGone(after, first.gone + 1);
      return toChangePage(rows.flatMap(toChange), limit, first.upto, settled);
    },

    /** Removes old changes. */
    async trim(): Promise<void> {
      const values = [kept, await position(), trimmed];
      const [row] = await pool.write<{ position: number }>(trimFeed, values, 'feed');
      trimmed = row?.position ?? trimmed;
    },
  };
}

function toChange({ position, time, type, record, request_id, key }: PageRow): Change[] {
  if (position === null) return [];
  const change: Change = {
    position,
    type,
    time: new Date(time).toISOString(),
    record: fromNames(tables[kindOf(type)].columns, record),
    origin: { ...(request_id !== null && { requestId: request_id }), ...(key !== null && { key }) },
  };
  return [change];
}

/**
 * Stores whether all writes add their changes to the feed. It restarts after a pause, whose changes it lacks. On a
 * server that takes no writes yet, and with `isSource`, as for an export, resolves to the statement to send before the
 * first write. Throws if sessions take positions in blocks; with `isSource`, that statement fails instead.
 */
export async function prepareFeed(client: ClientBase, isKept: boolean, isSource = false) {
  const { rows } = await client.query<{ complete: boolean | null; read_only: string; cache: number }>(
    `SELECT bool_and(complete) AS complete, current_setting('transaction_read_only') AS read_only,
      (SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass('changes_position_seq')) AS cache
    FROM change_feed`,
  );
  const { complete, read_only, cache } = firstOf(rows);
  if (isKept && cache > 1) {
    const problem = `the sequence changes_position_seq has CACHE ${cache}, so readers would miss changes: set CACHE 1`;
    if (isSource) return { text: `DO $$ BEGIN RAISE EXCEPTION '${problem}'; END $$` };
    throw new Error(problem);
  }
  // The server rejects updates of a table that is published, or only readable, even if they change nothing.
  if (complete === isKept) return undefined;
  const change = isKept ? `${restartFeed.text}, complete = true` : 'UPDATE change_feed SET complete = false';
  // A restore without the rows of the feed leaves no row.
  const text = `
    WITH changed AS (${change} WHERE complete <> ${isKept})
    INSERT INTO change_feed SELECT nextval('changes_position_seq'), ${isKept}
    WHERE NOT EXISTS (SELECT FROM change_feed)`;
  if (isSource || read_only === 'on') return { text };
  await client.query(text);
  return undefined;
}

interface PageRow {
  readonly gone: number;
  readonly upto: number;
  /** NULL, like the following columns, if there is no change. */
  readonly position: number | null;
  /** In milliseconds, because the text of a time depends on the settings of the session. */
  readonly time: number;
  /** Only our statements write this column. */
  readonly type: ChangeType;
  readonly record: Readonly<Record<string, unknown>>;
  readonly request_id: string | null;
  readonly key: string | null;
}

// Reads at most $3 changes after position $1, up to position $2. Examines at most $4 changes, up to the position
// `upto`. $5 are the types, and $6 is the user, NULL for all.
export const readPage = prepared(`
  WITH examined AS (
    SELECT gone, LEAST($2::bigint, (
      SELECT position FROM changes WHERE position > $1 ORDER BY position OFFSET $4::bigint - 1 LIMIT 1)) AS upto
    ${fromFeed}
  )
  SELECT gone, upto, page.* FROM examined LEFT JOIN LATERAL (
    SELECT position, round(extract(epoch FROM time) * 1000)::bigint AS time, type, record, request_id, key
    FROM changes
    WHERE position > $1 AND position <= upto
      AND type = ANY ($5::text[]) AND ($6::integer IS NULL OR user_id = $6)
    ORDER BY position LIMIT $3
  ) AS page ON true ORDER BY position`);

/** Makes all earlier changes `gone`, because the feed lacks changes that were made since. */
export const restartFeed: Sql = { text: `UPDATE change_feed SET gone = nextval('changes_position_seq')` };

// Removes some of the changes before the last $1 positions, unless another process does. After the settled position,
// $2, writes may still run. Changes up to $3 were removed before: while an old transaction keeps their rows, they would
// be read again. A lower `gone` is that of another server, of a restored database, or of a second row (see `fromFeed`).
const trimFeed = prepared(`
  WITH turn AS (
    SELECT LEAST(gone, $3::bigint) AS start FROM change_feed FOR UPDATE SKIP LOCKED
  ), step AS (
    SELECT max(position) AS position FROM (
      SELECT position FROM changes
      WHERE position > (SELECT min(start) FROM turn)
        AND position <= LEAST((SELECT max(position) FROM changes) - $1::bigint, $2::bigint)
      ORDER BY position LIMIT 2000
    ) AS oldest
  ), removed AS (
    DELETE FROM changes USING step
    WHERE changes.position > (SELECT min(start) FROM turn) AND changes.position <= step.position
  )
  UPDATE change_feed SET gone = GREATEST(gone, step.position) FROM step WHERE step.position IS NOT NULL
  RETURNING step.position`);
