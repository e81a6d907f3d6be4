import { setTimeout as delay } from 'node:timers/promises';
import type { QueryResultRow } from 'pg';
import { aborted, DomainError } from '../../domain/errors.ts';
import { type PostgresPool, prepared, type Send, type Sql } from './pool.ts';
import { unlessAborted } from './session.ts';
import { shared } from './shared.ts';

/** What became of a read that was meant for a standby. */
export interface StandbyRead {
  /** Its `host:port`. */
  readonly host: string;
  /** When it was `late` or had `failed`, another server answered. */
  readonly outcome: 'answered' | 'late' | 'failed';
  /** How long the read waited until the standby had replayed what it must show, in milliseconds. */
  readonly waitMs: number;
  /** How much of the log it had still to replay when the read came, in bytes. */
  readonly lagBytes: number;
}

interface Standby {
  readonly host: string;
  readonly pool: Pick<PostgresPool, 'reads'>;
  /** Until then it is passed over, by `performance.now()`. */
  leftUntil: number;
}

/** A place in the log of a primary. After a failover the log goes on in another timeline. */
interface Place {
  readonly timeline: number;
  readonly bytes: number;
}

const flushed = prepared(`
  SELECT ('x' || left(pg_walfile_name(place), 8))::bit(32)::integer AS timeline,
    (place - '0/0')::float8 AS bytes
  FROM pg_current_wal_flush_lsn() AS place`);

// A standby of an earlier timeline may have replayed what the new primary does not have. Where the role may
// not see what the receiver does, the last checkpoint has the timeline, a while later.
const replayed = prepared(`
  SELECT GREATEST((SELECT timeline_id FROM pg_control_checkpoint()),
      (SELECT received_tli FROM pg_stat_wal_receiver)) AS timeline,
    (pg_last_wal_replay_lsn() - '0/0')::float8 AS bytes
  WHERE pg_is_in_recovery()`);

const maxWaitMs = 100;
const lookAgainMs = 1;
const leaveMs = 1_000;

/**
 * Reads from standbys that are never stale: each shows every write that was acknowledged before it began, by
 * any process. Reads that come together share one question to the primary for the end of its log, and
 * are answered by a standby that has replayed the log up to there. A standby that needs longer than 100 ms,
 * or fails, is left for a second; then the primary answers.
 */
export class StandbyReads {
  readonly #primary: Pick<PostgresPool, 'read'>;
  readonly #standbys: readonly Standby[];
  readonly #report: (read: StandbyRead) => void;
  readonly #askPrimary: () => Promise<Place>;
  /** What each connection is known to have replayed. A server that restarts may be behind that, on new ones. */
  readonly #places = new WeakMap<object, Place>();
  #turn = 0;

  constructor(
    primary: Pick<PostgresPool, 'read'>,
    standbys: readonly { readonly host: string; readonly pool: Pick<PostgresPool, 'reads'> }[],
    report: (read: StandbyRead) => void = () => {},
  ) {
    this.#primary = primary;
    this.#standbys = standbys.map((standby) => ({ ...standby, leftUntil: 0 }));
    this.#report = report;
    this.#askPrimary = shared(async () => {
      const [place] = await primary.read<Place & Record<string, number>>(flushed, []);
      if (place === undefined) throw new Error('a SELECT without a condition has a row');
      return place;
    });
  }

  async read<Row extends QueryResultRow>(
    sql: Sql,
    values: readonly unknown[],
    signal?: AbortSignal,
  ): Promise<Row[]> {
    const standby = this.#pick();
    const place = standby && (await this.#place(signal));
    const rows = place && (await this.#readFrom<Row>(standby, place, sql, values, signal));
    return rows ?? (await this.#primary.read<Row>(sql, values, signal));
  }

  #pick(): Standby | undefined {
    const now = performance.now();
    const present = this.#standbys.filter(({ leftUntil }) => leftUntil <= now);
    this.#turn += 1;
    return present[this.#turn % present.length];
  }

  /** The end of the log; `undefined` where the primary fails, which its own answer then shows. */
  #place(signal: AbortSignal | undefined): Promise<Place | undefined> {
    const place = this.#askPrimary().catch(() => undefined);
    return signal === undefined ? place : unlessAborted(place, signal);
  }

  /** `undefined` when another server has to answer. */
  async #readFrom<Row extends QueryResultRow>(
    standby: Standby,
    place: Place,
    sql: Sql,
    values: readonly unknown[],
    signal: AbortSignal | undefined,
  ): Promise<Row[] | undefined> {
    const since = performance.now();
    let waitMs = 0;
    let lagBytes = 0;
    let outcome: StandbyRead['outcome'] = 'answered';
    try {
      return await standby.pool.reads(async (send, connection) => {
        lagBytes = Math.max(0, place.bytes - (await this.#look(send, connection, place)).bytes);
        while (!isThere(this.#places.get(connection), place)) {
          waitMs = performance.now() - since;
          if (signal?.aborted) throw aborted(signal);
          if (waitMs > maxWaitMs) {
            outcome = 'late';
            return undefined;
          }
          await delay(lookAgainMs);
          await this.#look(send, connection, place);
        }
        waitMs = performance.now() - since;
        return await send<Row>(sql, values);
      }, signal);
    } catch (caught) {
      // A caller that has left, or a statement that takes too long, would fare no better at the primary.
      const { kind } = DomainError.from(caught);
      if (signal?.aborted || kind === 'deadline-exceeded') throw caught;
      outcome = 'failed';
      return undefined;
    } finally {
      if (outcome !== 'answered') standby.leftUntil = performance.now() + leaveMs;
      this.#report({ host: standby.host, outcome, waitMs, lagBytes });
    }
  }

  /** Looks how far a connection's server is, unless it is known to be there. */
  async #look(send: Send, connection: object, place: Place): Promise<Place> {
    const known = this.#places.get(connection);
    if (isThere(known, place)) return known;
    const [found] = await send<Place & Record<string, number>>(replayed);
    if (found === undefined) throw new Error('the server is not a standby');
    this.#places.set(connection, found);
    return found;
  }
}

function isThere(known: Place | undefined, { timeline, bytes }: Place): known is Place {
  return known !== undefined && known.timeline === timeline && known.bytes >= bytes;
}
