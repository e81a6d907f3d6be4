import { addAbortListener } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { aborted, DomainError, unlessAborted } from '../../domain/errors.ts';
import { coalesced } from '../../domain/promises.ts';
import { firstOf, prepared, type Send } from './connection.ts';
import type { PostgresPool } from './pool.ts';

/** The outcome of a read that was meant for a standby. */
export interface StandbyRead {
  /** The `host:port` of the standby. */
  readonly host: string;
  /**
   * After `late` and `failed`, the primary served the read. After `skipped`, because the standby was late or failed
   * shortly before, another standby or the primary did.
   */
  readonly outcome: 'answered' | 'late' | 'failed' | 'skipped';
  /** How long the read waited until the standby had the necessary log, or no longer served it, in milliseconds. */
  readonly waitMs: number;
  /** How much of the log the standby still had to replay at the start of the read, in bytes. */
  readonly lagBytes: number;
}

/** @internal */
interface Standby {
  readonly host: string;
  readonly pool: Pick<PostgresPool, 'reads' | 'ping'>;
}

/** A position in the write-ahead log of a primary. */
interface LogPosition {
  /** The cluster, timeline, `users` table and database: those of a standby may not be the primary's. */
  readonly history: string;
  readonly bytes: number;
}

type ReadCall = Parameters<PostgresPool['read']>;

// The same on a primary and its standbys, once they have replayed the creation of the table.
const storeId = `to_regclass('users')::oid, current_database()`;

const flushed = prepared(`
  SELECT concat_ws('/', (pg_control_system()).system_identifier,
      ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::integer, ${storeId}) AS history,
    (lsn - '0/0')::bigint AS bytes
  FROM pg_current_wal_flush_lsn() AS lsn`);

// The timeline matters because a standby of an earlier one may have replayed writes that the new primary lacks. If the
// role may not read `pg_stat_wal_receiver`, the timeline comes from the last checkpoint, which is updated later.
const replayed = prepared(`
  SELECT concat_ws('/', (pg_control_system()).system_identifier,
      GREATEST((pg_control_checkpoint()).timeline_id, (SELECT received_tli FROM pg_stat_wal_receiver)),
      ${storeId}) AS history,
    (pg_last_wal_replay_lsn() - '0/0')::bigint AS bytes
  WHERE pg_is_in_recovery()`);

const maxWaitMs = 100;
const pollIntervalMs = 1;
const skipMs = 1_000;

/**
 * Reads from standbys, but never stale data: each read shows every write that was acknowledged before it began.
 * Concurrent reads ask the primary once for the end of its log. Each then waits until a standby has replayed the log up
 * to there. If that fails or takes longer than 100 ms, the primary serves the read, and the standby is not used for a
 * second. Once sent, a read goes to the primary only after an error or a failed ping. @internal
 */
export function standbyReads(
  primary: Pick<PostgresPool, 'read'>,
  standbys: readonly Standby[],
  onRead: (read: StandbyRead) => void = () => {},
): Pick<PostgresPool, 'read'> {
  /** The standbys that reads do not use, each with the time of its next ping. Those of a pool share a running one. */
  const skipped = new Map<Standby, number>();
  /** The replayed position by connection, because a restarted standby may be further behind. */
  const replayedBy = new WeakMap<object, LogPosition>();
  // The connections of the feed do not queue behind writes that wait for a lock.
  const askPrimary = coalesced(async () =>
    firstOf(await primary.read<LogPosition>(flushed, [], undefined, 'feed')),
  );
  let count = 0;
  const report = ({ host }: Standby, outcome: StandbyRead['outcome'], waitMs = 0, lagBytes = 0) => {
    // In a microtask, an error is an uncaught exception, which does not fail the read.
    queueMicrotask(() => onRead({ host, outcome, waitMs, lagBytes }));
  };
  const skip = (standby: Standby) => skipped.set(standby, performance.now() + skipMs);
  const retry = (standby: Standby) => {
    const use = () => skipped.delete(standby);
    standby.pool.ping(replayed).then(use, () => skip(standby));
  };

  /** The replayed position of a connection. Asks for it unless the known one is far enough. */
  const positionOf = async (connection: object, send: Send, needed: LogPosition): Promise<LogPosition> => {
    const known = replayedBy.get(connection);
    if (includes(known, needed)) return known;
    const [current] = await send<LogPosition>(replayed);
    if (current === undefined) throw new Error('the server is not a standby');
    replayedBy.set(connection, current);
    return current;
  };

  /** Resolves to `undefined` if the primary must serve the read. */
  const readFrom = async <Row extends object>(standby: Standby, [sql, values, signal, purpose]: ReadCall) => {
    // If the primary fails, the read on it reports the failure.
    const asked = askPrimary().catch(() => undefined);
    const needed = await unlessAborted(asked, signal);
    if (needed === undefined) {
      // The role may lack the right to ask, so the next reads do not ask.
      skip(standby);
      report(standby, 'failed');
      return undefined;
    }
    const since = performance.now();
    let sentAt: number | undefined;
    let lagBytes: number | undefined;
    const waitedMs = () => (sentAt ?? performance.now()) - since;
    const ending = new AbortController();
    using _ = signal && addAbortListener(signal, () => ending.abort(signal.reason));
    // Before the read is sent, this ends it after 100 ms. Afterwards only a failed ping does.
    // Not `using`: a test of the host may mock timers, and such a timer is not disposable.
    const timer = setInterval(() => {
      if (sentAt === undefined) ending.abort();
      standby.pool.ping(replayed).catch(() => {
        skip(standby);
        ending.abort();
      });
    }, maxWaitMs);
    try {
      const rows = await standby.pool.reads(
        async (send, connection) => {
          for (;;) {
            const known = await positionOf(connection, send, needed);
            lagBytes ??= Math.max(0, needed.bytes - known.bytes);
            if (ending.signal.aborted) throw aborted(ending.signal);
            // Another attempt may be on a connection to a restarted standby, which is further behind.
            sentAt = includes(known, needed) ? performance.now() : undefined;
            if (sentAt !== undefined) return await send<Row>(sql, values);
            await delay(pollIntervalMs);
          }
        },
        ending.signal,
        purpose,
      );
      report(standby, 'answered', waitedMs(), lagBytes);
      return rows;
    } catch (caught) {
      // After an abort or a statement timeout, do not retry on the primary: the result would be the same.
      const { kind } = DomainError.from(caught);
      if (signal?.aborted || kind === 'deadline-exceeded') throw caught;
      const outcome = ending.signal.aborted && sentAt === undefined ? 'late' : 'failed';
      report(standby, outcome, waitedMs(), lagBytes);
      // If no position was read, perhaps all connections are busy: reads that have one continue to use the standby.
      if (outcome === 'failed' || lagBytes !== undefined) skip(standby);
      return undefined;
    } finally {
      clearInterval(timer);
    }
  };

  return {
    async read<Row extends object>(...call: ReadCall): Promise<Row[]> {
      const usable = standbys.filter((standby) => !skipped.has(standby));
      for (const [standby, until] of skipped) {
        report(standby, 'skipped');
        if (until <= performance.now()) retry(standby);
      }
      count += 1;
      // `undefined` if none is usable.
      const standby = usable[count % usable.length];
      const rows = standby && (await readFrom<Row>(standby, call));
      return rows ?? (await primary.read<Row>(...call));
    },
  };
}

/** Whether a log that was replayed up to one position contains everything up to another. */
function includes(known: LogPosition | undefined, needed: LogPosition): known is LogPosition {
  return known?.history === needed.history && known.bytes >= needed.bytes;
}
