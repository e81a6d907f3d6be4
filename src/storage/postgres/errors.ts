import { DomainError, messageOf } from '../../domain/errors.ts';
import { idsExhausted } from '../../domain/record.ts';

/**
 * What a failure means for trying again:
 *
 * - `lost`: the connection died, and whether the statement took effect is not known
 * - `stale`: this connection cannot serve the statement, which had no effect; a new one may
 * - `unprepared`: a pooler has mixed up prepared statements; the same statement without a name has a chance
 * - `rolled-back`: the transaction lost against another one and had no effect
 * - `final`: trying again would fail again
 */
export type Fault = 'lost' | 'stale' | 'unprepared' | 'rolled-back' | 'final';

interface Meaning {
  readonly fault: Fault;
  readonly error: (cause: unknown) => DomainError;
}

const unavailable = (message: string) => (cause: unknown) =>
  new DomainError('unavailable', message, { cause });

export const notInTime = unavailable('the database does not answer in time');
const gone = unavailable('the connection to the database was lost');
const full = unavailable('the database has no capacity left');
const readOnly = unavailable('the database takes no writes at present');
const contended = unavailable('too many conflicting changes at once');
const locked = unavailable('what the request would change is locked by another one');

/** By SQLSTATE or how it begins. https://www.postgresql.org/docs/current/errcodes-appendix.html */
const meanings: Readonly<Record<string, Meaning>> = {
  '08': { fault: 'lost', error: gone },
  '2200H': { fault: 'final', error: idsExhausted },
  '23503': { fault: 'final', error: (cause) => new DomainError('conflict', 'a post has no user', { cause }) },
  // Of an idempotency key: another request with it was faster.
  '23505': { fault: 'rolled-back', error: contended },
  // A demoted primary or a standby; behind the address there may be another server by now.
  '25006': { fault: 'stale', error: readOnly },
  '25P03': { fault: 'lost', error: gone },
  // A prepared statement is not there, or is there already: the connection got another session.
  '26000': { fault: 'unprepared', error: gone },
  '40001': { fault: 'rolled-back', error: contended },
  '40P01': { fault: 'rolled-back', error: contended },
  '42P05': { fault: 'unprepared', error: gone },
  '53': { fault: 'final', error: full },
  '55P03': { fault: 'final', error: locked },
  '57014': {
    fault: 'final',
    error: (cause) => new DomainError('deadline-exceeded', 'the database took too long', { cause }),
  },
  // Ended by an administrator, a shutdown, the crash of another session, idleness; or not ready yet.
  '57P': { fault: 'lost', error: gone },
};

const unknown: Meaning = { fault: 'final', error: DomainError.from };

/** The five characters by which the server classes its errors; absent on every other error. */
export function sqlState(error: unknown): string | undefined {
  // System errors have a `code` too, and EPIPE is as long; only the server knows severities.
  const isFromServer = error instanceof Error && 'severity' in error && 'code' in error;
  return isFromServer && typeof error.code === 'string' ? error.code : undefined;
}

export function faultOf(error: unknown): Fault {
  return meaningOf(error).fault;
}

/** Converts what a statement failed with; `fault` is what is known of it beyond the error itself. */
export function toDomainError(error: unknown, fault: Fault): DomainError {
  const { error: convert } = meaningOf(error);
  const isUnknown = convert === unknown.error && !(error instanceof DomainError);
  return fault === 'lost' && isUnknown ? gone(error) : convert(error);
}

/** A connection could not be had: whatever the reason, the store cannot be reached. */
export function cannotConnect(cause: unknown): DomainError {
  return new DomainError('unavailable', 'the database cannot be reached', { cause });
}

export function overloaded(): DomainError {
  return new DomainError('overloaded', 'too many requests wait for the database');
}

/** Whether the pool had no free connection in time, which its driver reports by this text alone. */
export function isWaitTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'timeout exceeded when trying to connect';
}

/** The refusal to open a store, written for the operator: where, and why, but never the password. */
export function cannotOpen(hosts: string, caught: unknown): DomainError {
  const cause = caught instanceof DomainError ? (caught.cause ?? caught) : caught;
  return new DomainError('unavailable', `PostgreSQL at ${hosts} cannot be used: ${messageOf(cause)}`, {
    cause,
  });
}

function meaningOf(error: unknown): Meaning {
  const state = sqlState(error);
  if (state === undefined) return unknown;
  return meanings[state] ?? meanings[state.slice(0, 3)] ?? meanings[state.slice(0, 2)] ?? unknown;
}
