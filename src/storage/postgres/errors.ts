import { DomainError, idsExhausted, messageOf, stillReferenced, valueTaken } from '../../domain/errors.ts';

/** The kinds of failures of a statement, each with the maximum number of times that it is sent. */
export const attempts = {
  // The connection was lost, and its generation is abandoned. A write may have taken effect, so it is sent once.
  lost: { read: 2, write: 1 },
  // Only this session has ended. A write may have taken effect too.
  ended: { read: 2, write: 1 },
  // The statement had no effect, and a new connection may serve it.
  stale: { read: 2, write: 2 },
  // A pooler has mixed up prepared statements. The statement may succeed without a name.
  unprepared: { read: 2, write: 2 },
  // A column has another type, so each session must prepare its statements again. The statement had no effect.
  outdated: { read: 2, write: 2 },
  // The transaction conflicted with another one, and had no effect.
  'rolled-back': { read: 6, write: 6 },
  // A unique index has the value, perhaps from a request with the same idempotency key, which a retry then finds.
  taken: { read: 1, write: 2 },
  final: { read: 1, write: 1 },
} as const;

export type Fault = keyof typeof attempts;

export interface Meaning {
  readonly fault: Fault;
  readonly error: (cause: unknown) => DomainError;
}

const unavailable = (message: string) => (cause: unknown) =>
  new DomainError('unavailable', message, { cause });

export const notInTime = unavailable('the database does not answer in time');
const gone = unavailable('the connection to the database was lost');
const full = unavailable('the database has no capacity left');
const failing = unavailable('the database cannot read or write its files');
const readOnly = unavailable('the database takes no writes at present');
export const contended = unavailable('too many conflicting changes at once');
const unreachable = unavailable('the database cannot be reached');
const locked = unavailable('another transaction has locked the records to change');
const referenced: Meaning = { fault: 'final', error: stillReferenced };
const taken: Meaning = { fault: 'taken', error: valueTaken };
const tookTooLong = (cause: unknown) =>
  new DomainError('deadline-exceeded', 'the database took too long', { cause });

export const overloaded = () => new DomainError('overloaded', 'too many requests wait for the database');

/** By SQLSTATE or its start, some with a severity. https://www.postgresql.org/docs/current/errcodes-appendix.html */
const meanings: Readonly<Record<string, Meaning>> = {
  '08': { fault: 'lost', error: gone },
  '2200H': { fault: 'final', error: idsExhausted },
  '23001': referenced,
  '23503': referenced,
  '23505': { fault: 'rolled-back', error: contended },
  // A standby or a demoted primary. By now, the address may lead to another server.
  '25006': { fault: 'stale', error: readOnly },
  '25P03': { fault: 'lost', error: gone },
  // `transaction_timeout` ends the session too.
  '25P04': { fault: 'lost', error: tookTooLong },
  // A prepared statement is missing, or exists already: the pooler has changed the session.
  '26000': { fault: 'unprepared', error: gone },
  '40001': { fault: 'rolled-back', error: contended },
  '40P01': { fault: 'rolled-back', error: contended },
  '42P05': { fault: 'unprepared', error: gone },
  '53': { fault: 'final', error: full },
  // No transaction id is left.
  '54000': { fault: 'final', error: full },
  '55P03': { fault: 'final', error: locked },
  '57014': { fault: 'final', error: tookTooLong },
  // Ended by an administrator, a shutdown, a crash of another session or a timeout; or still starting.
  '57P': { fault: 'lost', error: gone },
  // `idle_session_timeout` ends only an idle session, so the statement had no effect.
  '57P05': { fault: 'stale', error: gone },
  '58': { fault: 'final', error: failing },
  // Damaged data, and a damaged index.
  XX001: { fault: 'final', error: failing },
  XX002: { fault: 'final', error: failing },
  // The errors of poolers themselves, such as a session that is not free in time: of pgcat, and of Supavisor.
  'FATAL 58000': { fault: 'final', error: unreachable },
  'FATAL XX000': { fault: 'ended', error: gone },
};

const lost: Meaning = { fault: 'lost', error: gone };
const other: Meaning = { fault: 'final', error: DomainError.from };

/** The SQLSTATE of an error of the server; `undefined` for every other error. */
export function sqlState(error: unknown): string | undefined {
  // System errors have a `code` too, such as EPIPE, but only errors of the server have a severity.
  const isFromServer = Error.isError(error) && 'severity' in error && 'code' in error;
  return isFromServer && typeof error.code === 'string' ? error.code : undefined;
}

/** What the error of a statement means. One of the driver has no SQLSTATE, but its connection may have ended. */
export function meaningOf(error: unknown, isEnded = false): Meaning {
  const state = sqlState(error);
  if (state === undefined) return isEnded && !(error instanceof DomainError) ? lost : other;
  // The unique indexes of the service are its primary keys. PostgreSQL adds a number to a name that is taken.
  const { constraint, routine } = Object(error);
  if (state === '23505' && typeof constraint === 'string' && !/_pkey\d*$/.test(constraint)) return taken;
  // The columns of a prepared statement have changed. This error shares its SQLSTATE with others.
  if (routine === 'RevalidateCachedQuery') return { fault: 'outdated', error: gone };
  const ofPooler = isFatal(error) ? meanings[`FATAL ${state}`] : undefined;
  return ofPooler ?? meanings[state] ?? meanings[state.slice(0, 3)] ?? meanings[state.slice(0, 2)] ?? other;
}

/** Whether the sender has ended the session. Poolers report this in English, but PostgreSQL in its language. */
export function isFatal(error: unknown): boolean {
  return Error.isError(error) && 'severity' in error && error.severity === 'FATAL';
}

/** The error of an attempt to connect. The driver's own does not say that the URL has no password. */
export function connectError(caught: unknown): unknown {
  return /password must be a.* string/.test(messageOf(caught))
    ? new Error('it requires a password: write USER:PASSWORD@HOST in the URL')
    : caught;
}

// This machine lacks descriptors, ports, memory or DNS. Not ENOTFOUND: in Kubernetes, a failed pod loses its name.
const localFailures = ['EAI_AGAIN', 'EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM'];

/** Whether open connections may still work: the server refuses only further ones, or this machine is the cause. */
export function isRefusal(cause: unknown): boolean {
  if (!Error.isError(cause)) return false;
  const isLocal = 'code' in cause && localFailures.includes(String(cause.code));
  // PgBouncer reports each refusal as a violation of the protocol, pgcat as 58000, and Supavisor as XX000. The role may
  // have lost the right to connect (42501), or the database may accept no more connections (55000).
  const isReported = /^(08P01|28|42501|53|55000|58000|XX000)/.test(sqlState(cause) ?? '');
  // The error of several hosts has a refusal as its cause.
  return isLocal || isReported || isRefusal(cause.cause);
}

export function cannotConnect(cause: unknown): DomainError {
  return meaningOf(cause).error === full ? full(cause) : unreachable(cause);
}

/** The error of a store that cannot be opened. Its message has the hosts and the reason, but no password. */
export function cannotOpen(hosts: string, caught: unknown): DomainError {
  const cause = caught instanceof DomainError ? (caught.cause ?? caught) : caught;
  const message = `PostgreSQL at ${hosts} cannot be used: ${messageOf(cause)}`;
  return new DomainError('unavailable', message, { cause });
}
