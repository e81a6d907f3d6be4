import { DomainError, idsExhausted, messageOf, stillReferenced, valueTaken } from '../../domain/errors.ts';

/** Primary result codes (sqlite.org/rescode.html) of a database that cannot be used. */
const unusable = {
  busy: 5, // another process kept the lock for longer than the busy timeout
  locked: 6,
  noMemory: 7,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  protocol: 15, // other processes kept the locks of the log for too long
  notADatabase: 26,
};
// Not that of a primary key.
const uniqueConstraint = 2067;

/** Converts an error of SQLite, or of the system while it checks the files, into a `DomainError`. */
export function toDomainError(caught: unknown): DomainError {
  if (isIdRejected(caught)) return idsExhausted();
  if (isForeignKeyRejected(caught)) return stillReferenced(caught);
  if (resultCode(caught) === uniqueConstraint) return valueTaken(caught);
  const isOfSystem = Error.isError(caught) && 'syscall' in caught;
  const isUnavailable = isOfSystem || Object.values(unusable).includes(primaryCode(caught));
  return isUnavailable ? unavailable(caught) : DomainError.from(caught);
}

/** The failure of a call while the store cannot be used. The cause is for the operator. */
export function unavailable(cause?: unknown): DomainError {
  return new DomainError('unavailable', 'the store is not available', { cause });
}

/** An error with the result code in its message, if a full or broken disk is the cause; else `undefined`. */
export function diskError(caught: unknown): Error | undefined {
  if (![unusable.ioError, unusable.full].includes(primaryCode(caught))) return undefined;
  return new Error(`${messageOf(caught)} (code ${resultCode(caught)} of SQLite)`, { cause: caught });
}

export function isBusy(caught: unknown): boolean {
  return primaryCode(caught) === unusable.busy;
}

/** Whether the connection cannot write, because SQLite could open one of its files only for reading. */
export function isReadOnly(caught: unknown): boolean {
  return primaryCode(caught) === unusable.readOnly;
}

/** Whether a new id would be too high. Its result code is no sign: a CHECK of another program has the same. */
function isIdRejected(caught: unknown): boolean {
  return Error.isError(caught) && caught.message === 'CHECK constraint failed: id BETWEEN 1 AND 2147483647';
}

/** Whether a foreign key prevents a write. Its result code is no sign: with RESTRICT it is that of a trigger. */
export function isForeignKeyRejected(caught: unknown): boolean {
  return Error.isError(caught) && caught.message === 'FOREIGN KEY constraint failed';
}

function resultCode(caught: unknown): number {
  return Error.isError(caught) && 'errcode' in caught ? Number(caught.errcode) : 0;
}

// An extended code has its primary code in the low byte.
function primaryCode(caught: unknown): number {
  return resultCode(caught) & 0xff;
}
